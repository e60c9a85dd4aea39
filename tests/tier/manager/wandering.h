// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/wandering.h: calls of an engine at random, over tiers with options at random.
#pragma once

#include <gtest/gtest.h>

#include "support/random.h"
#include "tier/manager/pattern_engine.h"

namespace folio::test {

/// Prompts that share beginnings.
inline PatternEngine::Tokens random_prompt(Rng& rng) {
  PatternEngine::Tokens prompt;
  const int64_t tokens = rng.between(1, 5) * PatternEngine::page_size + rng.between(0, 3);
  for (int64_t t = 0; t < tokens; ++t)
    prompt.push_back(t % PatternEngine::page_size == 2 ? rng.int_between(0, 1) : 7);
  return prompt;
}

inline void call(PatternEngine& engine, Rng& rng) {
  CacheManager& manager = engine.manager();
  const int64_t what = rng.between(0, 19);
  if (engine.living() == 0 || (what < 5 && engine.living() < 4)) {
    engine.admit(random_prompt(rng));
    return;
  }
  const auto any =
      static_cast<size_t>(rng.between(0, std::ssize(random_prompt(rng)))) % engine.living();
  switch (what) {
    case 5:
    case 6:
    case 7:
    case 8:
    case 9:
    case 10: engine.compute(any); break;
    case 11:
    case 12:
    case 13: engine.release(any); break;
    case 14:
      if (rng.chance(0.5)) {
        manager.cancel_load(engine.id(any)).or_throw();
      } else {
        engine.preempt(any);
        if (rng.chance(0.5)) manager.poll();
        engine.resume(any);
      }
      break;
    case 15: static_cast<void>(manager.prefetch(random_prompt(rng))); break;
    case 16:
      if (engine.load_state(any) != LoadState::loading) engine.extend(any, rng.int_between(0, 1));
      break;
    case 17:
      if (rng.chance(0.1)) manager.give_up_stores();
      break;
    case 18:
      if (rng.chance(0.5)) engine.settle();
      break;
    default: manager.poll();
  }
}

inline void wander(PatternEngine& engine, Rng& rng, int calls, bool is_honest) {
  for (int i = 0; i < calls; ++i) {
    call(engine, rng);
    ASSERT_NO_FATAL_FAILURE(engine.check(is_honest)) << "call " << i;
  }
}

inline StorePolicy any_policy(Rng& rng) { return static_cast<StorePolicy>(rng.int_between(1, 3)); }

inline TierOfCache randomly(Tier& tier, Rng& rng) {
  return {.tier = &tier,
          .policy = any_policy(rng),
          .min_hits = rng.chance(0.3) ? 1 : 0,
          .promotes = rng.chance(0.5),
          .max_store_bytes = rng.between(2, 16) * PatternEngine::page_bytes,
          .faults_to_rest = rng.int_between(1, 6),
          .first_rest_ms = 1,
          .longest_rest_ms = 2};
}

}  // namespace folio::test
