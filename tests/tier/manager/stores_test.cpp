// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/stores_test.cpp: which pages go to tiers, when, and what becomes of those
/// that cannot.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tier/manager/manual_tier.h"
#include "tier/manager/pattern_engine.h"

namespace folio::test {
namespace {

using Tokens = PatternEngine::Tokens;
constexpr int64_t one_page = PatternEngine::page_bytes;  ///< in bytes

int64_t refused(PatternEngine& engine, StoreRefusal refusal, size_t tier = 0) {
  return engine.manager().counters(tier).value().not_stored[static_cast<size_t>(refusal)];
}

/// Computes `tokens` in a new sequence.
void run(PatternEngine& engine, const Tokens& tokens) {
  ASSERT_NE(engine.admit(tokens), nullptr);
  ASSERT_TRUE(engine.compute(engine.living() - 1));
}

TEST(CacheManagerStores, happen_when_policies_say_so) {
  ManualTier none, through, back;
  PatternEngine engine({.num_pages = 12,
                        .tiers = {{.tier = &none, .policy = StorePolicy::none},
                                  {.tier = &through, .policy = StorePolicy::write_through},
                                  {.tier = &back, .policy = StorePolicy::write_back}}});
  run(engine, count_from(0, 13));
  engine.settle();
  EXPECT_EQ(through.stored, 3);
  EXPECT_EQ(back.stored, 0);
  for (TokenId t = 13; t < 16; ++t) engine.extend(0, t);
  ASSERT_TRUE(engine.compute(0));
  engine.settle();
  EXPECT_EQ(through.stored, 4) << "the fourth page has become full";
  engine.manager().preempt(engine.id(0)).or_throw();
  engine.settle();
  EXPECT_EQ(back.stored, 4);
  engine.release(0);
  engine.settle();
  EXPECT_EQ(back.stored, 4);
  EXPECT_EQ(none.stored, 0);
  EXPECT_EQ(engine.manager().counters(2).value().stored_tokens, 16);
  EXPECT_EQ(engine.manager().counters(2).value().stored_bytes, 4 * one_page);
  EXPECT_EQ(engine.manager().counters(2).value().store_bytes, 0);
  engine.finish();
}

TEST(CacheManagerStores, happen_once_for_pages_that_sequences_share) {
  ManualTier tier;
  tier.ends_at_once = false;
  PatternEngine engine({.num_pages = 12, .tiers = {{.tier = &tier}}});
  run(engine, count_from(0, 13));
  run(engine, count_from(0, 13));
  engine.release(0);
  EXPECT_EQ(tier.pending.size(), 3U);
  engine.release(0);
  EXPECT_EQ(tier.pending.size(), 3U) << "they are under way";
  tier.ends_at_once = true;
  engine.settle();
  run(engine, count_from(0, 13));
  engine.release(0);
  EXPECT_TRUE(tier.pending.empty()) << "they are there";
  EXPECT_EQ(tier.stored, 3);
  engine.finish();
}

TEST(CacheManagerStores, wait_until_pages_have_been_found_often_enough) {
  ManualTier through, back;
  PatternEngine engine(
      {.num_pages = 12,
       .tiers = {{.tier = &through, .policy = StorePolicy::write_through, .min_hits = 2},
                 {.tier = &back, .policy = StorePolicy::write_back, .min_hits = 1}}});
  run(engine, count_from(0, 13));
  engine.release(0);
  engine.settle();
  EXPECT_EQ(back.stored, 0);
  Tokens other = count_from(0, 9);  // two pages of the first one's
  run(engine, other);
  EXPECT_EQ(through.stored, 0);
  engine.release(0);
  engine.settle();
  EXPECT_EQ(back.stored, 2);
  EXPECT_EQ(through.stored, 0);
  run(engine, other);
  engine.settle();
  EXPECT_EQ(through.stored, 2) << "at the second hit";
  engine.release(0);
  engine.settle();
  EXPECT_EQ(back.stored, 2);
  for (int i = 0; i < 2; ++i) {  // pages that are taken for new content begin anew
    run(engine, count_from(1000 + 100 * i, 45));
    engine.release(0);
    engine.settle();
  }
  EXPECT_EQ(through.stored + back.stored, 4);
  engine.finish();
}

TEST(CacheManagerStores, keep_to_their_budget) {
  ManualTier tier;
  tier.ends_at_once = false;
  PatternEngine engine({.num_pages = 12,
                        .tiers = {{.tier = &tier,
                                   .policy = StorePolicy::write_through,
                                   .max_store_bytes = 3 * one_page - 1}}});
  run(engine, count_from(0, 21));
  EXPECT_EQ(tier.pending.size(), 2U) << "the leading ones";
  EXPECT_EQ(refused(engine, StoreRefusal::budget), 3);
  EXPECT_EQ(engine.manager().figures().unstored_pages, 3);
  EXPECT_EQ(engine.manager().counters(0).value().store_bytes, 2 * one_page);
  tier.ends_at_once = true;
  engine.settle();
  run(engine, count_from(100, 9));
  engine.settle();
  EXPECT_EQ(tier.stored, 4) << "there is room again";
  engine.finish();
}

TEST(CacheManagerStores, need_pins) {
  ManualTier tier;
  tier.ends_at_once = false;
  PatternEngine engine({.num_pages = 12, .tiers = {{.tier = &tier}}, .max_io_pins = 2});
  run(engine, count_from(0, 21));
  engine.release(0);
  EXPECT_EQ(tier.pending.size(), 2U);
  EXPECT_EQ(refused(engine, StoreRefusal::no_pin), 3);
  tier.ends_at_once = true;
  engine.finish();
}

TEST(CacheManagerStores, wait_where_the_queue_is_full) {
  ManualTier tier;
  tier.ends_at_once = false;
  tier.room = 2;
  PatternEngine engine({.num_pages = 12, .tiers = {{.tier = &tier}}});
  run(engine, count_from(0, 21));
  engine.release(0);
  EXPECT_EQ(tier.pending.size(), 2U);
  EXPECT_EQ(engine.manager().counters(0).value().waiting_pages, 3);
  EXPECT_EQ(engine.pool().stats().used_pages, 5) << "held";
  run(engine, count_from(50, 25));  // all that is left of the pool
  tier.end();
  engine.manager().poll();
  EXPECT_EQ(engine.manager().counters(0).value().waiting_pages, 2);
  EXPECT_EQ(tier.pending.size(), 2U);
  tier.ends_at_once = true;
  engine.release(0);
  engine.settle();
  EXPECT_EQ(tier.stored, 11);
  EXPECT_EQ(engine.manager().figures().unstored_pages, 0);
  engine.pool().clear().or_throw();
  tier.room = 5;
  ASSERT_EQ(engine.admit(count_from(0, 21))->loading_tokens, 20);
  engine.settle();
  engine.check();
  engine.finish();
}

TEST(CacheManagerStores, that_wait_can_be_given_up) {
  ManualTier tier;
  tier.ends_at_once = false;
  tier.room = 2;
  PatternEngine engine({.num_pages = 12, .tiers = {{.tier = &tier}}});
  run(engine, count_from(0, 21));
  engine.release(0);
  EXPECT_EQ(engine.manager().give_up_stores(), 3);
  EXPECT_EQ(engine.manager().give_up_stores(), 0);
  EXPECT_EQ(engine.pool().stats().used_pages, 2);
  EXPECT_EQ(refused(engine, StoreRefusal::given_up), 3);
  tier.ends_at_once = true;
  engine.finish();
}

TEST(CacheManagerStores, do_not_wait_for_a_queue_that_can_never_have_room) {
  ManualTier tier;
  tier.room = 0;
  PatternEngine engine({.num_pages = 12, .tiers = {{.tier = &tier}}});
  run(engine, count_from(0, 13));
  engine.release(0);
  EXPECT_EQ(engine.manager().figures().stores, 0);
  EXPECT_EQ(refused(engine, StoreRefusal::failed), 3);
  EXPECT_FALSE(engine.manager().counters(0).value().store_rests.is_resting)
      << "a full queue is no fault";
  engine.finish();
}

TEST(CacheManagerStores, end_at_their_deadline_but_hold_what_the_tier_reads) {
  ManualTier tier;
  ManualClock clock;
  tier.ends_at_once = false;
  tier.room = 1;
  PatternEngine engine({.num_pages = 12,
                        .tiers = {{.tier = &tier}},
                        .manager = {.store_deadline_ms = 10, .clock = clock.clock()}});
  run(engine, count_from(0, 9));
  engine.release(0);
  clock.advance_ms(10);
  engine.manager().poll();
  EXPECT_TRUE(tier.pending.front().is_cancelled);
  EXPECT_EQ(engine.manager().counters(0).value().waiting_pages, 0);
  EXPECT_EQ(refused(engine, StoreRefusal::given_up), 1);
  EXPECT_EQ(engine.pool().stats().used_pages, 1);
  tier.end();
  engine.manager().poll();
  EXPECT_EQ(engine.pool().stats().used_pages, 0);
  EXPECT_EQ(engine.manager().counters(0).value().store_outcomes[5], 1) << "cancelled";
  engine.finish();
}

TEST(CacheManagerStores, do_not_wait_for_a_tier_that_rests) {
  ManualTier tier;
  ManualClock clock;
  tier.ends_at_once = false;
  tier.room = 2;
  PatternEngine engine({.num_pages = 12,
                        .tiers = {{.tier = &tier, .faults_to_rest = 2}},
                        .manager = {.clock = clock.clock()}});
  run(engine, count_from(0, 21));
  engine.release(0);
  tier.store_outcome = TierOutcome::failed;
  tier.end();
  tier.end();
  engine.manager().poll();
  const TierCounters counters = engine.manager().counters(0).value();
  EXPECT_TRUE(counters.store_rests.is_resting);
  EXPECT_FALSE(counters.load_rests.is_resting);
  EXPECT_EQ(refused(engine, StoreRefusal::resting), 3);
  EXPECT_EQ(engine.pool().stats().used_pages, 0);
  engine.finish();
}

/// Its stores rest for each reason in turn, and what it has is loaded.
TEST(CacheManagerStores, that_rest_leave_a_tier_to_be_read) {
  const Tokens there = count_from(0, 13);
  ManualTier tier;
  ManualClock clock;
  PatternEngine engine(
      {.num_pages = 12,
       .tiers = {{.tier = &tier, .policy = StorePolicy::write_through, .faults_to_rest = 2}},
       .manager = {.store_deadline_ms = 10, .clock = clock.clock()}});
  TokenId next = 1000;
  const auto run_new = [&] {
    run(engine, count_from(next += 1000, 13));
    engine.release(0);
  };
  const auto rests = [&] { return engine.manager().counters(0).value().store_rests; };
  const auto expect_read = [&](RestReason reason) {
    EXPECT_TRUE(rests().is_resting) << name(reason);
    EXPECT_EQ(rests().begun[static_cast<size_t>(reason)], 1) << name(reason);
    EXPECT_EQ(rests().last_reason, reason);
    engine.pool().clear().or_throw();
    ASSERT_NE(engine.admit(there), nullptr);
    engine.settle();
    EXPECT_EQ(engine.length(0), 12) << name(reason);
    engine.check();
    engine.release(0);
    clock.advance_ms(1'000'000);
  };
  run(engine, there);
  engine.release(0);
  engine.settle();
  tier.store_outcome = TierOutcome::failed;
  run_new();
  engine.settle();
  expect_read(RestReason::failed);
  tier.store_outcome = TierOutcome::done;
  run_new();
  engine.settle();
  tier.ends_at_once = false;
  run_new();
  clock.advance_ms(10);
  engine.manager().poll();
  tier.ends_at_once = true;
  engine.settle();
  expect_read(RestReason::late);
  run_new();
  engine.settle();
  tier.is_closed = true;
  run_new();
  tier.is_closed = false;
  engine.settle();
  expect_read(RestReason::refused);
  EXPECT_EQ(engine.manager().counters(0).value().load_rests, TierRests());
  engine.finish();
}

TEST(CacheManagerStores, bring_pages_up_where_a_tier_promotes) {
  ManualTier fast, slow;
  PatternEngine engine(
      {.num_pages = 12,
       .tiers = {{.tier = &fast, .policy = StorePolicy::none, .promotes = true}, {.tier = &slow}}});
  run(engine, count_from(0, 13));
  engine.release(0);
  engine.settle();
  EXPECT_EQ(fast.stored, 0);
  for (int turn = 0; turn < 2; ++turn) {
    engine.pool().clear().or_throw();
    EXPECT_EQ(engine.manager().prefetch(count_from(0, 13)).value(), 12);
    engine.settle();
    EXPECT_EQ(fast.stored, 3);
    EXPECT_EQ(slow.load_calls, 1) << "then the fast one has them";
  }
  EXPECT_EQ(engine.manager().counters(0).value().promoted_pages, 3);
  run(engine, count_from(0, 13));
  engine.check();
  engine.finish();
}

TEST(CacheManagerStores, end_with_the_manager_though_a_tier_never_answers) {
  ManualTier tier;
  tier.ends_at_once = false;
  tier.room = 4;
  PatternEngine engine(
      {.num_pages = 12, .tiers = {{.tier = &tier}}, .manager = {.close_wait_ms = 1}});
  tier.pages[{}] = {};
  run(engine, count_from(0, 21));
  engine.release(0);
  {
    const CacheManager taken = std::move(engine.manager());
    EXPECT_EQ(taken.figures().stores, 5);
  }
  for (const auto& page : tier.pending) EXPECT_TRUE(page.is_cancelled);
  EXPECT_EQ(engine.pool().stats().used_pages, 4) << "the tier may still read them";
  EXPECT_EQ(engine.pool().clear().code(), Errc::busy);
  EXPECT_EQ(engine.pool().check_invariants().message(), "");
}

TEST(CacheManagerStores, and_loads_end_with_the_manager_when_the_tier_answers) {
  ManualTier tier;
  PatternEngine engine({.num_pages = 24, .tiers = {{.tier = &tier}}});
  run(engine, count_from(0, 21));
  engine.release(0);
  engine.settle();
  engine.pool().clear().or_throw();
  ASSERT_EQ(engine.admit(count_from(0, 21))->loading_tokens, 20);
  ASSERT_EQ(engine.manager().prefetch(count_from(0, 21)).value(), 20);
  { const CacheManager taken = std::move(engine.manager()); }
  EXPECT_EQ(engine.pool().stats().sequences, 1) << "the engine's";
  EXPECT_EQ(engine.pool().length(engine.id(0)).value(), 0);
  EXPECT_EQ(engine.pool().stats().used_pages, 0) << "room is given back, pins have ended";
}

}  // namespace
}  // namespace folio::test
