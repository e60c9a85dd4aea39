#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tools/clean_room.sh [GOAL ...]: proves the README on a machine that has nothing: a minimal Debian 12 with git and make only, a
# clean clone of HEAD, then `make GOAL` for each goal (default: demo test). Needs root and debootstrap; takes packages from the mirror
# that this system uses, and about 4 GB under TMPDIR until it ends. Prints PASS or FAIL with the times.
set -euo pipefail
cd "$(dirname "$0")/.."
repository=$PWD
case "${1:-}" in -*) sed -n '3,5s/^# //p' "$0" >&2; exit 2 ;; esac

mirror=$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true; } |
  awk '$1 == "URIs:" { uri = $2 } $1 == "Suites:" && $2 == "bookworm" { print uri; exit }
       $1 == "deb" { for (i = 2; i < NF; ++i) if ($i !~ /^\[|\]$/ && $(i + 1) == "bookworm") { print $i; exit } }')
if [ -z "$mirror" ]; then
  echo "FAIL: this system's apt sources name no mirror of bookworm" >&2
  exit 1
fi

room=$(mktemp -d -t folio_clean_room.XXXXXX)
system=$room/system
leave() {
  umount "$system/proc" 2>/dev/null || true
  rm -rf --one-file-system "$room"
}
trap leave EXIT

include=git,make
case $mirror in https:*) include=$include,ca-certificates ;; esac
debootstrap --variant=minbase --include=$include bookworm "$system" "$mirror" >"$room/debootstrap.log" ||
  { tail "$room/debootstrap.log"; exit 1; }
mount -t proc proc "$system/proc"
cp /etc/resolv.conf "$system/etc/resolv.conf"
apt-config dump | grep -i '^Acquire::https\?::Proxy ' >"$system/etc/apt/apt.conf.d/proxy" || true
git clone --quiet --no-hardlinks "$repository" "$system/root/folio"
commit=$(git -C "$system/root/folio" rev-parse --short HEAD)

# What the room must not have, or it proves nothing.
for tool in cc c++ g++ cmake ninja python3; do
  if chroot "$system" sh -c "command -v $tool" >/dev/null; then
    echo "FAIL: the fresh system already has $tool"
    exit 1
  fi
done

[ $# != 0 ] || set -- demo test
result=PASS
times=
for goal in "$@"; do
  start=$SECONDS
  chroot "$system" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    make -C /root/folio "$goal" || result=FAIL
  times="$times, make $goal $((SECONDS - start)) s"
done
echo "$result: $commit on a minimal Debian 12${times}"
[ $result = PASS ]
