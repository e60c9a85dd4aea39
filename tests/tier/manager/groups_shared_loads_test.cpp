// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/groups_shared_loads_test.cpp: sequences of a hybrid model that want pages
/// which are on their way to another.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tier/manager/filled_tier.h"

namespace folio::test {
namespace {

/// Pages that a tier has of a prompt, which come to an engine when a test says so.
struct OnTheirWay {
  explicit OnTheirWay(const std::string& model,
                      const CacheManagerOptions& manager = {.load_deadline_ms = 0})
      : filled(model, 8), engine(reader(manager)) {
    filled.tier.ends_at_once = false;
  }
  GroupEngine::Options reader(const CacheManagerOptions& manager) {
    GroupEngine::Options options = filled.reader();
    options.manager = manager;
    return options;
  }
  /// All of them, and later ones at once.
  void come() {
    filled.tier.ends_at_once = true;
    engine.settle();
    engine.check();
  }

  Filled filled;
  GroupEngine engine;
  const GroupEngine::Tokens prompt = tokens(8 * GroupEngine::page_size + 1);
};

TEST(SharedGroupLoads, a_prefetch_of_what_is_on_its_way_begins_nothing) {
  for (const ModelShape& model : model_shapes()) {
    SCOPED_TRACE(model.name);
    OnTheirWay pages(model.name);
    auto& [filled, engine, prompt] = pages;
    const auto prefetched = [&](const GroupEngine::Tokens& wanted) {
      return engine.manager().prefetch(wanted).value() / GroupEngine::page_size;
    };
    engine.admit(prompt);
    EXPECT_EQ(filled.tier.load_calls, 1);
    if (filled.tier.pending.size() > 1) filled.tier.end();  // it has come, and is not committed
    engine.manager().poll();
    const size_t pending = filled.tier.pending.size();
    EXPECT_EQ(prefetched(prompt), 8);
    EXPECT_EQ(filled.tier.load_calls, 1);
    EXPECT_EQ(filled.tier.pending.size(), pending);
    engine.release(0);  // nobody waits for these any more
    EXPECT_EQ(prefetched(prompt), 8);
    EXPECT_EQ(filled.tier.load_calls, 2);
    pages.come();
    engine.finish();
  }
}

TEST(SharedGroupLoads, a_prefetch_that_needs_a_companion_more_asks_for_that_alone) {
  OnTheirWay pages("jamba");
  auto& [filled, engine, prompt] = pages;
  engine.admit(prompt);  // the last state alone
  EXPECT_EQ(filled.tier.load_calls, 1);
  const GroupEngine::Tokens shorter = tokens(6 * GroupEngine::page_size + 1);
  EXPECT_EQ(engine.manager().prefetch(shorter).value(), 6 * GroupEngine::page_size);
  EXPECT_EQ(filled.tier.load_calls, 1) << "it waits for the pages";
  pages.come();
  EXPECT_EQ(filled.tier.load_calls, 2);
  EXPECT_EQ(engine.manager().counters(0)->loaded_pages, 8 + 1 + 1) << "no page twice";
  EXPECT_EQ(engine.manager().figures().shared_pages, 6);
  EXPECT_EQ(engine.length(0), 8 * GroupEngine::page_size);
  engine.finish();
}

TEST(SharedGroupLoads, sequences_that_want_the_same_pages_load_them_once) {
  for (const ModelShape& model : model_shapes()) {
    SCOPED_TRACE(model.name);
    OnTheirWay pages(model.name);
    auto& [filled, engine, prompt] = pages;
    engine.admit(prompt);
    const size_t pending = filled.tier.pending.size();
    for (const size_t i : {1U, 2U}) {
      ASSERT_EQ(engine.admit(prompt)->loading_tokens, 8 * GroupEngine::page_size);
      EXPECT_EQ(engine.load_state(i), LoadState::loading);
      EXPECT_EQ(engine.manager().layers_ready(engine.id(i)), 0);
      EXPECT_EQ(engine.pool().commit(engine.id(i), {prompt.data(), 1}).code(), Errc::busy);
    }
    EXPECT_EQ(filled.tier.load_calls, 1);
    EXPECT_EQ(filled.tier.pending.size(), pending);
    pages.come();
    for (const size_t i : {0U, 1U, 2U}) {
      EXPECT_EQ(engine.load_state(i), LoadState::loaded) << i;
      EXPECT_EQ(engine.length(i), 8 * GroupEngine::page_size) << i;
    }
    EXPECT_EQ(filled.tier.load_calls, 1);
    EXPECT_EQ(engine.manager().figures().shared_pages, 2 * static_cast<int64_t>(pending));
    for (const size_t i : {0U, 1U, 2U}) EXPECT_TRUE(engine.compute(i));
    engine.check();
    engine.finish();
  }
}

TEST(SharedGroupLoads, who_waits_for_a_load_that_is_given_up_asks_tiers_itself) {
  using GiveUp = std::function<void(GroupEngine&)>;
  const std::pair<const char*, GiveUp> ways[] = {
      {"trimmed", [](GroupEngine& e) { e.pool().trim(e.id(0), 0).or_throw(); }},
      {"preempted", [](GroupEngine& e) { e.preempt(0); }},
      {"preempted in the pool", [](GroupEngine& e) { e.pool().preempt(e.id(0)).or_throw(); }},
      {"cancelled", [](GroupEngine& e) { e.manager().cancel_load(e.id(0)).or_throw(); }},
      {"released", [](GroupEngine& e) { e.release(0); }}};
  for (const auto& [way, give_up] : ways) {
    SCOPED_TRACE(way);
    OnTheirWay pages("gemma");
    auto& [filled, engine, prompt] = pages;
    engine.admit(prompt);
    engine.admit(prompt);
    filled.tier.end();
    EXPECT_EQ(filled.tier.load_calls, 1);
    give_up(engine);
    const size_t waits = engine.living() - 1;
    engine.manager().poll();
    engine.manager().poll();
    EXPECT_EQ(filled.tier.load_calls, 2);
    EXPECT_EQ(engine.load_state(waits), LoadState::loading);
    pages.come();
    EXPECT_EQ(engine.load_state(waits), LoadState::loaded);
    EXPECT_EQ(engine.length(waits), 8 * GroupEngine::page_size);
    EXPECT_EQ(engine.manager().figures().shared_pages, 0);
    EXPECT_EQ(engine.manager().figures().lost_pages, 8 + 2) << "of the first";
    engine.finish();
  }
}

TEST(SharedGroupLoads, of_those_who_wait_for_a_load_that_is_given_up_one_asks_tiers) {
  OnTheirWay pages("jamba");
  auto& [filled, engine, prompt] = pages;
  for (int i = 0; i < 4; ++i) engine.admit(prompt);
  engine.release(0);
  for (int i = 0; i < 3; ++i) engine.manager().poll();
  EXPECT_EQ(filled.tier.load_calls, 2);
  EXPECT_EQ(engine.manager().counters(0)->loading_pages, 2 * (8 + 1)) << "of both";
  pages.come();
  EXPECT_EQ(filled.tier.load_calls, 2);
  for (const size_t i : {0U, 1U, 2U}) {
    EXPECT_EQ(engine.load_state(i), LoadState::loaded) << i;
    EXPECT_TRUE(engine.compute(i));
  }
  EXPECT_EQ(engine.manager().figures().shared_pages, 2 * (8 + 1));
  engine.check();
  engine.finish();
}

TEST(SharedGroupLoads, who_waits_for_a_load_that_loses_pages_has_what_is_left_of_it) {
  OnTheirWay pages("jamba");
  auto& [filled, engine, prompt] = pages;
  engine.admit(prompt);
  ASSERT_EQ(engine.admit(prompt)->loading_tokens, 8 * GroupEngine::page_size);
  filled.tier.pages.erase(filled.name(1, 7));
  pages.come();
  for (const size_t i : {0U, 1U}) {
    EXPECT_EQ(engine.load_state(i), LoadState::cut_short) << i;
    EXPECT_EQ(engine.length(i), 6 * GroupEngine::page_size) << i;
  }
  EXPECT_EQ(filled.tier.load_calls, 2) << "the first one's, and the state before";
  EXPECT_EQ(engine.manager().figures().shared_pages, 6);
  for (const size_t i : {0U, 1U}) EXPECT_TRUE(engine.compute(i));
  engine.check();
  engine.finish();
}

TEST(SharedGroupLoads, goes_on_where_one_who_waits_is_given_up) {
  OnTheirWay pages("gemma");
  auto& [filled, engine, prompt] = pages;
  for (int i = 0; i < 5; ++i) engine.admit(prompt);
  engine.release(4);
  engine.manager().cancel_load(engine.id(3)).or_throw();
  engine.pool().trim(engine.id(2), 0).or_throw();
  engine.preempt(1);
  for (const size_t i : {1U, 2U, 3U}) {
    EXPECT_EQ(engine.length(i), 0) << i;
    engine.manager().poll();
    EXPECT_EQ(engine.load_state(i), LoadState::cut_short) << i;
  }
  EXPECT_EQ(engine.manager().figures().changed_pages, 8 + 2) << "of the one that was trimmed";
  pages.come();
  EXPECT_EQ(engine.load_state(0), LoadState::loaded);
  EXPECT_EQ(engine.length(0), 8 * GroupEngine::page_size);
  EXPECT_EQ(filled.tier.load_calls, 1);
  EXPECT_EQ(engine.manager().figures().lost_pages, 4 * (8 + 2));
  engine.finish();
}

TEST(SharedGroupLoads, that_is_late_leaves_who_waits_the_time_that_he_has) {
  for (const bool comes : {true, false}) {
    ManualClock clock;
    OnTheirWay pages("gemma", {.load_deadline_ms = 10, .clock = clock.clock()});
    auto& [filled, engine, prompt] = pages;
    engine.admit(prompt);
    clock.advance_ms(6);
    engine.admit(prompt);
    clock.advance_ms(5);
    engine.manager().poll();
    engine.manager().poll();
    EXPECT_EQ(engine.load_state(0), LoadState::cut_short);
    EXPECT_EQ(engine.length(0), 0);
    EXPECT_EQ(engine.load_state(1), LoadState::loading) << "it has 5 ms";
    EXPECT_EQ(filled.tier.load_calls, 2);
    if (comes) {
      filled.tier.ends_at_once = true;
    } else {
      clock.advance_ms(5);
      engine.manager().poll();
    }
    engine.manager().poll();
    EXPECT_EQ(engine.load_state(1), comes ? LoadState::loaded : LoadState::cut_short);
    EXPECT_EQ(engine.length(1), comes ? 8 * GroupEngine::page_size : 0);
    pages.come();
    for (const size_t i : {0U, 1U}) EXPECT_TRUE(engine.compute(i));
    engine.finish();
  }
}

TEST(SharedGroupLoads, ends_at_the_deadline_of_those_who_wait) {
  ManualClock clock;
  OnTheirWay pages("gemma", {.load_deadline_ms = 10, .clock = clock.clock()});
  auto& [filled, engine, prompt] = pages;
  engine.admit(prompt);
  engine.admit(prompt);
  clock.advance_ms(11);
  for (int i = 0; i < 2; ++i) engine.manager().poll();
  for (const size_t i : {0U, 1U}) EXPECT_EQ(engine.load_state(i), LoadState::cut_short) << i;
  EXPECT_EQ(engine.manager().figures().lost_pages, 2 * (8 + 2));
  pages.come();
  engine.finish();
}

TEST(SharedGroupLoads, comes_to_a_sequence_that_a_step_holds) {
  for (const ModelShape& model : model_shapes()) {
    SCOPED_TRACE(model.name);
    OnTheirWay pages(model.name);
    auto& [filled, engine, prompt] = pages;
    engine.admit(prompt);
    engine.admit(prompt);
    const SequenceId id = engine.id(1);
    const StepTicket step = engine.pool().begin_step({&id, 1}).value();
    pages.come();
    EXPECT_EQ(engine.load_state(1), LoadState::loaded);
    EXPECT_EQ(engine.length(1), 8 * GroupEngine::page_size);
    EXPECT_EQ(filled.tier.load_calls, 1);
    engine.pool().end_step(step).or_throw();
    EXPECT_TRUE(engine.compute(1));
    engine.check();
    engine.finish();
  }
}

TEST(SharedGroupLoads, goes_behind_what_who_waits_has_already) {
  OnTheirWay pages("jamba");
  auto& [filled, engine, prompt] = pages;
  filled.tier.ends_at_once = true;
  EXPECT_EQ(loaded(engine, 4), 4);
  filled.tier.ends_at_once = false;
  for (const int i : {1, 2}) {
    const TieredAdmission* const a = engine.admit(prompt);
    ASSERT_EQ(a->cached_tokens, 4 * GroupEngine::page_size) << i;
    ASSERT_EQ(a->loading_tokens, 4 * GroupEngine::page_size) << i;
  }
  engine.manager().cancel_load(engine.id(1)).or_throw();
  EXPECT_EQ(engine.length(1), 4 * GroupEngine::page_size) << "as before";
  for (int i = 0; i < 2; ++i) engine.manager().poll();
  EXPECT_EQ(engine.load_state(2), LoadState::loading);
  for (const int32_t page : {5, 7}) filled.tier.pages.erase(filled.name(1, page));
  pages.come();
  EXPECT_EQ(engine.load_state(2), LoadState::cut_short);
  EXPECT_EQ(engine.length(2), 4 * GroupEngine::page_size) << "as before";
  for (const size_t i : {0U, 1U, 2U}) EXPECT_TRUE(engine.compute(i));
  engine.check();
  engine.finish();
}

TEST(SharedGroupLoads, are_not_those_of_another_salt) {
  OnTheirWay pages("gemma");
  auto& [filled, engine, prompt] = pages;
  engine.admit(prompt);
  const TieredAdmission other = engine.manager().admit(prompt, {.salt = "other"}).value();
  EXPECT_EQ(other.loading_tokens, 0);
  EXPECT_EQ(engine.manager().load_state(other.id), LoadState::none);
  engine.manager().release(other.id).or_throw();
  filled.tier.ends_at_once = true;
  engine.settle();
  engine.finish();
}

TEST(SharedGroupLoads, who_waits_with_room_behind_keeps_it_and_asks_tiers_for_all) {
  OnTheirWay pages("gemma");
  auto& [filled, engine, prompt] = pages;
  engine.admit(prompt);
  engine.admit(prompt);
  engine.pool().reserve(engine.id(1), 8 * GroupEngine::page_size + 1).or_throw();
  pages.come();
  EXPECT_EQ(engine.load_state(1), LoadState::loaded);
  EXPECT_EQ(engine.length(1), 8 * GroupEngine::page_size);
  EXPECT_EQ(filled.tier.load_calls, 2);
  EXPECT_EQ(engine.manager().figures().shared_pages, 0);
  EXPECT_TRUE(engine.pool().commit(engine.id(1), {&prompt.back(), 1}).is_ok()) << "in its room";
  engine.release(1);
  engine.finish();
}

}  // namespace
}  // namespace folio::test
