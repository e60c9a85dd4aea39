// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/agreement_test.cpp: pool and manager agree on what a page holds, whatever an
/// engine calls of both, in any order.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tier/manager/wandering.h"
#include "tier/manager/wild_engine.h"

namespace folio::test {
namespace {

constexpr int64_t calls_of_round = 1000;

/// 300,000, or as many as FOLIO_AGREEMENT_CALLS says.
int64_t num_rounds() {
  const char* const given = std::getenv("FOLIO_AGREEMENT_CALLS");
  return (given == nullptr ? 300'000 : std::atoll(given)) / calls_of_round;
}

TEST(CacheManagerAgreement, holds_whatever_an_engine_calls_of_pool_and_manager) {
  Rng rng(test_seed());
  int64_t loaded = 0, shared = 0, changed = 0, stored = 0;
  for (int64_t round = 0, end = num_rounds(); round < end; ++round) {
    WildEngine engine(rng);
    for (int64_t i = 0; i < calls_of_round; ++i) {
      engine.call();
      ASSERT_EQ(engine.fault(), "") << "call " << i << " of round " << round;
    }
    engine.finish();
    ASSERT_EQ(engine.fault(), "") << "at the end of round " << round;
    const CacheManagerFigures figures = engine.figures();
    loaded += figures.loaded_pages;
    shared += figures.shared_pages;
    changed += figures.changed_pages;
    stored += figures.stored_pages;
  }
  EXPECT_GT(loaded, 0);
  EXPECT_GT(shared, 0);
  EXPECT_GT(changed, 0);
  EXPECT_GT(stored, 0);
}

}  // namespace
}  // namespace folio::test
