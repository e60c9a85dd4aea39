#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/random_attention.sh [SECONDS [SEED]]: attends over random problems and caches (tests/attention/random_test.cpp), seed after seed from
# SEED on, until the time is over or one fails, whose output is shown (default: 60 seconds from seed 1).
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60} seed=${2:-1}
case "$#:$seconds:$seed" in
  [3-9]:* | *:*[!0-9]*:* | *:*:*[!0-9]* | *:0*:* | *:*:0*) sed -n '3,4s/^# //p' "$0" >&2; exit 2 ;;
esac
cmake --preset release >/dev/null
cmake --build --preset release --target test_attention_random
end=$(($(date +%s) + seconds))
while [ "$(date +%s)" -lt "$end" ]; do
  output=$(build/release/tests/attention/test_attention_random --gtest_random_seed="$seed" 2>&1) || { echo "$output"; exit 1; }
  echo "seed $seed: right"
  seed=$((seed + 1))
done
