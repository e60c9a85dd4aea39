#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/tidy.sh [BUILD]: clang-tidy-16 over src/ with the compile commands of BUILD (default build/clang); no warning passes.
set -eu
cd "$(dirname "$0")/.."
git ls-files -z -- 'src/*.cpp' | xargs -0 -n 1 -P "$(nproc)" clang-tidy-16 -p "${1:-build/clang}" --quiet 2>/dev/null
