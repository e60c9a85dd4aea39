#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/gpu_check.sh [--result FILE] [--golden FOLDER] [--program PROGRAM]: compares tensor maps on this machine's GPU with the emulator,
#     bit for bit, and writes what it found to FILE (default build/gpu_check/result.json). --golden records the driver's descriptors in
#     FOLDER, as tests/tma/golden has them. Builds with nvcc, unless it is given a PROGRAM built elsewhere. Under five minutes.
# tools/gpu_check.sh --build PROGRAM: only builds, for compute capability 9.0 and 10.0; needs no GPU.
#
# Exit status: 0 all equal, 1 a difference or failure, 2 usage, no nvcc or no build, 77 no GPU with tensor maps.
set -eu
cd "$(dirname "$0")/.."
result=build/gpu_check/result.json
golden=
program=
build=
while [ $# -gt 0 ]; do
  case "$1:$#" in
    --result:[2-9]) result=$2 ;;
    --golden:[2-9]) golden=$2 ;;
    --program:[2-9]) program=$2 ;;
    --build:[2-9]) build=$2 ;;
    *) sed -n '3,8s/^# //p' "$0" >&2; exit 2 ;;
  esac
  shift 2
done

compile() {
  nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  if [ ! -x "$nvcc" ]; then
    echo "gpu_check: no nvcc here; give --program, built elsewhere with --build" >&2
    exit 2
  fi
  mkdir -p "$(dirname "$1")"
  "$nvcc" -std=c++20 -O2 -ccbin "${CXX:-g++}" -Iinclude -Isrc -Itests -Werror all-warnings -Xcompiler -Wall,-Wextra,-Wno-psabi \
    -gencode arch=compute_90a,code=sm_90a -gencode arch=compute_100a,code=sm_100a \
    tests/cuda/gpu_check.cu src/core/status.cpp src/tma/describe.cpp src/cache/check_alignment.cpp src/cache/static_checks.cpp \
    src/cuda/runtime/driver.cpp src/cuda/runtime/encode.cpp -ldl -o "$1" || exit 2
}

if [ -n "$build" ]; then
  compile "$build"
  exit 0
fi
if ! ls /dev/nvidia[0-9]* >/dev/null 2>&1 && ! ls /dev/dxg >/dev/null 2>&1; then
  echo "gpu_check: no GPU on this machine, nothing compared"
  exit 77
fi
if [ -z "$program" ]; then
  program=build/gpu_check/gpu_check
  compile "$program"
fi
mkdir -p "$(dirname "$result")"
descriptors=build/gpu_check/descriptors.json
mkdir -p build/gpu_check
case $program in */*) ;; *) program=./$program ;; esac
status=0
timeout 240 "$program" "$result" "$descriptors" || status=$?
if [ "$status" = 124 ]; then
  echo "gpu_check: still not done after 240 s: a copy that never arrives?" >&2
  status=1
fi
if [ "$status" != 77 ]; then
  echo "gpu_check: result in $result"
fi
if [ "$status" = 0 ] && [ -n "$golden" ]; then
  # The name of the file: GPU and driver.
  name=$(sed -n 's/.*"gpu": "\([^"]*\)".*"driver_version": \([0-9]*\).*/\1-\2/p' "$descriptors" | tr -cs 'A-Za-z0-9.\n' '_' | tr 'A-Z' 'a-z')
  cp "$descriptors" "$golden/$name.json"
  echo "gpu_check: descriptors in $golden/$name.json"
fi
exit "$status"
