#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/gpu_check.sh --build FOLDER [PROGRAM ...]: builds what runs on a GPU machine (gpu_check, gpu_kernels, gpu_bench; without
#     names, all) into FOLDER. Needs nvcc, no GPU. FOLIO_CUDA_ARCHITECTURES names others than 90a.
# tools/gpu_check.sh [--programs FOLDER] [--out FOLDER] [--each SECONDS] [--dry-run] [STAGE ...]: runs the stages on this machine's GPU,
#     within ten minutes, at most eight files in --out (default build/gpu_check/out). --each bounds every stage further; --dry-run asks
#     for no GPU. Without --programs it builds into build/gpu_check.
# tools/gpu_check.sh --stages: the stages in their order, the seconds that each has, the file that it writes.
# tools/gpu_check.sh --keep FOLDER: takes what a run wrote into the tree: goldens, results, the table of docs/cuda.md.
#
# Every stage is a process of its own with its own limit and writes line by line, so one that hangs or dies loses nothing but its own
# rest. summary.json says after each stage how far the run is: ok, differs, skipped, missing, timed out, died, failed, no time left.
#
# Exit status: 0 all stages ok or skipped, 1 a stage did not end well, 2 usage or no build, 77 no GPU.
set -eu
cd "$(dirname "$0")/.."

# stage | seconds | file | command, whose words are split at spaces; $programs and $out stand for the folders. What is likeliest to hang runs after what it would cost.
stages() {
  cat <<'END'
machine    | 20 | machine.jsonl     | $programs/gpu_check machine $out/machine.jsonl
maps       | 30 | tensor_maps.jsonl | $programs/gpu_check maps $out/tensor_maps.jsonl
primitives | 40 | primitives.jsonl  | $programs/gpu_check primitives $out/primitives.jsonl
tiles      | 60 | primitives.jsonl  | $programs/gpu_check tiles $out/primitives.jsonl
cases      | 90 | cases.jsonl       | $programs/gpu_kernels cases plain $out/cases.jsonl
tma_cases  | 50 | cases.jsonl       | $programs/gpu_kernels cases tma $out/cases.jsonl
roofs      | 20 | bench.jsonl       | $programs/gpu_check roofs $out/bench.jsonl
bench      | 90 | bench.jsonl       | $programs/gpu_bench $out/bench.jsonl
memcheck   | 30 | sanitizer.txt     | compute-sanitizer --tool memcheck --error-exitcode 1 $programs/gpu_kernels smallest
racecheck  | 30 | sanitizer.txt     | compute-sanitizer --tool racecheck --error-exitcode 1 $programs/gpu_kernels smallest
synccheck  | 30 | sanitizer.txt     | compute-sanitizer --tool synccheck --error-exitcode 1 $programs/gpu_kernels smallest
ncu        | 50 | ncu.txt           | ncu --clock-control none --set full --kernel-name regex:^(decode|mla) --launch-count 2 $programs/gpu_bench profile
END
}
seconds_of_run=580
bytes_of_log=4000000

usage() {
  sed -n '3,11s/^# //p' "$0" >&2
  exit 2
}

# ---- build

compile_gpu_check() {
  nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  if [ ! -x "$nvcc" ]; then
    echo "gpu_check: no nvcc here; give --programs, built elsewhere with --build" >&2
    exit 2
  fi
  targets=
  for architecture in $architectures; do
    targets="$targets -gencode arch=compute_$architecture,code=sm_$architecture"
  done
  # 2810: nvcc takes a [[nodiscard]] value for ignored where it is assigned.
  # shellcheck disable=SC2086  # several words
  "$nvcc" -std=c++20 -O2 -fmad=false -DFOLIO_CUDA_DEBUG -ccbin "${CXX:-g++}" -Iinclude -Isrc -Itests -Werror all-warnings \
    -diag-suppress 2810 \
    -Xcompiler -Wall,-Wextra,-Wno-psabi $targets \
    tests/cuda/gpu_check.cu src/core/status.cpp src/tma/describe.cpp src/cache/check_alignment.cpp src/cache/check_static.cpp \
    src/cuda/runtime/driver.cpp src/cuda/runtime/encode.cpp -ldl -o "$1/gpu_check" || exit 2
}

