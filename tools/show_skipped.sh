#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/show_skipped.sh BUILD: counts and names the tests that skipped themselves in BUILD's last ctest run, with their reasons.
set -eu
log=${1:-}/Testing/Temporary/LastTest.log
if [ ! -f "$log" ]; then
  echo "show_skipped: no $log; expected a build folder in which ctest ran" >&2
  exit 2
fi
count=$(grep -c '^\[  SKIPPED \] .* ms)$' "$log" || true)
echo "$count tests skipped"
if [ "$count" != 0 ]; then
  grep -B 3 '^\[  SKIPPED \] .* ms)$' "$log" | grep -v -e '^\[ RUN' -e '^--' -e '^$' -e '^\[       OK'
fi
