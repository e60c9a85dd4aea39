// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/groups_rounds.h: calls of an engine of a hybrid model at random.
#pragma once

#include <gtest/gtest.h>

#include "tier/manager/group_engine.h"

namespace folio::test {

/// Prompts that share beginnings, up to 15 pages long.
inline GroupEngine::Tokens any_hybrid_prompt(Rng& rng) {
  GroupEngine::Tokens prompt;
  const int64_t tokens = rng.between(1, 14) * GroupEngine::page_size + rng.between(0, 3);
  for (int64_t t = 0; t < tokens; ++t)
    prompt.push_back(t % 8 == 2 && rng.chance(0.4) ? rng.int_between(0, 1) : 7);
  return prompt;
}

inline void call(GroupEngine& engine, Rng& rng) {
  CacheManager& manager = engine.manager();
  const int64_t what = rng.between(0, 19);
  if (engine.living() == 0 || (what < 5 && engine.living() < 4)) {
    engine.admit(any_hybrid_prompt(rng));
    return;
  }
  const auto any = static_cast<size_t>(rng.between(0, 11)) % engine.living();
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
    case 15: static_cast<void>(manager.prefetch(any_hybrid_prompt(rng))); break;
    case 16:
      if (engine.load_state(any) != LoadState::loading) engine.extend(any, rng.int_between(0, 1));
      break;
    case 17: {  // the engine changes the row of a load by the pool itself
      const Status trimmed = engine.pool().trim(engine.id(any), engine.length(any));
      EXPECT_TRUE(trimmed.is_ok() || engine.load_state(any) == LoadState::loading);
      break;
    }
    case 18:
      if (rng.chance(0.5)) engine.settle();
      break;
    default: manager.poll();
  }
}

/// Nothing is under way, and each page whose load began has come or is counted as lost.
inline void expect_counted(const TierCounters& counters) {
  int64_t begun = 0;
  for (const int64_t pages : counters.load_outcomes) begun += pages;
  EXPECT_EQ(counters.loaded_pages + counters.lost_pages, begun);
  EXPECT_EQ(counters.loading_pages, 0);
  EXPECT_EQ(counters.storing_pages + counters.waiting_pages, 0);
  EXPECT_EQ(counters.store_bytes, 0);
}

/// Pages of the engine's pool, so few that they go down and come back all the time.
inline int64_t few_pages(const ModelShape& model) {
  return model.groups[0].layers.empty() ? 10 : 16;
}
/// Of the group whose pages have most.
inline int64_t most_page_bytes(const ModelShape& model) {
  int64_t bytes = 0;
  for (const GroupShape& group : model.groups)
    bytes = std::max(bytes, GroupEngine::page_bytes(group));
  return bytes;
}

}  // namespace folio::test
