#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/fuzz.sh [SECONDS [OPERATIONS]]: lets libFuzzer look for inputs that break what `folio replay` reads (default: 60 seconds), for calls
# after which the page pool is not what a naive one is (default: a million), and for calls after which a hybrid pool's groups lack what they
# need (a tenth of that); each of these two ends after three times SECONDS at the latest; and for messages of handovers' peers that break what
# takes them (SECONDS). What it finds stays in build/fuzz/finds, what it learns in corpus, pool_corpus, groups_corpus and messages_corpus
# beside it. Needs clang 16 (tools/install_dependencies.sh ci).
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}
operations=${2:-1000000}
case "$#:$seconds:$operations" in
  [3-9]:* | *:*[!0-9:]* | *:0* | *::* | *:) sed -n '3,7s/^# //p' "$0" >&2; exit 2 ;;
esac
cmake -S . -B build/fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_COMPILER=clang++-16 -DFOLIO_WERROR=ON \
  -DFOLIO_BUILD_FUZZERS=ON -DFOLIO_BUILD_TESTS=OFF -DFOLIO_BUILD_BENCHMARKS=OFF -DFOLIO_BUILD_CLI=OFF -DFOLIO_OPENMP=OFF
cmake --build build/fuzz --target fuzz_replay_input fuzz_page_pool fuzz_page_pool_groups fuzz_handover_messages
mkdir -p build/fuzz/corpus build/fuzz/pool_corpus build/fuzz/groups_corpus build/fuzz/messages_corpus build/fuzz/finds
look() {
  program=$1
  shift
  "build/fuzz/fuzz/$program" -rss_limit_mb=2048 -verbosity=0 -print_funcs=0 -artifact_prefix=build/fuzz/finds/ "$@"
}
FOLIO_FUZZ_OPERATIONS="$operations" look fuzz_page_pool -max_total_time="$((3 * seconds))" -max_len=1808 -len_control=0 -timeout=20 \
  build/fuzz/pool_corpus
FOLIO_FUZZ_OPERATIONS="$((operations / 10 + 1))" look fuzz_page_pool_groups -max_total_time="$((3 * seconds))" -max_len=1817 -len_control=0 \
  -timeout=20 build/fuzz/groups_corpus
look fuzz_replay_input -max_total_time="$seconds" -max_len=4096 -timeout=10 -use_value_profile=1 -print_final_stats=1 \
  -dict=fuzz/replay_input.dict build/fuzz/corpus fuzz/corpus/replay_input
look fuzz_handover_messages -max_total_time="$seconds" -max_len=4096 -timeout=10 -use_value_profile=1 build/fuzz/messages_corpus
