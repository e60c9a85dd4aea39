# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# findings/support.sh: what every find beside it shares; a script sources it, then calls these, once each and in this order.
#
#   need NAME==VERSION ...    installs these packages, and nothing that they ask for, into a temporary folder that goes with the script
#   [older NAME==VERSION ...] installs an older release beside them; the program finds it in the folder that the variable OLDER names
#   [skip_init PACKAGE]       empties the package's __init__.py, where that imports much that the find has no use for
#   [stand_in MODULE ...]     puts empty modules for these and what is in them, which the find's packages import and it has no use for
#   expect TEXT               what a good engineer would guess, as the program of `see` would print it
#   see TEXT <<'PYTHON'       runs the program with these packages, and ends with 0 if it prints just TEXT
#
# The variable PYTHON names the interpreter, python3 if unset. Exit status: 0 as recorded, 1 otherwise (changed, or could not be run).
set -eu
: "${PYTHON:=python3}"
folder=$(mktemp -d)
trap 'status=$?; rm -rf "$folder"; [ "$status" = 0 ] || exit 1' EXIT
trap 'exit 1' INT TERM HUP

install() {
  target=$1
  shift
  "$PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --no-compile \
    --root-user-action ignore --target "$target" "$@"
  installed=$("$PYTHON" -m pip list --disable-pip-version-check --path "$target" --format freeze | tr '\n' ' ')
  echo "version:  ${installed% }"
}

need() {
  install "$folder/packages" "$@"
}

older() {
  install "$folder/older" "$@"
}

skip_init() {
  for package in "$folder/packages/$1" "$folder/older/$1"; do
    if [ -d "$package" ]; then : >"$package/__init__.py"; fi
  done
}

stand_in() {
  cp "$(dirname "$0")/stand_in.py" "$folder/packages/sitecustomize.py"
  stand_ins=$*
  echo "stand-in: $stand_ins"
}

expect() {
  expected=$1
  echo "expected: $expected"
}

see() {
  status=0
  (
    export STAND_INS="${stand_ins-}" OLDER="$folder/older" PYTHONPATH="$folder/packages" PYTHONDONTWRITEBYTECODE=1
    cd "$folder" && "$PYTHON" - >seen 2>errors
  ) || status=$?
  seen=$(cat "$folder/seen")
  echo "seen:     $seen"
  if [ "$status" != 0 ]; then
    tail -n 20 "$folder/errors" >&2
    echo "$0: the program failed with $status" >&2
    exit 1
  elif [ "$seen" = "$expected" ]; then
    echo "$0: the surprise is gone: this version does what was expected" >&2
    exit 1
  elif [ "$seen" != "$1" ]; then
    echo "$0: recorded was: $1" >&2
    exit 1
  fi
}
