// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/departures_test.cpp: pages whose stores outlive their sequence are evicted
/// tail first, in whatever order the stores end.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tier/manager/manual_tier.h"
#include "tier/manager/pattern_engine.h"

namespace folio::test {
namespace {

constexpr int32_t page_size = PatternEngine::page_size;
const auto prompt = count_from(0, 5 * page_size + 1);  // five full pages

class CacheManagerDepartures : public ::testing::TestWithParam<StorePolicy> {
 protected:
  /// Computes leading `pages` pages of the prompt in a new sequence, the last one.
  void compute(int32_t pages) {
    const auto end = prompt.begin() + pages * page_size + (pages == 5 ? 1 : 0);
    ASSERT_NE(engine_.admit({prompt.begin(), end}), nullptr);
    ASSERT_TRUE(engine_.compute(engine_.living() - 1));
  }
  /// All five in one sequence; the tier has the first three, and ends no store from now on.
  void compute_five_of_which_three_are_stored() {
    compute(3);
    engine_.release(0);
    engine_.settle();
    tier_.ends_at_once = false;
    compute(5);
  }
  void end_stores_in_order() {
    while (!tier_.pending.empty()) {
      tier_.end();
      engine_.manager().poll();
    }
  }
  /// Takes so many pages more than are free.
  void evict(int32_t pages) {
    const auto free = static_cast<int32_t>(engine_.pool().stats().free_pages);
    ASSERT_NE(engine_.admit(count_from(1000, (free + pages) * page_size)), nullptr);
    ASSERT_TRUE(engine_.compute(engine_.living() - 1));
  }
  void expect_the_beginning_outlives_the_end() {
    evict(2);
    EXPECT_EQ(engine_.pool().peek(prompt) / page_size, 3);
  }
  void finish() {
    tier_.ends_at_once = true;
    engine_.finish();
  }

  ManualTier tier_;
  PatternEngine engine_{{.num_pages = 12, .tiers = {{.tier = &tier_, .policy = GetParam()}}}};
};

TEST_P(CacheManagerDepartures, keep_the_beginning_longest) {
  tier_.ends_at_once = false;
  compute(5);
  engine_.release(0);
  EXPECT_EQ(tier_.pending.size(), 5U);
  end_stores_in_order();
  EXPECT_EQ(engine_.pool().stats().used_pages, 0);
  expect_the_beginning_outlives_the_end();
  finish();
}

TEST_P(CacheManagerDepartures, keep_it_where_only_the_end_is_stored) {
  compute_five_of_which_three_are_stored();
  EXPECT_EQ(engine_.length(0), 5 * page_size + 1);
  engine_.release(0);
  EXPECT_EQ(tier_.pending.size(), 2U);
  EXPECT_EQ(engine_.pool().stats().used_pages, 5) << "those before, too";
  end_stores_in_order();
  EXPECT_EQ(engine_.pool().stats().used_pages, 0);
  expect_the_beginning_outlives_the_end();
  finish();
}

TEST_P(CacheManagerDepartures, keep_it_where_a_sequence_is_preempted) {
  tier_.ends_at_once = false;
  compute(5);
  engine_.manager().preempt(engine_.id(0)).or_throw();
  end_stores_in_order();
  expect_the_beginning_outlives_the_end();
  tier_.ends_at_once = true;
  engine_.manager().release(engine_.id(0)).or_throw();
}

TEST_P(CacheManagerDepartures, give_way_where_the_pool_is_short) {
  compute_five_of_which_three_are_stored();
  ASSERT_NE(engine_.admit(count_from(1000, 5 * page_size)), nullptr);
  ASSERT_TRUE(engine_.compute(1));
  engine_.release(0);
  EXPECT_EQ(engine_.pool().stats().used_pages, 10);
  engine_.manager().poll();
  EXPECT_EQ(engine_.pool().stats().used_pages, 5 + 2) << "2 are left, 3 were held for their order";
  finish();
}

TEST_P(CacheManagerDepartures, end_where_stores_are_given_up) {
  compute_five_of_which_three_are_stored();
  engine_.release(0);
  EXPECT_EQ(engine_.manager().give_up_stores(), 0);
  EXPECT_EQ(engine_.pool().stats().used_pages, 2);
  finish();
}

INSTANTIATE_TEST_SUITE_P(policies, CacheManagerDepartures,
                         ::testing::Values(StorePolicy::write_through, StorePolicy::write_back));

TEST(CacheManagerParents, go_to_the_tier_with_their_pages) {
  ManualTier through, back, promoted;
  PatternEngine engine(
      {.num_pages = 12,
       .tiers = {{.tier = &promoted, .policy = StorePolicy::none, .promotes = true},
                 {.tier = &through, .policy = StorePolicy::write_through},
                 {.tier = &back, .policy = StorePolicy::write_back}}});
  ASSERT_NE(engine.admit(prompt), nullptr);
  ASSERT_TRUE(engine.compute(0));
  std::vector<PageName> names;
  for (int32_t p = 0; p < 5; ++p) names.push_back(engine.pool().name(engine.id(0), p).value());
  engine.release(0);
  engine.settle();
  engine.pool().clear().or_throw();
  ASSERT_NE(engine.admit(prompt), nullptr);
  engine.settle();
  for (ManualTier* const tier : {&through, &back, &promoted}) {
    EXPECT_FALSE(tier->parents[names[0]].has_value());
    for (size_t p = 1; p < names.size(); ++p) EXPECT_EQ(tier->parents[names[p]], names[p - 1]);
  }
  engine.finish();
}

}  // namespace
}  // namespace folio::test
