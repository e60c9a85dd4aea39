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
for name in attention pool; do
  echo "== $name ($commit, $processor)"
  "$build/bench/${name}_bench" --benchmark_out="$out/$name.json" --benchmark_out_format=json \
    --benchmark_context=commit="$commit" --benchmark_context=processor="$(echo "$processor" | tr ' ' '_')"
done
echo "written: $out/attention.json, $out/pool.json"
