#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/fuzz.sh [SECONDS]: lets libFuzzer look for inputs that break what `folio replay` reads (default: 60 seconds). What it finds stays
# in build/fuzz/finds, what it learns in build/fuzz/corpus. Needs clang 16 (tools/install_dependencies.sh ci).
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}
case "$#:$seconds" in
  [2-9]:* | *:*[!0-9]* | *: | *:0*) sed -n '3,4s/^# //p' "$0" >&2; exit 2 ;;
esac
cmake -S . -B build/fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_COMPILER=clang++-16 -DFOLIO_WERROR=ON \
  -DFOLIO_BUILD_FUZZERS=ON -DFOLIO_BUILD_TESTS=OFF -DFOLIO_BUILD_BENCHMARKS=OFF -DFOLIO_BUILD_CLI=OFF -DFOLIO_OPENMP=OFF
cmake --build build/fuzz --target fuzz_replay_input
mkdir -p build/fuzz/corpus build/fuzz/finds
build/fuzz/fuzz/fuzz_replay_input -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 -verbosity=0 -print_funcs=0 -use_value_profile=1 \
  -print_final_stats=1 -dict=fuzz/replay_input.dict -artifact_prefix=build/fuzz/finds/ build/fuzz/corpus fuzz/corpus/replay_input
