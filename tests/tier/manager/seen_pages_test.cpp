// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/seen_pages_test.cpp: a tier gets what it has not, whatever it hopes to have,
/// and is not given again what it has.
#include <gtest/gtest.h>

#include <vector>

#include "tier/manager/manual_tier.h"
#include "tier/manager/pattern_engine.h"

namespace folio::test {
namespace {

const auto prompt = count_from(0, 13);  // three full pages

/// Computes what memory has not of the prompt, and gives it up.
void run(PatternEngine& engine) {
  ASSERT_NE(engine.admit(prompt), nullptr);
  engine.settle();
  ASSERT_TRUE(engine.compute(0));
  engine.check();
  engine.release(0);
  engine.settle();
}

std::vector<TierOfCache> both_policies(ManualTier& through, ManualTier& back) {
  return {{.tier = &through, .policy = StorePolicy::write_through},
          {.tier = &back, .policy = StorePolicy::write_back}};
}

TEST(CacheManagerSeenPages, are_stored_in_tiers_that_hope_to_have_them) {
  ManualTier through, back;
  for (ManualTier* const tier : {&through, &back}) {
    tier->lies_by = 1000;
    tier->load_outcome = TierOutcome::missing;  // as a server says that is asked
  }
  PatternEngine engine({.num_pages = 12, .tiers = both_policies(through, back)});
  run(engine);
  EXPECT_EQ(through.stored, 3);
  EXPECT_EQ(back.stored, 3);
  through.load_outcome = TierOutcome::done;
  engine.pool().clear().or_throw();
  run(engine);
  EXPECT_EQ(engine.manager().counters(0).value().loaded_pages, 3);
  engine.finish();
}

TEST(CacheManagerSeenPages, are_promoted_to_tiers_that_hope_to_have_them) {
  ManualTier fast, slow;
  ManualClock clock;
  PatternEngine engine(
      {.num_pages = 12,
       .tiers =
           {{.tier = &fast, .policy = StorePolicy::none, .promotes = true, .faults_to_rest = 1},
            {.tier = &slow}},
       .manager = {.clock = clock.clock()}});
  run(engine);
  engine.pool().clear().or_throw();
  fast.lies_by = 1000;
  fast.load_outcome = TierOutcome::failed;
  run(engine);  // it hopes, fails, and rests
  engine.pool().clear().or_throw();
  ASSERT_NE(engine.admit(prompt), nullptr);  // of the slow one
  clock.advance_ms(1000);
  engine.settle();
  EXPECT_EQ(fast.stored, 3);
  engine.finish();
}

TEST(CacheManagerSeenPages, are_handed_over_once_though_many_sequences_give_them_up) {
  ManualTier through, back;
  PatternEngine engine({.num_pages = 12, .tiers = both_policies(through, back)});
  for (int i = 0; i < 3; ++i) run(engine);
  EXPECT_EQ(engine.manager().figures().stored_pages, 2 * 3);
  EXPECT_EQ(through.stored + back.stored, 2 * 3);
  EXPECT_EQ(through.stored_again + back.stored_again, 0);
  engine.finish();
}

TEST(CacheManagerSeenPages, that_were_loaded_are_not_handed_back) {
  ManualTier through, back;
  PatternEngine engine({.num_pages = 12, .tiers = both_policies(through, back)});
  run(engine);
  engine.pool().clear().or_throw();
  through.pages.clear();
  run(engine);
  EXPECT_EQ(engine.manager().counters(1).value().loaded_pages, 3);
  EXPECT_EQ(back.stored_again, 0);
  engine.finish();
}

TEST(CacheManagerSeenPages, that_the_tier_has_given_up_are_stored_anew) {
  ManualTier tier;
  PatternEngine engine({.num_pages = 12, .tiers = {{.tier = &tier}}});
  run(engine);
  const auto second = std::next(tier.pages.begin())->first;
  tier.pages.erase(second);
  run(engine);
  EXPECT_EQ(tier.stored, 4);
  EXPECT_TRUE(tier.pages.contains(second));
  EXPECT_EQ(tier.stored_again, 0);
  engine.finish();
}

TEST(CacheManagerSeenPages, are_unknown_to_another_manager_and_cost_no_bytes) {
  ManualTier tier;
  {
    PatternEngine engine({.num_pages = 12, .tiers = {{.tier = &tier}}});
    run(engine);
    engine.finish();
  }
  PatternEngine engine({.num_pages = 12, .tiers = {{.tier = &tier}}});
  tier.lies_by = -1000;  // so that they are computed
  run(engine);
  EXPECT_EQ(tier.stored, 3);
  EXPECT_EQ(tier.stored_again, 3);
  tier.lies_by = 0;
  run(engine);
  EXPECT_EQ(tier.stored_again, 3) << "now they are seen";
  engine.finish();
}

TEST(CacheManagerSeenPages, are_others_when_a_page_gets_other_content) {
  ManualTier tier;
  PatternEngine engine({.num_pages = 3, .tiers = {{.tier = &tier}}});
  for (const TokenId first : {0, 100, 200}) {
    ASSERT_NE(engine.admit(count_from(first, 12)), nullptr);
    ASSERT_TRUE(engine.compute(0));
    engine.release(0);
    engine.settle();
  }
  EXPECT_EQ(tier.stored, 9);
  engine.finish();
}

}  // namespace
}  // namespace folio::test
