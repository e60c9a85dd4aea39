#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/update_exported_symbols.sh [BUILD]: writes tests/package/exported_symbols.txt anew, from the shared library that
# `ctest -R package.add_subdirectory` makes in BUILD (default build/release). Read the difference before you commit it.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release}
ctest --test-dir "$build" -R '^package.add_subdirectory$' --output-on-failure
python3 tests/lint/objects.py exported "$build/tests/package/add_subdirectory/folio/src/libfolio.so" \
  tests/package/exported_symbols.txt --write
git --no-pager diff --stat -- tests/package/exported_symbols.txt
