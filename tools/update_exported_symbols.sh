#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/update_exported_symbols.sh [BUILD]: writes tests/package/exported_symbols.txt anew, from the whole shared library of BUILD
# (default build/release). Read the difference before you commit it.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release}
if [ ! -f "$build/CMakeCache.txt" ]; then
  echo "update_exported_symbols: $build is not a configured build folder" >&2
  exit 2
fi
cmake --build "$build" --target folio_shared
python3 tests/lint/objects.py exported "$build/tests/package/shared/libfolio.so" tests/package/exported_symbols.txt --write
git --no-pager diff --stat -- tests/package/exported_symbols.txt
