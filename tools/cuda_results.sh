#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/cuda_results.sh [compiled] [emulated]: makes what docs/cuda.md's table says and no GPU is needed for, anew, of the tree as it
#     is; without words, both. Parts of builds that are up to date stay. FOLIO_JOBS (default: processors) compile at once.
#   compiled: every kernel for every architecture, by nvcc: bench/results/cuda/compiled.md
#   emulated: the cases of tests/cuda/gpu_case_list.h on the emulated device, some minutes: bench/results/cuda/cases-emulated.jsonl
# and the table. FOLIO_CUDA_ARCHITECTURES="80 90a" are kept of `compiled`; what is not asked for is not in it.
#
# Exit status: 0 all right and written; else nothing of the part that failed is written.
set -eu
cd "$(dirname "$0")/.."
for part; do
  case $part in
    compiled | emulated) ;;
    *) sed -n '3,8s/^# //p' "$0" >&2; exit 2 ;;
  esac
done
results=bench/results/cuda
jobs=${FOLIO_JOBS:-$(nproc)}
mkdir -p "$results"
# Results and the table are not what they are results of.
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
[ -z "$(git status --porcelain -- include src tests 2>/dev/null)" ] || commit="$commit-dirty"

compiled() {
  cmake --preset cuda "-DFOLIO_CUDA_ARCHITECTURES=$(echo "${FOLIO_CUDA_ARCHITECTURES:-80 90a 100a 120a}" | tr ' ' ';')" >/dev/null
  cmake --build --preset cuda --target cuda_kernels --parallel "$jobs"
  nvcc=$(sed -n 's/^FOLIO_NVCC:[A-Z]*=//p' build/cuda/CMakeCache.txt)
  {
    echo "Of commit $commit, by nvcc $("$nvcc" --version | sed -n 's/.*release [^,]*, V//p'). Made by tools/cuda_results.sh."
    echo
    cat build/cuda/cuda_kernels.md
  } >build/compiled.md
  mv build/compiled.md "$results/compiled.md"
}

emulated() {
  cmake --preset release >/dev/null
  cmake --build --preset release --target gpu_kernels emulated_device --parallel "$jobs"
  rm -f build/cases-emulated.jsonl
  for mode in plain tma; do
    FOLIO_COMMIT=$commit LD_LIBRARY_PATH=build/release/tests/cuda/emulated_device \
      build/release/tests/cuda/gpu_kernels cases "$mode" build/cases-emulated.jsonl 300
  done
  mv build/cases-emulated.jsonl "$results/cases-emulated.jsonl"
}

[ $# -gt 0 ] || set -- compiled emulated
for part; do
  "$part"
done
tools/cuda_table.py --write
