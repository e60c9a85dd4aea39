#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/nixl.sh [--require]: installs NIXL's package for the tests of its transport, in an environment of its own that build/nixl leads
# to. Where there is none for this platform or Python, or no way to the package index, it says so, and those tests skip themselves; any
# other failure is one of this script. With --require, or where the variable CI is set, every failure is.
set -eu
cd "$(dirname "$0")/.."
case "${1:-}" in
  '') required=${CI:-} ;;
  --require) required=yes ;;
  *) sed -n '3,5s/^# //p' "$0" >&2; exit 2 ;;
esac
mkdir -p build

status=0
python=$(tools/engines.py make nixl) || status=$?
if [ "$status" = 0 ]; then
  ln -sfn "$("$python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')" build/nixl
  exit 0
fi
rm -f build/nixl
case $status in
  3) why="there is no package for this platform or Python" ;;
  4) why="the package index cannot be reached" ;;
  *) echo "tools/nixl.sh: NIXL could not be installed" >&2; exit 1 ;;
esac
if [ -n "$required" ]; then
  echo "tools/nixl.sh: no NIXL: $why, and it is required here" >&2
  exit 1
fi
echo "tools/nixl.sh: no NIXL: $why; its tests skip themselves"
