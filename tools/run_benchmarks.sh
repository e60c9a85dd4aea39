#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/run_benchmarks.sh BUILD [NAME|--FLAG]...: runs the benchmarks NAME (attention, append, pool, index, indexed, pages; without
# one, all) of a release build with these flags, one process each, and writes build/bench/NAME.json,
# stamped with commit and processor.
set -euf
cd "$(dirname "$0")/.."
build=${1:-}
if [ ! -d "$build/bench" ]; then
  sed -n '3,5s/^# //p' "$0" >&2
  exit 2
fi
shift
names= flags=
for argument; do
  case "$argument" in
    --*) flags="$flags $argument" ;;
    *) names="$names $argument" ;;
  esac
done
out=build/bench
mkdir -p "$out"
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
[ -z "$(git status --porcelain -- include src bench ':!bench/results' 2>/dev/null)" ] || commit="$commit-dirty"
processor=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
for name in ${names:-attention append pool index indexed pages}; do
  echo "== $name ($commit, $processor)"
  # shellcheck disable=SC2086
  case "$name" in
    pool)
      "$build/bench/pool_bench" --benchmark_out="$out/pool.json" --benchmark_out_format=json \
        --benchmark_context=commit="$commit" \
        --benchmark_context=processor="$(echo "$processor" | tr ' ' '_')" $flags ;;
    *)
      "$build/bench/${name}_bench" --json="$out/$name.json" --commit="$commit" \
        --benchmark_min_time=0.3 $flags ;;
  esac
done
echo "written: $out/*.json"
