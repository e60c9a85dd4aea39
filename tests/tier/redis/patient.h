// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/patient.h: options of tiers whose servers may take their time.
#pragma once

#include "folio/tier/redis_tier.h"
#include "support/comes_true.h"

namespace folio::test {

/// Without the deadlines that a test has not set itself.
[[nodiscard]] inline RedisOptions patient(RedisOptions redis) {
  const RedisOptions standard;
  for (int64_t RedisOptions::*const deadline :
       {&RedisOptions::connect_timeout_ms, &RedisOptions::command_timeout_ms})
    if (redis.*deadline == standard.*deadline) redis.*deadline = no_deadline_ms;
  return redis;
}

}  // namespace folio::test
