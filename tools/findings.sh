#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/findings.sh [NAME ...]: runs the finds of findings/, all or these, one after the other, each in a temporary folder of its own that
# it removes; then a line for each: as recorded or not, and its seconds. Status 1 if one is not as recorded. Needs PyPI; CI does not run it.
set -eu
cd "$(dirname "$0")/../findings"
if [ $# = 0 ]; then
  for script in *.sh; do
    if [ "$script" != support.sh ]; then set -- "$@" "${script%.sh}"; fi
  done
fi
for name in "$@"; do
  if [ "$name" = support ] || [ ! -f "$name.sh" ]; then
    echo "tools/findings.sh: findings/$name.sh is no find" >&2
    exit 2
  fi
done

status=0 table=
for name in "$@"; do
  echo "== $name"
  begin=$(date +%s)
  verdict="as recorded"
  "./$name.sh" || { verdict="NOT as recorded" status=1; }
  table="$table$(printf '%-40s %-16s %4d s' "$name" "$verdict" "$(($(date +%s) - begin))")
"
done
printf '\n%s' "$table"
exit $status
