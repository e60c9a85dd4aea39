#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/show_skipped.sh BUILD: counts and names the tests that skipped themselves in BUILD's last ctest run, with their reasons: cases of
# GoogleTest and of Python's unittest, and whole tests of ctest (folio_expect's MAY_SKIP, SKIP_REGULAR_EXPRESSION).
set -eu
log=${1:-}/Testing/Temporary/LastTest.log
if [ ! -f "$log" ]; then
  echo "show_skipped: no $log; expected a build folder in which ctest ran" >&2
  exit 2
fi
awk '
  function skipped(what, why) { lines[++count] = test ": " what (what != "" && why != "" ? ": " : "") why }
  function end_of_unittest(   rest) {  # cases that it counts and has not named
    if (!match($0, /skipped=[0-9]+/)) return
    for (rest = substr($0, RSTART + 8, RLENGTH - 8) - named; rest > 0; --rest) skipped("", "a case that does not say why")
  }

  /^[0-9]+\/[0-9]+ Testing: / { test = $3; is_output = 0; last = "" }
  is_output == 0 && /^Output:$/ { is_output = 1; named = 0; next }
  is_output && /^<end of output>$/ {
    is_output = 0
    if (sub(/^expect.py: skipped: /, "", last)) skipped("", last)
    next
  }
  is_output == 0 && /^Skip regular expression found/ { skipped("", last) }
  is_output == 0 { next }

  /[^ ]/ { last = $0 }
  /^\[ RUN      \] / { why = "" }
  /^\[  SKIPPED \] .* ms\)$/ { skipped($4, why); next }
  / \.\.\. skipped / {
    what = $0
    sub(/ \.\.\. skipped .*/, "", what)
    sub(/^ */, "", what)
    sub(/.* \.\.\. skipped ./, "")
    sub(/.$/, "")  # its quotes
    skipped(what, $0)
    ++named
    next
  }
  /^(OK|FAILED) \(.*skipped=/ { end_of_unittest() }
  /: Skipped$/ { why = ""; next }
  /[^ ]/ { why = why (why != "" ? " " : "") $0 }

  END {
    print count + 0 " tests skipped"
    for (i = 1; i <= count; ++i) print "  " lines[i]
  }' "$log"
