// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/evictions_test.cpp: pages that go down when the pool evicts them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tier/manager/group_engine.h"
#include "tier/manager/manual_tier.h"
#include "tier/manager/pattern_engine.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

/// A pool of 6 pages and those that are spare.
PatternEngine::Options small(ManualTier& tier, int32_t spare_pages) {
  return {.num_pages = 6 + static_cast<uint32_t>(spare_pages),
          .tiers = {{.tier = &tier, .policy = StorePolicy::at_eviction}},
          .manager = {.load_deadline_ms = 0, .spare_pages = spare_pages}};
}

/// Serves a prompt of 4 pages and lets go of it.
void serve(PatternEngine& engine, TokenId first) {
  ASSERT_NE(engine.admit(count_from(first, 17)), nullptr);
  engine.settle();
  engine.compute(0);
  engine.check();
  engine.release(0);
  engine.settle();
}

TEST(Evictions, a_page_goes_down_when_it_is_evicted_and_not_before) {
  ManualTier tier;
  PatternEngine engine(small(tier, 4));
  serve(engine, 0);
  EXPECT_EQ(tier.stored, 0) << "memory has room";
  serve(engine, 100);
  serve(engine, 200);
  EXPECT_GE(tier.stored, 4);
  EXPECT_EQ(engine.manager().counters(0)->not_stored[static_cast<int>(StoreRefusal::no_spare)], 0)
      << "a step takes no more pages than are spare";
  engine.admit(count_from(0, 17));
  engine.settle();
  engine.check();
  EXPECT_GT(engine.length(0), 0);
  EXPECT_GT(engine.manager().counters(0)->loaded_pages, 0);
  engine.finish();
}

TEST(Evictions, what_finds_no_spare_page_is_gone_and_counted) {
  ManualTier tier;
  tier.ends_at_once = false;  // the first pages are being stored all the time
  PatternEngine engine(small(tier, 1));
  for (TokenId first = 0; first < 300; first += 100) {
    ASSERT_NE(engine.admit(count_from(first, 17)), nullptr);
    engine.compute(0);
    engine.check();
    engine.release(0);
    engine.manager().poll();
  }
  const TierCounters counters = engine.manager().counters(0).value();
  EXPECT_EQ(counters.storing_pages, 1);
  EXPECT_GT(counters.not_stored[static_cast<int>(StoreRefusal::no_spare)], 0);
  tier.ends_at_once = true;
  engine.finish();
}

TEST(Evictions, a_page_that_is_below_is_not_stored_again) {
  ManualTier tier;
  PatternEngine engine(small(tier, 4));
  for (int round = 0; round < 3; ++round)
    for (TokenId first = 0; first < 400; first += 100) serve(engine, first);
  EXPECT_EQ(tier.stored_again, 0);
  EXPECT_EQ(tier.stored, std::ssize(tier.pages));
  engine.finish();
}

TEST(Evictions, companions_go_down_with_their_leading_pages_and_alone) {
  for (const ModelShape& model : model_shapes()) {
    SCOPED_TRACE(model.name);
    ManualTier tier;
    GroupEngine engine({.model = model,
                        .pages = 40,
                        .tiers = {{.tier = &tier, .policy = StorePolicy::at_eviction}},
                        .manager = {.load_deadline_ms = 0, .spare_pages = 8}});
    for (int round = 0; round < 2; ++round) {
      for (TokenId first = 0; first < 1200; first += 100) {
        GroupEngine::Tokens prompt = count_from(first, 25);
        ASSERT_NE(engine.admit(prompt), nullptr);
        engine.settle();
        EXPECT_EQ(engine.length(0), round == 0 ? 0 : 24) << "prompt " << first;
        engine.compute(0);
        engine.check();
        engine.release(0);
        engine.settle();
      }
    }
    const TierCounters counters = engine.manager().counters(0).value();
    EXPECT_GT(tier.stored, 0);
    EXPECT_GT(counters.loaded_pages, 0);
    EXPECT_EQ(counters.not_stored[static_cast<int>(StoreRefusal::no_spare)], 0);
    EXPECT_EQ(tier.stored_again, 0) << "nothing is computed that was there";
    engine.finish();
  }
}

TEST(Evictions, need_spare_pages_and_room_for_them) {
  ManualTier tier;
  PatternEngine engine({.num_pages = 4});
  const TierOfCache below{.tier = &tier, .policy = StorePolicy::at_eviction};
  CacheManagerOptions options{
      .pool = &engine.pool(), .planes = engine.planes(), .tiers = {&below, 1}};
  EXPECT_THAT(std::string(CacheManager::create(options).error().message()),
              HasSubstr("spare_pages is 0, expected 1 or more"));
  options.spare_pages = 5;
  EXPECT_EQ(CacheManager::create(options).error().code(), Errc::out_of_pages);
  EXPECT_EQ(engine.pool().stats().used_pages, 0) << "nothing is left of it";
  options.spare_pages = 1;
  const Result<CacheManager> one = CacheManager::create(options);
  ASSERT_TRUE(one);
  EXPECT_EQ(CacheManager::create(options).error().code(), Errc::busy) << "another one watches";
  EXPECT_EQ(engine.pool().stats().used_pages, 1);
}

TEST(Evictions, a_pool_takes_no_page_that_is_not_spare) {
  PatternEngine engine({.num_pages = 4});
  struct Wrong {
    IoPin pin;
    int asked = 0;
  } wrong;
  PagePool& pool = engine.pool();
  engine.admit(count_from(0, 9));
  engine.compute(0);
  wrong.pin = pool.begin_io(engine.id(0), 0).value();  // of a page with content
  pool.name(engine.id(0), 1).value();
  pool.watch_evictions({.function =
                            [](void* context, uint32_t, uint32_t, const PageName&) noexcept {
                              auto& w = *static_cast<Wrong*>(context);
                              ++w.asked;
                              return w.pin;
                            },
                        .context = &wrong})
      .or_throw();
  engine.release(0);
  engine.admit(count_from(50, 9));
  engine.compute(0);
  engine.check();
  EXPECT_GT(wrong.asked, 0);
  EXPECT_EQ(pool.watch_evictions({.function = [](void*, uint32_t, uint32_t,
                                                 const PageName&) noexcept { return IoPin(); }})
                .code(),
            Errc::busy);
  pool.watch_evictions({}).or_throw();
  pool.end_io(wrong.pin).or_throw();
  engine.finish();
}

}  // namespace
}  // namespace folio::test
