// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/shared_loads_test.cpp: sequences that want pages which are on their way to
/// another wait for these, and sequences that come back find what tiers have.
#include "tier/manager/shared_loads.h"

#include <array>
#include <span>
#include <vector>

namespace folio::test {
namespace {

using CacheManagerSharedLoads = SharedLoads;

TEST_F(CacheManagerSharedLoads, are_done_once_for_an_admit_during_a_prefetch) {
  ASSERT_EQ(engine_.manager().prefetch(prompt).value(), 16);
  ASSERT_EQ(engine_.admit(prompt)->loading_tokens, 16);
  EXPECT_EQ(tier_.load_calls, 1);
  EXPECT_EQ(engine_.manager().layers_ready(engine_.id(0)), 0);
  end_pages(2);
  EXPECT_EQ(engine_.length(0), 8) << "as they come";
  EXPECT_EQ(engine_.load_state(0), LoadState::loading);
  end_pages(2);
  EXPECT_EQ(engine_.load_state(0), LoadState::loaded);
  EXPECT_EQ(engine_.manager().layers_ready(engine_.id(0)), PatternEngine::num_layers);
  EXPECT_EQ(used_pages(), 4) << "both have the same";
  EXPECT_EQ(engine_.manager().figures().shared_pages, 4);
  EXPECT_EQ(engine_.manager().counters(0).value().loaded_pages, 4);
  finish();
}

TEST_F(CacheManagerSharedLoads, are_done_once_for_many_sequences_and_go_on_behind) {
  for (const Tokens& tokens : {prompt, longer, longer, prompt}) {
    const auto full_pages = static_cast<int32_t>(tokens.size()) - 1;
    ASSERT_EQ(engine_.admit(tokens)->loading_tokens, full_pages);
  }
  EXPECT_EQ(tier_.load_calls, 2);
  EXPECT_EQ(tier_.pending.size(), 6U) << "no page twice";
  tier_.end(5);
  tier_.end(4);  // those that follow come before those that are waited for
  end_pages(0);
  EXPECT_EQ(engine_.length(1), 0);
  end_pages(4);
  for (const size_t i : {0U, 1U, 2U, 3U}) EXPECT_EQ(engine_.load_state(i), LoadState::loaded) << i;
  EXPECT_EQ(used_pages(), 6);
  finish();
}

TEST_F(CacheManagerSharedLoads, are_lost_to_all_who_wait) {
  ASSERT_NE(engine_.admit(prompt), nullptr);
  ASSERT_NE(engine_.admit(longer), nullptr);
  end_pages(1);
  tier_.load_outcome = TierOutcome::corrupt;
  end_pages(1);
  for (const size_t i : {0U, 1U}) {
    EXPECT_EQ(engine_.load_state(i), LoadState::cut_short);
    EXPECT_EQ(engine_.length(i), 4);
  }
  EXPECT_EQ(engine_.manager().figures().lost_pages, 3 + 5);
  EXPECT_EQ(engine_.manager().counters(0).value().lost_pages, 3 + 2) << "of calls";
  tier_.load_outcome = TierOutcome::done;
  finish();
}

TEST_F(CacheManagerSharedLoads, end_where_the_first_sequence_is_given_up) {
  ASSERT_NE(engine_.admit(prompt), nullptr);
  ASSERT_NE(engine_.admit(prompt), nullptr);
  end_pages(1);
  engine_.release(0);
  EXPECT_EQ(engine_.load_state(0), LoadState::cut_short);
  EXPECT_EQ(engine_.length(0), 4);
  finish();
}

TEST_F(CacheManagerSharedLoads, end_though_who_waits_has_more_than_the_first_one) {
  ASSERT_NE(engine_.admit(prompt), nullptr);
  const SequenceId computes = engine_.pool().admit(prompt)->id;  // the beginning, without a load
  engine_.pool().reserve(computes, 8).or_throw();
  engine_.pool().commit(computes, std::span(prompt).first(8)).or_throw();
  const TieredAdmission waits = engine_.manager().admit(prompt).value();
  EXPECT_EQ(waits.cached_tokens, 8);
  EXPECT_EQ(waits.loading_tokens, 8);
  EXPECT_EQ(tier_.load_calls, 1);
  engine_.release(0);
  EXPECT_EQ(engine_.manager().load_state(waits.id), LoadState::cut_short);
  engine_.manager().release(waits.id).or_throw();
  engine_.pool().release(computes).or_throw();
  tier_.ends_at_once = true;
  engine_.settle();
  engine_.pool().clear().or_throw();
}

TEST_F(CacheManagerSharedLoads, wait_for_one_load_though_another_ends) {
  const Tokens most = count_from(0, 25);
  ASSERT_NE(engine_.admit(prompt), nullptr);
  ASSERT_NE(engine_.admit(most), nullptr);
  ASSERT_NE(engine_.admit(most), nullptr);
  engine_.release(1);
  EXPECT_EQ(engine_.load_state(1), LoadState::loading) << "of the first one's pages";
  end_pages(4);
  EXPECT_EQ(engine_.load_state(1), LoadState::cut_short);
  EXPECT_EQ(engine_.length(1), 16);
  finish();
}

TEST_F(CacheManagerSharedLoads, take_each_page_of_the_load_that_brings_it) {
  Tokens other = count_from(0, 8);  // as the prompt, then another way
  for (TokenId t = 500; t < 509; ++t) other.push_back(t);
  tier_.ends_at_once = true;
  put_down(other);
  ASSERT_NE(engine_.admit(prompt), nullptr);
  ASSERT_NE(engine_.admit(other), nullptr);
  ASSERT_NE(engine_.admit(other), nullptr);
  ASSERT_EQ(tier_.pending.size(), 4U + 2U);
  end_pages(4);
  EXPECT_EQ(engine_.load_state(0), LoadState::loaded);
  EXPECT_EQ(engine_.length(2), 8);
  end_pages(2);
  EXPECT_EQ(engine_.length(2), 16);
  finish();
}

TEST_F(CacheManagerSharedLoads, go_on_where_one_who_waits_is_given_up) {
  for (int i = 0; i < 3; ++i) ASSERT_NE(engine_.admit(prompt), nullptr);
  engine_.release(1);
  engine_.manager().cancel_load(engine_.id(1)).or_throw();
  end_pages(4);
  EXPECT_EQ(engine_.length(0), 16);
  EXPECT_EQ(engine_.length(1), 0);
  finish();
}

TEST_F(CacheManagerSharedLoads, end_at_the_deadline_of_those_who_wait) {
  ASSERT_NE(engine_.admit(prompt), nullptr);
  clock_.advance_ms(9);
  ASSERT_NE(engine_.admit(prompt), nullptr);
  clock_.advance_ms(1);
  end_pages(0);
  EXPECT_EQ(engine_.load_state(0), LoadState::cut_short);
  EXPECT_EQ(engine_.load_state(1), LoadState::cut_short) << "nobody brings them any more";
  finish();
}

TEST_F(CacheManagerSharedLoads, copy_bytes_to_a_sequence_that_a_step_holds) {
  ASSERT_NE(engine_.admit(prompt), nullptr);
  ASSERT_NE(engine_.admit(prompt), nullptr);
  const SequenceId id = engine_.id(1);
  const StepTicket step = engine_.pool().begin_step({&id, 1}).value();
  const std::vector<uint32_t> before(row(1), row(1) + 4);
  end_pages(4);
  EXPECT_EQ(std::vector<uint32_t>(row(1), row(1) + 4), before) << "a step may read its row";
  EXPECT_EQ(engine_.load_state(1), LoadState::loaded);
  EXPECT_EQ(used_pages(), 8);
  engine_.pool().end_step(step).or_throw();
  finish();
}

TEST_F(CacheManagerSharedLoads, take_no_sequence_for_a_hint_that_is_followed_already) {
  ASSERT_NE(engine_.admit(longer), nullptr);
  EXPECT_EQ(engine_.manager().prefetch(prompt).value(), 16);
  EXPECT_EQ(engine_.pool().stats().sequences, 1);
  finish();
}

TEST_F(CacheManagerSharedLoads, are_not_those_of_another_salt) {
  ASSERT_NE(engine_.admit(prompt), nullptr);
  const TieredAdmission other = engine_.manager().admit(prompt, {.salt = "other"}).value();
  EXPECT_EQ(other.loading_tokens, 0);
  engine_.manager().release(other.id).or_throw();
  finish();
}

// ---- Items

TEST_F(CacheManagerSharedLoads, that_are_cut_short_leave_the_prompt_its_items) {
  const std::array<ContentSpan, 1> image = {{{.offset = 9, .length = 6, .hash = {{1}}}}};
  const std::array<ContentSpan, 1> other = {{{.offset = 9, .length = 6, .hash = {{2}}}}};
  const TieredAdmission a = engine_.manager().admit(prompt, {.spans = image}).value();
  ASSERT_EQ(a.loading_tokens, 8) << "the pages before it";
  tier_.end();
  engine_.manager().poll();
  engine_.manager().cancel_load(a.id).or_throw();
  EXPECT_EQ(engine_.pool().length(a.id).value(), 4);
  engine_.pool().reserve(a.id, 13).or_throw();
  engine_.manager().commit(a.id, std::span(prompt).subspan(4)).or_throw();
  EXPECT_EQ(engine_.pool().peek(prompt, {.spans = image}), 16);
  EXPECT_EQ(engine_.pool().peek(prompt, {.spans = other}), 8) << "another image";
  EXPECT_EQ(engine_.pool().peek(prompt), 8) << "none";
  engine_.manager().release(a.id).or_throw();
  finish();
}

// ---- Resume

TEST_F(CacheManagerSharedLoads, bring_back_a_preempted_sequence) {
  ASSERT_NE(engine_.admit(prompt), nullptr);
  end_pages(4);
  ASSERT_TRUE(engine_.compute(0));
  const SequenceId id = engine_.id(0);
  engine_.manager().preempt(id).or_throw();
  engine_.settle();
  engine_.pool().clear().or_throw();
  EXPECT_EQ(engine_.manager().resume({}, prompt).error().code(), Errc::invalid_argument);
  const TieredAdmission a = engine_.manager().resume(id, prompt).value();
  EXPECT_EQ(a.id, id);
  EXPECT_EQ(a.cached_tokens, 0);
  EXPECT_EQ(a.loading_tokens, 16);
  EXPECT_EQ(engine_.load_state(0), LoadState::loading);
  EXPECT_EQ(engine_.manager().resume(id, prompt).error().code(), Errc::invalid_argument);
  end_pages(4);
  EXPECT_EQ(engine_.length(0), 16);
  finish();
}

TEST_F(CacheManagerSharedLoads, bring_back_a_sequence_by_its_own_names) {
  const SequenceId id = engine_.manager().admit(prompt, {.salt = "own"})->id;
  engine_.pool().reserve(id, 17).or_throw();
  engine_.manager().commit(id, prompt).or_throw();
  engine_.manager().preempt(id).or_throw();
  tier_.ends_at_once = true;
  engine_.settle();
  engine_.pool().clear().or_throw();
  EXPECT_EQ(engine_.manager().resume(id, longer)->loading_tokens, 16) << "longer is another salt's";
  engine_.settle();
  engine_.manager().release(id).or_throw();
  finish();
}

TEST_F(CacheManagerSharedLoads, bring_back_a_fork_too) {
  ASSERT_NE(engine_.admit(prompt), nullptr);
  end_pages(4);
  const SequenceId fork = engine_.pool().fork(engine_.id(0), 16).value();
  engine_.release(0);
  engine_.manager().preempt(fork).or_throw();
  tier_.ends_at_once = true;
  engine_.settle();
  engine_.pool().clear().or_throw();
  EXPECT_EQ(engine_.manager().resume(fork, prompt)->loading_tokens, 16);
  engine_.manager().release(fork).or_throw();
  finish();
}

}  // namespace
}  // namespace folio::test
