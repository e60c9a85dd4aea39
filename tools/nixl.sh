#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/nixl.sh: installs NIXL's package for the tests of its transport, in an environment of its own that build/nixl leads to. Where it
# is not to be had, says so, and those tests skip themselves.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build
if python=$(tools/engines.py make nixl); then
  ln -sfn "$("$python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')" build/nixl
else
  echo "tools/nixl.sh: no NIXL for this machine; its tests skip themselves"
fi
