#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/tidy.sh [BUILD]: clang-tidy-16 over the library, its headers, the tool and the benches with the compile commands of BUILD (default
# build/asan, the build by clang); no warning passes. The benches are looked at where BUILD has them.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/asan}
if [ ! -f "$build/compile_commands.json" ]; then
  echo "tidy: no $build/compile_commands.json; expected a configured build folder" >&2
  exit 2
fi
sources=$(git ls-files -- 'src/*.cpp' 'cli/*.cpp' 'bench/*.cpp')
# Only what BUILD compiles: not the other executor, nor the other architectures' sources.
for source in $sources; do
  if grep -qF "\"file\": \"$PWD/$source\"" "$build/compile_commands.json"; then
    printf '%s\0' "$source"
  fi
done | xargs -0 -n 1 -P "$(nproc)" clang-tidy-16 -p "$build" --quiet 2>/dev/null
