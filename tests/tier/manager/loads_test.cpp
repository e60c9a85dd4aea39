// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/loads_test.cpp: pages come back from tiers, from which, in which order, and
/// what becomes of those that do not.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tier/manager/manual_tier.h"
#include "tier/manager/pattern_engine.h"

namespace folio::test {
namespace {

using Tokens = PatternEngine::Tokens;

/// Eight full pages, and a token that is always computed.
const Tokens prompt = count_from(0, 33);

TierOfCache back(ManualTier& tier) { return {.tier = &tier}; }

/// Computes the prompt, stores it in all tiers, and empties the memory. Returns its pages' names.
std::vector<PageName> put_down(PatternEngine& engine, const Tokens& tokens) {
  EXPECT_NE(engine.admit(tokens), nullptr);
  EXPECT_TRUE(engine.compute(engine.living() - 1));
  std::vector<PageName> names;
  const SequenceId id = engine.id(engine.living() - 1);
  for (int32_t p = 0; p < std::ssize(tokens) / PatternEngine::page_size; ++p)
    names.push_back(engine.pool().name(id, p).value());
  engine.release(engine.living() - 1);
  engine.settle();
  engine.pool().clear().or_throw();
  return names;
}

int64_t refused(const TierCounters& counters, LoadRefusal refusal) {
  return counters.not_loaded[static_cast<size_t>(refusal)];
}

TEST(CacheManagerLoads, come_back_and_are_counted) {
  ManualTier tier;
  PatternEngine engine({.num_pages = 12, .tiers = {back(tier)}});
  put_down(engine, prompt);
  const TieredAdmission* const a = engine.admit(prompt);
  EXPECT_EQ(a->cached_tokens, 0);
  EXPECT_EQ(a->loading_tokens, 32);
  EXPECT_EQ(engine.load_state(0), LoadState::loading);
  EXPECT_EQ(engine.manager().commit(a->id, {}).code(), Errc::busy);
  EXPECT_FALSE(engine.compute(0));
  engine.settle();
  EXPECT_EQ(engine.load_state(0), LoadState::loaded);
  EXPECT_EQ(engine.length(0), 32);
  engine.check();
  EXPECT_TRUE(engine.compute(0));
  engine.check();
  const TierCounters counters = engine.manager().counters(0).value();
  EXPECT_EQ(counters.found_pages, 8);
  EXPECT_EQ(counters.looked_up_pages, 8 + 1) << "the first time, one name for nothing";
  EXPECT_EQ(counters.loaded_pages, 8);
  EXPECT_EQ(counters.loaded_tokens, 32);
  EXPECT_EQ(counters.loaded_bytes, 8 * PatternEngine::page_bytes);
  EXPECT_EQ(counters.load_outcomes[static_cast<size_t>(TierOutcome::done)], 8);
  EXPECT_EQ(counters.load_latency.count, 1);
  EXPECT_EQ(counters.store_latency.count, 8);
  EXPECT_EQ(counters.loading_pages, 0);
  engine.finish();
}

TEST(CacheManagerLoads, take_leading_pages_from_one_tier_and_those_behind_from_another) {
  ManualTier fast, slow;
  PatternEngine engine({.num_pages = 12, .tiers = {back(fast), back(slow)}});
  const std::vector<PageName> names = put_down(engine, prompt);
  for (size_t p = 3; p < names.size(); ++p) fast.pages.erase(names[p]);
  for (const size_t p : {0U, 1U}) slow.pages.erase(names[p]);
  ASSERT_NE(engine.admit(prompt), nullptr);
  engine.settle();
  EXPECT_EQ(engine.length(0), 32);
  EXPECT_EQ(engine.manager().counters(0).value().loaded_pages, 3);
  EXPECT_EQ(engine.manager().counters(1).value().loaded_pages, 5);
  EXPECT_EQ(fast.load_calls, 1);
  EXPECT_EQ(slow.load_calls, 1);
  engine.check();
  engine.finish();
}

TEST(CacheManagerLoads, end_before_a_page_that_is_lost_and_wait_for_those_before_it) {
  ManualTier tier;
  PatternEngine engine({.num_pages = 12, .tiers = {back(tier)}});
  put_down(engine, prompt);
  tier.ends_at_once = false;
  ASSERT_NE(engine.admit(prompt), nullptr);
  tier.end(7);
  tier.load_outcome = TierOutcome::corrupt;
  tier.end(2);
  engine.manager().poll();
  EXPECT_EQ(engine.load_state(0), LoadState::loading) << "two pages may still come";
  EXPECT_EQ(engine.manager().layers_ready(engine.id(0)), 0);
  tier.load_outcome = TierOutcome::done;
  tier.end(0);
  tier.end(0);
  engine.manager().poll();
  EXPECT_EQ(engine.load_state(0), LoadState::cut_short);
  EXPECT_EQ(engine.length(0), 8);
  EXPECT_TRUE(engine.compute(0)) << "while the tier may still write to pages that are lost";
  engine.check();
  for (auto& page : tier.pending) page.is_cancelled = false;  // it has begun, and goes on
  tier.ends_at_once = true;
  engine.settle();
  engine.check();
  const TierCounters counters = engine.manager().counters(0).value();
  EXPECT_EQ(counters.lost_pages, 6);
  EXPECT_EQ(counters.load_outcomes[static_cast<size_t>(TierOutcome::corrupt)], 1);
  engine.finish();
}

TEST(CacheManagerLoads, end_at_their_deadline_though_the_tier_never_answers) {
  ManualTier tier;
  ManualClock clock;
  PatternEngine engine({.num_pages = 20,
                        .tiers = {back(tier)},
                        .manager = {.load_deadline_ms = 10, .clock = clock.clock()}});
  put_down(engine, prompt);
  tier.ends_at_once = false;
  ASSERT_NE(engine.admit(prompt), nullptr);
  clock.advance_ms(9);
  engine.manager().poll();
  EXPECT_EQ(engine.load_state(0), LoadState::loading);
  clock.advance_ms(1);
  engine.manager().poll();
  EXPECT_EQ(engine.load_state(0), LoadState::cut_short);
  EXPECT_TRUE(engine.compute(0));
  engine.check();
  std::swap(tier.pages.begin()->second, tier.pages.rbegin()->second);  // what comes now is wrong
  for (auto& page : tier.pending) page.is_cancelled = false;
  while (!tier.pending.empty()) tier.end();
  engine.check();
  engine.manager().poll();
  engine.check();
  tier.ends_at_once = true;
  engine.finish();
}

TEST(CacheManagerLoads, come_layer_by_layer) {
  ManualTier tier;
  PatternEngine engine({.num_pages = 12, .tiers = {back(tier)}});
  put_down(engine, prompt);
  EXPECT_EQ(engine.manager().layers_ready({}), 0);
  tier.ends_at_once = false;
  ASSERT_NE(engine.admit(prompt), nullptr);
  EXPECT_EQ(tier.last_order, LoadOrder::extents);
  const SequenceId id = engine.id(0);
  const std::pair<uint32_t, int32_t> layers_of_extents[] = {{0, 0}, {1, 0}, {2, 1}, {5, 2}, {6, 3}};
  for (const auto& [extents, layers] : layers_of_extents) {
    tier.landed_extents = extents;
    EXPECT_EQ(engine.manager().layers_ready(id), layers) << extents;
  }
  engine.pool().reserve(id, 33).or_throw();  // the engine's own room, for a step that begins early
  const StepTicket step = engine.pool().begin_step({&id, 1}).value();
  tier.ends_at_once = true;
  engine.settle();
  EXPECT_EQ(engine.manager().layers_ready(id), 3);
  engine.pool().end_step(step).or_throw();
  engine.check();
  engine.finish();
}

TEST(CacheManagerLoads, take_the_place_of_a_hit_within_a_page) {
  ManualTier tier;
  PatternEngine engine({.num_pages = 12, .tiers = {back(tier)}, .min_partial_tokens = 1});
  put_down(engine, count_from(0, 13));
  Tokens other = count_from(0, 6);
  other.insert(other.end(), {99, 98, 97});
  ASSERT_NE(engine.admit(other), nullptr);
  engine.settle();
  ASSERT_TRUE(engine.compute(0));
  engine.release(0);
  engine.settle();
  const TieredAdmission* a = engine.admit(count_from(0, 13));
  EXPECT_EQ(a->cached_tokens, 4);
  EXPECT_EQ(a->loading_tokens, 8);
  engine.settle();
  engine.check();
  EXPECT_EQ(engine.length(0), 12);
  ASSERT_TRUE(engine.compute(0));
  engine.check();
  engine.release(0);

  Tokens third = count_from(0, 6);
  third.insert(third.end(), {55, 54, 53});
  a = engine.admit(third);
  EXPECT_EQ(a->cached_tokens, 6) << "no tier has more";
  EXPECT_EQ(a->loading_tokens, 0);
  ASSERT_TRUE(engine.compute(0));
  engine.check();
  engine.finish();
}

TEST(CacheManagerLoads, that_are_too_short_leave_a_hit_within_a_page_alone) {
  ManualTier tier;
  PatternEngine engine({.num_pages = 12,
                        .tiers = {back(tier)},
                        .min_partial_tokens = 1,
                        .manager = {.min_load_pages = 3}});
  put_down(engine, count_from(0, 13));
  Tokens other = count_from(0, 6);
  other.insert(other.end(), {99, 98, 97});
  ASSERT_NE(engine.admit(other), nullptr);
  ASSERT_TRUE(engine.compute(0));
  const TieredAdmission* const a = engine.admit(count_from(0, 13));
  EXPECT_EQ(a->cached_tokens, 6);
  EXPECT_EQ(a->loading_tokens, 0);
  EXPECT_EQ(refused(engine.manager().counters(0).value(), LoadRefusal::few_pages), 1 + 2);
  ASSERT_TRUE(engine.compute(1));
  engine.check();
  engine.finish();
}

TEST(CacheManagerLoads, are_as_long_as_pins_and_queues_allow) {
  ManualTier tier;
  PatternEngine engine({.num_pages = 24, .tiers = {back(tier)}, .max_io_pins = 9});
  const Tokens other = count_from(100, 33);
  put_down(engine, other);
  put_down(engine, prompt);
  tier.ends_at_once = false;
  ASSERT_EQ(engine.admit(prompt)->loading_tokens, 32);
  ASSERT_EQ(engine.admit(other)->loading_tokens, 4) << "one pin is left";
  EXPECT_EQ(refused(engine.manager().counters(0).value(), LoadRefusal::no_pin), 7);
  tier.ends_at_once = true;
  engine.settle();
  EXPECT_EQ(engine.length(0), 32);
  EXPECT_EQ(engine.length(1), 4);
  engine.check();
  while (engine.living() != 0) engine.release(0);
  engine.settle();
  engine.pool().clear().or_throw();
  tier.room = 3;
  ASSERT_EQ(engine.admit(prompt)->loading_tokens, 8) << "8, 4 and 2 were tried";
  EXPECT_EQ(refused(engine.manager().counters(0).value(), LoadRefusal::busy), 6);
  engine.settle();
  engine.check();
  engine.finish();
}

TEST(CacheManagerLoads, need_room_in_the_pool) {
  ManualTier tier;
  PatternEngine engine({.num_pages = 9, .tiers = {back(tier)}});
  put_down(engine, prompt);
  ASSERT_NE(engine.admit(count_from(100, 8)), nullptr);
  ASSERT_TRUE(engine.compute(0));
  const TieredAdmission* const a = engine.admit(prompt);
  EXPECT_EQ(a->loading_tokens, 0);
  EXPECT_EQ(engine.load_state(1), LoadState::none);
  EXPECT_EQ(refused(engine.manager().counters(0).value(), LoadRefusal::no_room), 8);
  engine.finish();
}

TEST(CacheManagerLoads, can_be_cancelled) {
  ManualTier tier;
  PatternEngine engine({.num_pages = 20, .tiers = {back(tier)}});
  put_down(engine, prompt);
  tier.ends_at_once = false;
  ASSERT_NE(engine.admit(prompt), nullptr);
  tier.end();
  tier.end();
  engine.manager().poll();
  engine.manager().cancel_load(engine.id(0)).or_throw();
  EXPECT_EQ(engine.load_state(0), LoadState::cut_short);
  EXPECT_EQ(engine.length(0), 8) << "what came is kept";
  for (const auto& page : tier.pending) EXPECT_TRUE(page.is_cancelled);
  engine.manager().cancel_load(engine.id(0)).or_throw();
  EXPECT_TRUE(engine.compute(0));
  engine.check();
  ASSERT_NE(engine.admit(count_from(200, 9)), nullptr);
  engine.release(0);
  tier.ends_at_once = true;
  engine.settle();
  EXPECT_EQ(engine.manager().counters(0).value().lost_pages, 6);
  engine.finish();
}

TEST(CacheManagerLoads, without_a_sequence_leave_cached_pages) {
  ManualTier tier;
  PatternEngine engine({.num_pages = 12, .tiers = {back(tier)}});
  put_down(engine, prompt);
  EXPECT_EQ(engine.manager().prefetch(count_from(500, 33)).value(), 0);
  EXPECT_EQ(engine.pool().stats().sequences, 0);
  EXPECT_EQ(engine.manager().prefetch(prompt).value(), 32);
  EXPECT_EQ(engine.pool().stats().sequences, 1);
  engine.settle();
  EXPECT_EQ(engine.pool().stats().sequences, 0);
  EXPECT_EQ(engine.pool().stats().cached_pages, 8);
  EXPECT_EQ(engine.manager().prefetch(prompt).value(), 0) << "memory has all of it";
  const TieredAdmission* const a = engine.admit(prompt);
  EXPECT_EQ(a->cached_tokens, 32);
  EXPECT_EQ(a->loading_tokens, 0);
  engine.check();
  engine.finish();
}

TEST(CacheManagerLoads, without_a_sequence_end_at_their_deadline) {
  ManualTier tier;
  ManualClock clock;
  PatternEngine engine({.num_pages = 12,
                        .tiers = {back(tier)},
                        .manager = {.load_deadline_ms = 10, .clock = clock.clock()}});
  put_down(engine, prompt);
  tier.ends_at_once = false;
  EXPECT_EQ(engine.manager().prefetch(prompt).value(), 32);
  tier.end();
  clock.advance_ms(10);
  engine.manager().poll();
  EXPECT_EQ(engine.pool().stats().sequences, 0);
  EXPECT_EQ(engine.pool().stats().cached_pages, 1) << "what came in time";
  EXPECT_EQ(engine.pool().stats().used_pages, 7) << "pins hold what the tier may write";
  tier.ends_at_once = true;
  engine.finish();
}

TEST(CacheManagerLoads, believe_no_more_than_they_must) {
  ManualTier tier;
  PatternEngine engine({.num_pages = 20, .tiers = {back(tier)}});
  put_down(engine, prompt);
  tier.lies_by = 1000;
  ASSERT_EQ(engine.admit(count_from(700, 9))->loading_tokens, 8) << "it says that it has them";
  engine.settle();
  EXPECT_EQ(engine.load_state(0), LoadState::cut_short);
  EXPECT_EQ(engine.length(0), 0);
  tier.lies_by = -1000;
  EXPECT_EQ(engine.admit(prompt)->loading_tokens, 0);
  tier.lies_by = 0;
  engine.release(1);
  // completions of nobody, of no page, of no outcome, and one twice
  tier.ends_at_once = false;
  ASSERT_EQ(engine.admit(prompt)->loading_tokens, 32);
  const TierTicket ticket = tier.pending.front().completion.ticket;
  tier.ended.push_back({{12345}, 0, TierOutcome::done});
  tier.ended.push_back({ticket, 8, TierOutcome::done});
  tier.ended.push_back({ticket, 0, static_cast<TierOutcome>(99)});
  tier.end();
  tier.ended.push_back(tier.ended.back());
  engine.manager().poll();
  EXPECT_EQ(engine.length(1), 4);
  tier.ends_at_once = true;
  engine.settle();
  EXPECT_EQ(engine.length(1), 32);
  engine.check();
  engine.finish();
}

TEST(CacheManagerLoads, leave_a_tier_alone_that_fails_again_and_again) {
  ManualTier tier;
  ManualClock clock;
  PatternEngine engine({.num_pages = 24,
                        .tiers = {{.tier = &tier,
                                   .policy = StorePolicy::write_through,
                                   .faults_to_rest = 2,
                                   .first_rest_ms = 10,
                                   .longest_rest_ms = 25}},
                        .manager = {.clock = clock.clock()}});
  put_down(engine, prompt);
  const auto try_load = [&] {
    const int64_t calls = tier.load_calls;
    EXPECT_NE(engine.admit(prompt), nullptr);
    engine.settle();
    engine.release(0);
    engine.settle();
    engine.pool().clear().or_throw();
    return tier.load_calls != calls;
  };
  const auto rests = [&] { return engine.manager().counters(0).value().load_rests; };
  const auto is_resting = [&] { return rests().is_resting; };
  tier.load_outcome = TierOutcome::failed;
  EXPECT_TRUE(try_load());
  EXPECT_FALSE(is_resting());
  EXPECT_TRUE(try_load());
  for (const int64_t rest_ms : {10, 20, 25, 25}) {
    EXPECT_TRUE(is_resting());
    const int64_t finds = tier.finds;
    EXPECT_FALSE(try_load()) << "it is a miss";
    EXPECT_EQ(tier.finds, finds);
    clock.advance_ms(rest_ms - 1);
    EXPECT_FALSE(try_load());
    clock.advance_ms(1);
    EXPECT_FALSE(is_resting());
    EXPECT_TRUE(try_load()) << "one fault more is enough";
  }
  EXPECT_EQ(rests().begun[static_cast<size_t>(RestReason::failed)], 5);
  EXPECT_EQ(refused(engine.manager().counters(0).value(), LoadRefusal::resting), 8);
  const int64_t stored = tier.stored;
  put_down(engine, count_from(900, 8));
  EXPECT_EQ(tier.stored, stored + 2) << "it can be written all the while";
  clock.advance_ms(25);
  tier.load_outcome = TierOutcome::done;
  EXPECT_TRUE(try_load());
  tier.load_outcome = TierOutcome::late;
  EXPECT_TRUE(try_load());
  EXPECT_FALSE(is_resting()) << "what succeeded has been noted";
  EXPECT_TRUE(try_load());
  EXPECT_TRUE(is_resting());
  EXPECT_EQ(rests().last_reason, RestReason::late);
  clock.advance_ms(9);
  EXPECT_TRUE(is_resting());
  clock.advance_ms(1);
  EXPECT_FALSE(is_resting()) << "rests are short again";
  tier.is_closed = true;
  EXPECT_TRUE(try_load());
  EXPECT_TRUE(is_resting()) << "a tier that has closed";
  EXPECT_EQ(rests().last_reason, RestReason::refused);
  engine.finish();
}

}  // namespace
}  // namespace folio::test
