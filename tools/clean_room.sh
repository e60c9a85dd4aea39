#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tools/clean_room.sh [GOAL|DOCUMENT ...]: proves the README and documents on a machine that has
# nothing: a minimal Debian 12 with git and make only, a clean clone of HEAD, then `make GOAL` for
# each goal (default: demo test python), and the commands of each DOCUMENT (docs/engines.md) that
# begin with a clone, as they stand there: tools/three_commands.py, which serves models on port
# 8000. Needs root, debootstrap and, for documents, python3; takes packages from the mirror and the
# Python index that this system uses, and about 4 GB under TMPDIR until it ends, for documents 12.
# Prints PASS or FAIL with the times.
set -euo pipefail
cd "$(dirname "$0")/.."
repository=$PWD
case "${1:-}" in -*) sed -n '3,9s/^# //p' "$0" >&2; exit 2 ;; esac

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
  umount "$system/dev/shm" "$system/sys" "$system/proc" 2>/dev/null || true
  rm -rf --one-file-system "$room"
}
trap leave EXIT

include=git,make
case $mirror in https:*) include=$include,ca-certificates ;; esac
debootstrap --variant=minbase --include=$include bookworm "$system" "$mirror" >"$room/debootstrap.log" ||
  { tail "$room/debootstrap.log"; exit 1; }
# As a machine that has booted has them: engines ask for processors, and share memory.
mount -t proc proc "$system/proc"
mount -t sysfs -o ro sysfs "$system/sys"
rm -rf "$system/dev/shm"
mkdir "$system/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$system/dev/shm"
cp /etc/resolv.conf "$system/etc/resolv.conf"
apt-config dump | grep -i '^Acquire::https\?::Proxy ' >"$system/etc/apt/apt.conf.d/proxy" || true

# How this system reaches the network: proxies, certificates, and pip's settings, as variables for the room's commands.
cp /etc/hosts "$system/etc/hosts"
mkdir -p "$system/usr/local/share/ca-certificates" "$system/root/certificates"
cp -rL /usr/local/share/ca-certificates/. "$system/usr/local/share/ca-certificates/" 2>/dev/null || true
surroundings=(HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8)
carry() {  # carry NAME VALUE: sets a variable; a file that it names comes along
  local value=$2
  if [ -f "$value" ]; then
    cp -L "$value" "$system/root/certificates/$1"
    value=/root/certificates/$1
  fi
  surroundings+=("$1=$value")
}
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY SSL_CERT_FILE; do
  [ -z "${!name:-}" ] || carry "$name" "${!name}"
done
pip_settings=$(python3 -m pip config list 2>/dev/null || true)
while IFS='=' read -r name value; do  # lines like global.index-url='...'; what the environment sets wins
  name=${name##*.} value=${value#\'} value=${value%\'}
  name=PIP_$(tr a-z- A-Z_ <<<"$name")
  [ -z "$value" ] || [ -d "$value" ] || carry "$name" "$value"
done < <(grep -v '^:env:' <<<"$pip_settings"; grep '^:env:' <<<"$pip_settings")

git clone --quiet --no-hardlinks "$repository" "$system/root/folio"
commit=$(git -C "$system/root/folio" rev-parse --short HEAD)

# What the room must not have, or it proves nothing.
for tool in cc c++ g++ cmake ninja python3; do
  if chroot "$system" sh -c "command -v $tool" >/dev/null; then
    echo "FAIL: the fresh system already has $tool"
    exit 1
  fi
done

[ $# != 0 ] || set -- demo test python
result=PASS
times=
documents=()
in_room=(chroot "$system" /usr/bin/env -i "${surroundings[@]}")
for goal in "$@"; do
  case $goal in *.md) documents+=("$goal"); continue ;; esac
  start=$SECONDS
  "${in_room[@]}" make -C /root/folio "$goal" || result=FAIL
  times="$times, make $goal $((SECONDS - start)) s"
done
if [ ${#documents[@]} != 0 ]; then
  start=$SECONDS
  mkdir "$system/root/newcomer"
  tools/three_commands.py /root/newcomer /root/folio "${documents[@]}" -- "${in_room[@]}" || result=FAIL
  times="$times, ${documents[*]} $((SECONDS - start)) s"
fi
echo "$result: $commit on a minimal Debian 12${times}"
[ $result = PASS ]
