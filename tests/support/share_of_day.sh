#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tests/support/share_of_day.sh N TEST ARGUMENT...: of a GoogleTest program's tests every N-th, others each day; all where the variable
# FOLIO_TEST_ROUNDS is "all". The program says which part it has.
set -eu
parts=$1
shift
if [ "${FOLIO_TEST_ROUNDS:-}" != all ]; then
  export GTEST_TOTAL_SHARDS="$parts" GTEST_SHARD_INDEX=$(($(date +%s) / 86400 % parts))
fi
exec "$@"
