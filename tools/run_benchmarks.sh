#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run_benchmarks.sh BUILD: runs every benchmark of a release build and writes build/bench/*.json, stamped with commit and processor.
set -eu
cd "$(dirname "$0")/.."
build=$1
out=build/bench
mkdir -p "$out"
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
processor=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
for name in attention append; do
  [ -x "$build/bench/${name}_bench" ] || continue
  echo "== $name ($commit, $processor)"
  "$build/bench/${name}_bench" --json="$out/$name.json" --commit="$commit"
done
echo "== pool ($commit, $processor)"
"$build/bench/pool_bench" --benchmark_out="$out/pool.json" --benchmark_out_format=json \
  --benchmark_context=commit="$commit" --benchmark_context=processor="$(echo "$processor" | tr ' ' '_')"
echo "written: $out/*.json"