# Through the ordinary build, with the kernels in the library: what runs is what is shipped. No library of this machine is needed there
# beyond C's.
build_with_kernels() {
  cmake -S . -B build/gpu_kernels -DCMAKE_BUILD_TYPE=Release -DFOLIO_CUDA_KERNELS=ON -DFOLIO_OPENMP=OFF -DFOLIO_BUILD_CLI=OFF \
    "-DFOLIO_CUDA_ARCHITECTURES=$(echo "$architectures" | tr ' ' ';')" \
    "-DCMAKE_EXE_LINKER_FLAGS=-static-libstdc++ -static-libgcc" >build/gpu_kernels.log || exit 2
  cmake --build build/gpu_kernels --target "$2" --parallel "${FOLIO_JOBS:-2}" || exit 2
  cp "build/gpu_kernels/$3/$2" "$1/$2"
}

build() {
  folder=$1
  shift
  [ $# -gt 0 ] || set -- gpu_check gpu_kernels gpu_bench
  architectures=${FOLIO_CUDA_ARCHITECTURES:-90a}
  mkdir -p "$folder" build
  for program in "$@"; do
    case $program in
      gpu_check) compile_gpu_check "$folder" ;;
      gpu_kernels) build_with_kernels "$folder" gpu_kernels tests/cuda ;;
      gpu_bench) build_with_kernels "$folder" gpu_bench bench ;;
      *) echo "gpu_check: programs are gpu_check, gpu_kernels and gpu_bench, got $program" >&2; exit 2 ;;
    esac
  done
  git describe --always --dirty --exclude '*' >"$folder/commit" 2>/dev/null || echo unknown >"$folder/commit"
}

# ---- run

# One line of JSON from what the program printed last.
last_words() {
  tail -n 4 "$1" | cut -c 1-300 | tr -c '[:print:]\n' ' ' | sed 's/[\\"]/\\&/g' | awk 'NR > 1 { printf " / " } { printf "%s", $0 }'
}

# How a stage ended, from its exit status.
verdict() {
  case $1 in
    0) echo ok ;;
    1) echo differs ;;
    77) echo skipped ;;
    124 | 137) echo "timed out" ;;
    126 | 127) echo missing ;;
    *) if [ "$1" -gt 128 ]; then echo died; else echo failed; fi ;;
  esac
}

write_summary() {
  {
    printf '{"commit": "%s", "began": "%s", "seconds": %d, "stages": [' "$commit" "$began" $(($(date +%s) - start))
    cat "$scratch/stages"
    printf '\n]}\n'
  } >"$scratch/summary.json"
  mv "$scratch/summary.json" "$out/summary.json"
}

# record STAGE VERDICT STATUS SECONDS LIMIT FILE WORDS
record() {
  [ ! -s "$scratch/stages" ] || printf ',' >>"$scratch/stages"
  printf '\n  {"stage": "%s", "verdict": "%s", "status": %d, "seconds": %d, "limit": %d, "file": "%s", "last_words": "%s"}' \
    "$1" "$2" "$3" "$4" "$5" "$6" "$7" >>"$scratch/stages"
  echo "gpu_check: $1: $2 after $4 s${7:+: $7}"
  write_summary
}

run_stage() {
  name=$1 limit=$2 file=$3 command=$4
  left=$((start + seconds_of_run - $(date +%s)))
  if [ "$left" -lt 5 ]; then
    record "$name" "no time left" 0 0 "$limit" "$file" ""
    return 1
  fi
  [ "$left" -ge "$limit" ] || limit=$left
  [ -z "$each" ] || [ "$each" -ge "$limit" ] || limit=$each
  log=$scratch/log
  begin=$(date +%s)
  status=0
  # The words of the table are the command's words: folders of a run have no spaces.
  # shellcheck disable=SC2086
  timeout -k 3 "$limit" $command >"$log" 2>&1 </dev/null || status=$?
  case $file in
    *.txt) { echo "== $name: $command: exit status $status"; head -c "$bytes_of_log" "$log"; } >>"$out/$file" ;;
  esac
  record "$name" "$(verdict "$status")" "$status" $(($(date +%s) - begin)) "$limit" "$file" "$(last_words "$log")"
  [ "$status" = 0 ] || [ "$status" = 77 ] || [ "$status" = 127 ]
}

