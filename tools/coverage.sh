#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/coverage.sh: line coverage of include/ and src/ by the tests: build/coverage/report.txt (and .html beside it).
set -eu
cd "$(dirname "$0")/.."
cmake --preset coverage
cmake --build --preset coverage
find build/coverage -name '*.gcda' -delete
ctest --preset coverage
gcovr --root . --filter include/ --filter src/ --object-directory build/coverage --exclude-unreachable-branches \
  --html build/coverage/report.html --txt build/coverage/report.txt --print-summary build/coverage
cat build/coverage/report.txt
