#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/install_dependencies.sh [ci|coverage|python]: installs the Debian packages that folio is built and tested with. `ci` and
# `coverage` add what only those checks need; `python` is what the Python package needs, alone. Does nothing, and needs no network,
# where all are present. As root, or with sudo.
set -eu

python="g++ cmake ninja-build python3 python3-dev python3-venv libxxhash-dev
        libisal-dev liburing-dev libhiredis-dev libssl-dev libzmq3-dev nlohmann-json3-dev libucx-dev"
packages="$python pkg-config libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev libboost-context-dev libcli11-dev
          libfmt-dev redis-server libcurl4-openssl-dev libcivetweb-dev libjs-chart.js prometheus-cpp-dev python3-prometheus-client"
case "${1:-}" in
  ci) packages="$packages clang-16 clang-format-16 clang-tidy-16 libclang-rt-16-dev libomp-16-dev
                g++-12-aarch64-linux-gnu qemu-user ccache googletest chromium chromium-driver python3-selenium" ;;
  coverage) packages="$packages gcovr" ;;
  python) packages=$python ;;
  '') ;;
  *) sed -n '3,5s/^# //p' "$0" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "Not a Debian system; please see to it that these are installed:" $packages
  exit 0
fi

missing=
for package in $packages; do
  if [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
    missing="$missing $package"
  fi
done
if [ -z "$missing" ]; then
  exit 0
fi

echo "Installing:$missing"
as_root=
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "This needs root or sudo. As root: apt-get install --no-install-recommends$missing" >&2
    exit 1
  fi
  as_root="sudo"
fi
$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update
$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends $missing
