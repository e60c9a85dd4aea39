// SPDX-License-Identifier: Apache-2.0
/// tests/tier/cache_manager_test.cpp: a small pool over tiers, so that pages go down and come back
/// all the time.
#include "folio/tier/cache_manager.h"

#include <gtest/gtest.h>

#include <memory>

#include "folio/tier/host_tier.h"
#include "tier/manager/pattern_engine.h"
#include "tier/manager/unreliable_tier.h"
#include "tier/queued_tier.h"

namespace folio::test {
namespace {

using Tokens = PatternEngine::Tokens;

std::unique_ptr<Tier> host(int64_t max_bytes = 1 << 20) {
  return make_host_tier({.max_bytes = max_bytes}).value();
}

Tokens count_from(TokenId first, int32_t count) {
  Tokens tokens;
  for (TokenId t = first; t < first + count; ++t) tokens.push_back(t);
  return tokens;
}

void settle(PatternEngine& engine) {
  while (engine.manager().figures().loads + engine.manager().figures().stores != 0)
    engine.manager().poll();
}

TEST(CacheManager, brings_back_what_memory_has_given_up) {
  const auto tier = host();
  PatternEngine engine(4, {{tier.get(), StorePolicy::write_back}});
  ASSERT_TRUE(engine.admit(count_from(0, 13)));
  ASSERT_TRUE(engine.compute(0));
  engine.release(0);
  settle(engine);
  ASSERT_TRUE(engine.admit(count_from(100, 16)));  // evicts all of it
  ASSERT_TRUE(engine.compute(0));
  engine.release(0);
  settle(engine);
  ASSERT_TRUE(engine.admit(count_from(0, 13)));
  EXPECT_EQ(engine.manager().load_state({}), LoadState::none);
  settle(engine);
  EXPECT_EQ(engine.manager().figures().loaded_pages, 3);
  engine.check();
  engine.finish();
}

/// Random calls of an engine; every byte of every page is looked at after each.
void wander(PatternEngine& engine, Rng& rng, int steps) {
  const auto any = [&] {
    return static_cast<size_t>(rng.between(0, static_cast<int64_t>(engine.living()) - 1));
  };
  for (int step = 0; step < steps; ++step) {
    const int64_t what = rng.between(0, 9);
    if (what < 3 && engine.living() < 4) {
      Tokens prompt;
      const int64_t tokens = rng.between(1, 5) * PatternEngine::page_size + rng.between(0, 3);
      for (int64_t t = 0; t < tokens; ++t)
        prompt.push_back(t % PatternEngine::page_size == 0 ? rng.int_between(0, 1) : 7);
      static_cast<void>(engine.admit(prompt));
    } else if (what < 7 && engine.living() > 0) {
      engine.compute(any());
    } else if (what < 8 && engine.living() > 0) {
      engine.release(any());
    } else {
      engine.manager().poll();
    }
    ASSERT_NO_FATAL_FAILURE(engine.check()) << step;
  }
}

TEST(CacheManager, serves_no_wrong_byte_while_pages_wander) {
  for (const StorePolicy policy : {StorePolicy::write_through, StorePolicy::write_back}) {
    Rng rng(test_seed());
    const auto tier = host(20'000);
    PatternEngine engine(12, {{tier.get(), policy}}, 8);
    wander(engine, rng, 3000);
    EXPECT_GT(engine.manager().figures().loaded_pages, 10);
    EXPECT_GT(engine.manager().figures().stored_pages, 50);
    engine.finish();
  }
}

TEST(CacheManager, serves_no_wrong_byte_from_a_tier_that_fails_and_lies) {
  Rng rng(test_seed());
  const auto tier = tier::QueuedTier::create(std::make_unique<UnreliableMedium>(test_seed()),
                                             {.max_queued_pages = 6, .max_bytes = 1})
                        .value();
  PatternEngine engine(12, {{.tier = tier.get(), .max_store_bytes = 4 * 1536}}, 8);
  wander(engine, rng, 3000);
  const CacheManagerFigures figures = engine.manager().figures();
  EXPECT_GT(figures.loaded_pages, 0);
  EXPECT_GT(figures.lost_pages, 0);
  EXPECT_GT(figures.unstored_pages, 0);
  engine.finish();
}

}  // namespace
}  // namespace folio::test