run() {
  case $programs$out in *[[:space:]]*) echo "gpu_check: folders with spaces are not taken" >&2; exit 2 ;; esac
  mkdir -p "$out"
  if [ -n "$(ls -A "$out")" ]; then
    echo "gpu_check: $out is not empty: results of two runs do not mix" >&2
    exit 2
  fi
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  : >"$scratch/stages"
  start=$(date +%s)
  began=$(date -u +%Y-%m-%dT%H:%M:%SZ)
  if [ -f "$programs/commit" ]; then commit=$(cat "$programs/commit"); else commit=unknown; fi
  export FOLIO_COMMIT="$commit"
  write_summary
  result=0
  stages | sed 's/ *| */|/g' >"$scratch/table"
  while IFS='|' read -r name limit file command; do
    case " $wanted " in "  " | *" $name "*) ;; *) continue ;; esac
    command=$(echo "$command" | sed "s|\$programs|$programs|g; s|\$out|$out|g")
    run_stage "$name" "$limit" "$file" "$command" || result=1
  done <"$scratch/table"
  echo "gpu_check: results in $out"
  exit "$result"
}

# ---- keep

keep() {
  for name in machine tensor_maps primitives; do
    [ -s "$1/$name.jsonl" ] || { echo "gpu_check: $1/$name.jsonl is missing or empty" >&2; exit 2; }
  done
  # The name of the files: GPU and driver.
  name=$(sed -n 's/.*"gpu": "\([^"]*\)".*"driver_version": \([0-9]*\).*/\1-\2/p' "$1/tensor_maps.jsonl" | head -n 1 |
    tr -cs 'A-Za-z0-9.\n-' '_' | tr '[:upper:]' '[:lower:]')
  [ -n "$name" ] || { echo "gpu_check: $1/tensor_maps.jsonl names no GPU" >&2; exit 2; }
  mkdir -p tests/cuda/golden bench/results/cuda
  cp "$1/tensor_maps.jsonl" "tests/tma/golden/$name.jsonl"
  cp "$1/primitives.jsonl" "tests/cuda/golden/$name.jsonl"
  for part in machine cases bench; do
    [ ! -s "$1/$part.jsonl" ] || cp "$1/$part.jsonl" "bench/results/cuda/$part-$name.jsonl"
  done
  cp "$1/summary.json" "bench/results/cuda/summary-$name.json"
  tools/cuda_table.py --write
  echo "gpu_check: kept as $name; now: ctest -R cuda.golden, and read what differs"
}

# ---- arguments

programs='' out=build/gpu_check/out each='' wanted='' dry_run=''
case ${1:-} in
  --build)
    [ $# -ge 2 ] || usage
    shift
    build "$@"
    exit 0
    ;;
  --stages)
    [ $# -eq 1 ] || usage
    stages | awk -F'|' '{ gsub(/ /, "", $1); gsub(/ /, "", $2); gsub(/ /, "", $3); print $1, $2, $3 }'
    exit 0
    ;;
  --keep)
    [ $# -eq 2 ] || usage
    keep "$2"
    exit 0
    ;;
esac
while [ $# -gt 0 ]; do
  case "$1:$#" in
    --programs:[2-9] | --programs:1[0-9]) programs=$2 && shift 2 ;;
    --out:[2-9] | --out:1[0-9]) out=$2 && shift 2 ;;
    --each:[2-9] | --each:1[0-9]) each=$2 && shift 2 ;;
    --dry-run:*) dry_run=yes && shift ;;
    -*) usage ;;
    *)
      stages | grep -q "^$1 " || { echo "gpu_check: no stage $1; see --stages" >&2; exit 2; }
      wanted="$wanted $1"
      shift
      ;;
  esac
done
if [ -z "$dry_run" ] && ! ls /dev/nvidia[0-9]* >/dev/null 2>&1 && ! ls /dev/dxg >/dev/null 2>&1; then
  echo "gpu_check: no GPU on this machine, nothing ran"
  exit 77
fi
if [ -z "$programs" ]; then
  programs=build/gpu_check
  build "$programs"
fi
run
