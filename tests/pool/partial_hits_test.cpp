// SPDX-License-Identifier: Apache-2.0
/// tests/pool/partial_hits_test.cpp: hits that end inside a page, cut pages that stay cached, and a
/// cache that is cleared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "pool/inspection.h"
#include "pool/pool_helpers.h"

namespace folio::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

PoolOptions options_of(uint32_t num_pages, int32_t page_size, int32_t min_partial_tokens = 1) {
  return {.num_pages = num_pages, .page_size = page_size, .min_partial_tokens = min_partial_tokens};
}

Tokens first(const Tokens& tokens, std::ptrdiff_t count) {
  return {tokens.begin(), tokens.begin() + count};
}

/// Serves a request whole: copies, the rest of its prompt, and its end.
int32_t serve(PagePool& pool, const Tokens& prompt) {
  const Admission a = pool.admit(prompt).value();
  static_cast<void>(pool.take_copies());
  feed(pool, a.id, {prompt.begin() + a.cached_tokens, prompt.end()});
  pool.release(a.id).or_throw();
  static_cast<void>(pool.take_copies());
  return a.cached_tokens;
}

// ---- Hits

TEST(PartialHits, a_prompt_that_is_cached_whole_hits_all_but_its_last_token) {
  PagePool pool = make_pool(options_of(8, 4));
  const Tokens prompt = count_from(0, 12);
  EXPECT_EQ(serve(pool, prompt), 0);
  EXPECT_EQ(pool.peek(prompt), 11);
  EXPECT_EQ(pool.admit(prompt).value().cached_tokens, 11);
  EXPECT_EQ(pool.stats().hit_pages, 2);
  EXPECT_EQ(pool.stats().hit_tokens, 11);
  expect_sound(pool);
}

TEST(PartialHits, a_pool_without_them_hits_whole_pages_and_keeps_no_tails) {
  PagePool pool = make_pool(options_of(8, 4, 0));
  serve(pool, count_from(0, 11));
  EXPECT_EQ(pool.stats().cached_pages, 2);
  EXPECT_EQ(serve(pool, count_from(0, 11)), 8);
  EXPECT_EQ(serve(pool, count_from(0, 12)), 8);
  EXPECT_EQ(serve(pool, count_from(0, 12)), 8);
}

TEST(PartialHits, the_rest_of_a_prompt_is_copied_to_a_page_of_its_own) {
  PagePool pool = make_pool(options_of(16, 8));
  const Tokens prompt = count_from(0, 17);
  const SequenceId a = prefill(pool, prompt);
  EXPECT_THAT(row(pool, a, 3), ElementsAre(0, 1, 2));
  const Admission again = pool.admit(prompt).value();
  EXPECT_EQ(again.cached_tokens, 16);
  EXPECT_THAT(row(pool, again.id, 2), ElementsAre(0, 1));
  feed(pool, again.id, {prompt.back()});
  EXPECT_THAT(take_copies(pool), IsEmpty());
  const Admission shorter = pool.admit(first(prompt, 12)).value();
  EXPECT_EQ(shorter.cached_tokens, 11);
  EXPECT_THAT(row(pool, shorter.id, 2), ElementsAre(0, 4));
  EXPECT_THAT(take_copies(pool), ElementsAre(PageCopy{1, 4, 3}));
  expect_sound(pool);
}

TEST(PartialHits, the_tail_of_a_released_sequence_is_copied_and_stays) {
  PagePool pool = make_pool(options_of(8, 4, 2));
  serve(pool, count_from(0, 6));
  EXPECT_EQ(pool.stats().cached_pages, 2);
  const uint32_t tail = 1;
  const Admission a = pool.admit(count_from(0, 8)).value(),
                  b = pool.admit(count_from(0, 8)).value();
  EXPECT_EQ(a.cached_tokens, 6);
  EXPECT_EQ(b.cached_tokens, 6);
  EXPECT_THAT(row(pool, a.id, 2), ElementsAre(0, 2));
  EXPECT_THAT(row(pool, b.id, 2), ElementsAre(0, 3));
  EXPECT_THAT(take_copies(pool), ElementsAre(PageCopy{tail, 2, 2}, PageCopy{tail, 3, 2}));
  EXPECT_EQ(pool.peek(count_from(0, 8)), 6);
  expect_sound(pool);
}

TEST(PartialHits, a_parent_that_is_cached_goes_on_into_a_page_that_is_used) {
  PagePool pool = make_pool(options_of(8, 4));
  const Tokens prompt = count_from(0, 8) + Tokens{0, 0};
  const SequenceId used = prefill(pool, prompt + Tokens{5, 5, 5});  // never released
  EXPECT_EQ(pool.admit(prompt).value().cached_tokens, 9);
  feed(pool, used, {1});
  expect_sound(pool);
}

TEST(PartialHits, fewer_tokens_than_the_least_are_no_hit) {
  PagePool pool = make_pool(options_of(16, 8, 4));
  serve(pool, count_from(0, 16));
  EXPECT_EQ(pool.peek(count_from(0, 12)), 8) << "three may be looked at";
  EXPECT_EQ(pool.peek(count_from(0, 13)), 12);
  EXPECT_EQ(pool.peek(count_from(0, 11) + Tokens{-1, 12, 13}), 8) << "three match";
  EXPECT_EQ(pool.peek(count_from(0, 12) + Tokens{-1, 13}), 12);
}

TEST(PartialHits, the_page_that_came_last_answers_and_the_one_before_it_when_it_has_gone) {
  PagePool pool = make_pool(options_of(4, 4, 2));
  const Tokens head{1, 2}, older = head + Tokens{3, 4}, younger = head + Tokens{5, 6};
  serve(pool, older);
  serve(pool, younger);
  EXPECT_EQ(pool.peek(first(younger, 3) + Tokens{9}), 3);
  EXPECT_EQ(pool.peek(first(older, 3) + Tokens{9}), 2) << "of its tokens only the head";
  EXPECT_EQ(serve(pool, older + Tokens{9}), 4);  // now released last
  serve(pool, count_from(100, 12));              // evicts the younger one
  EXPECT_EQ(pool.peek(first(older, 3) + Tokens{9}), 3);
  EXPECT_EQ(pool.peek(younger + Tokens{9}), 2);
  expect_sound(pool);
}

// ---- Pages that are scarce

TEST(PartialHits, without_a_page_for_the_copy_the_hit_ends_at_the_page) {
  PagePool pool = make_pool(options_of(3, 4));
  const SequenceId used = prefill(pool, count_from(100, 4));
  serve(pool, count_from(0, 8));
  EXPECT_EQ(pool.peek(count_from(0, 8)), 4) << "the only page left is the one to be copied";
  EXPECT_EQ(pool.admit(count_from(0, 8)).value().cached_tokens, 4);
  pool.release(used).or_throw();
  EXPECT_EQ(pool.peek(count_from(0, 8)), 7);
  EXPECT_EQ(pool.admit(count_from(0, 8)).value().cached_tokens, 7);
  expect_sound(pool);
}

TEST(PartialHits, a_source_is_not_evicted_for_its_own_copy) {
  PagePool pool = make_pool(options_of(2, 4));
  serve(pool, count_from(0, 4));
  serve(pool, count_from(100, 4));
  const Admission a = pool.admit(count_from(0, 3) + Tokens{9}).value();  // the next to go
  EXPECT_EQ(a.cached_tokens, 3);
  EXPECT_THAT(take_copies(pool), ElementsAre(PageCopy{0, 1, 3}));
  EXPECT_FALSE(pool.reserve(a.id, 4).is_ok()) << "the source is held";
  static_cast<void>(pool.take_copies());
  pool.reserve(a.id, 4).or_throw();
  expect_sound(pool);
}

// ---- Tails

TEST(PartialHits, a_longer_tail_replaces_a_shorter_one_and_an_equal_one_is_not_kept) {
  PagePool pool = make_pool(options_of(16, 8));
  for (int i = 0; i < 5; ++i) serve(pool, count_from(0, 11));
  EXPECT_EQ(pool.stats().cached_pages, 2);
  for (int32_t length = 12; length < 16; ++length) serve(pool, count_from(0, length));
  EXPECT_EQ(pool.stats().cached_pages, 2);
  EXPECT_EQ(pool.peek(count_from(0, 16)), 15);
  serve(pool, count_from(0, 10));  // the longer one answers for it
  EXPECT_EQ(pool.stats().cached_pages, 2);
  serve(pool, count_from(0, 9) + Tokens{-1, -1});
  EXPECT_EQ(pool.stats().cached_pages, 3);
  expect_sound(pool);
}

TEST(PartialHits, a_page_whose_copy_never_ran_is_no_tail) {
  PagePool pool = make_pool(options_of(8, 4));
  serve(pool, count_from(0, 8));
  const Admission a = pool.admit(count_from(0, 8)).value();
  EXPECT_EQ(a.cached_tokens, 7);
  pool.release(a.id).or_throw();
  EXPECT_EQ(pool.stats().cached_pages, 2);
  EXPECT_THAT(take_copies(pool), IsEmpty());
  expect_sound(pool);
}

TEST(PartialHits, a_tail_of_an_unfinished_step_can_be_copied_and_not_be_taken) {
  PagePool pool = make_pool(options_of(2, 4));
  const SequenceId a = prefill(pool, count_from(0, 3));
  const StepTicket step = pool.begin_step(std::vector<SequenceId>{a}).value();
  pool.release(a).or_throw();
  EXPECT_EQ(pool.admit(count_from(0, 4)).value().cached_tokens, 3);
  EXPECT_EQ(pool.stats().free_pages + pool.stats().cached_pages, 0);
  pool.end_step(step).or_throw();
  expect_sound(pool);
}

TEST(PartialHits, the_copy_is_taken_before_the_sequence_goes_on) {
  PagePool pool = make_pool(options_of(8, 4));
  serve(pool, count_from(0, 8));
  const Admission a = pool.admit(count_from(0, 7)).value();
  EXPECT_EQ(a.cached_tokens, 6);
  pool.reserve(a.id, 1).or_throw();
  EXPECT_THAT(pool.commit(a.id, Tokens{6}).message(), HasSubstr("waits for a copy"));
  const SequenceId fork = pool.fork(a.id, 5).value();
  EXPECT_THAT(take_copies(pool), ElementsAre(PageCopy{1, 2, 2}, PageCopy{1, 3, 1}));
  pool.commit(a.id, Tokens{6}).or_throw();
  pool.trim(fork, 4).or_throw();
  EXPECT_THAT(take_copies(pool), IsEmpty());  // says that the others have run
  pool.trim(a.id, 5).or_throw();
  feed(pool, a.id, {70, 71, 72});
  EXPECT_EQ(pool.length(a.id).value(), 8);
  expect_sound(pool);
}

TEST(PartialHits, end_at_the_last_token_that_a_sequence_may_hold) {
  PoolOptions options = options_of(8, 4);
  options.max_pages_per_sequence = 2;
  PagePool pool = make_pool(options);
  serve(pool, count_from(0, 8));
  EXPECT_EQ(pool.admit(count_from(0, 100)).value().cached_tokens, 8);
  EXPECT_EQ(pool.admit(count_from(0, 6) + count_from(50, 100)).value().cached_tokens, 6);
  expect_sound(pool);
}

// ---- Sequences that wait, and branches

TEST(PartialHits, a_preempted_sequence_gets_its_cut_last_page_back_as_a_copy) {
  PagePool pool = make_pool(options_of(8, 4));
  const Tokens tokens = count_from(0, 7);
  const SequenceId a = prefill(pool, tokens);
  pool.preempt(a).or_throw();
  EXPECT_EQ(pool.stats().cached_pages, 2);
  const Admission again = pool.resume(a, tokens).value();
  EXPECT_EQ(again.cached_tokens, 6);
  EXPECT_THAT(row(pool, a, 2), ElementsAre(0, 2));
  EXPECT_THAT(take_copies(pool), ElementsAre(PageCopy{1, 2, 2}));
  feed(pool, a, {6, 7});
  EXPECT_EQ(pool.stats().hit_tokens_partial, 2);
  expect_sound(pool);
}

TEST(PartialHits, a_page_that_forks_share_is_a_tail_when_the_last_of_them_has_gone) {
  PagePool pool = make_pool(options_of(8, 4));
  const SequenceId parent = prefill(pool, count_from(0, 3));
  SequenceId child;
  pool.fork(parent, 2, {&child, 1}).or_throw();
  pool.release(parent).or_throw();
  EXPECT_EQ(pool.peek(count_from(0, 4)), 0) << "the child writes into it";
  pool.preempt(child).or_throw();
  EXPECT_EQ(pool.peek(count_from(0, 4)), 2) << "the child had no more of it";
  EXPECT_EQ(pool.resume(child, count_from(0, 4)).value().cached_tokens, 2);
  expect_sound(pool);
}

TEST(PartialHits, drafts_that_were_not_kept_leave_tails) {
  PagePool pool = make_pool(options_of(8, 4));
  const SequenceId root = prefill(pool, count_from(0, 4));
  const SequenceId leaf = pool.fork(root, 4).value();
  feed(pool, root, {50, 51});
  feed(pool, leaf, {60, 61, 62});
  const SequenceId tree[] = {root, leaf};
  pool.keep_path(tree, 1).or_throw();
  EXPECT_EQ(pool.length(root).value(), 7);
  EXPECT_EQ(pool.peek(count_from(0, 4) + Tokens{50, 51, 52}), 6);
  EXPECT_EQ(pool.peek(count_from(0, 4) + Tokens{60, 61, 62}), 4) << "it is still being written";
  expect_sound(pool);
}

TEST(PartialHits, leave_the_watermark_to_others_only) {
  PoolOptions options = options_of(4, 4);
  options.watermark_pages = 4;
  PagePool pool = make_pool(options);
  serve(pool, count_from(0, 8));
  const Admission a = pool.admit(count_from(0, 8)).value();
  EXPECT_EQ(a.cached_tokens, 7);
  EXPECT_EQ(pool.stats().used_pages, 3) << "its own two, and the one that its copy reads";
  EXPECT_EQ(pool.explain(a.id, 2).value().held_back, 0);
  EXPECT_EQ(pool.explain(a.id, 2).value().of_copies, 1);
  pool.reserve(a.id, 2).or_throw();
  expect_sound(pool);
}

// ---- Options

TEST(PartialHits, the_least_number_of_tokens_is_checked) {
  for (const int32_t wrong :
       {-1, 8, 9, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()}) {
    const auto pool = PagePool::create(options_of(4, 8, wrong));
    EXPECT_EQ(pool.error().code(), Errc::invalid_argument) << wrong;
    EXPECT_THAT(pool.error().message(), HasSubstr("min_partial_tokens is"));
    EXPECT_THAT(pool.error().message(), HasSubstr("0 .. 7"));
  }
  PoolOptions options = options_of(4, 8, 1);
  options.prefix_reuse = false;
  EXPECT_THAT(PagePool::create(options).error().message(), HasSubstr("prefix_reuse"));
  EXPECT_TRUE(PagePool::create(options_of(4, 8, 7)));
}

TEST(PartialHits, cost_16_bytes_a_page) {
  for (const uint32_t pages : {1U << 12, (1U << 12) - 1, (1U << 12) + 1}) {
    const int64_t with = PagePool::required_bytes(options_of(pages, 16)).value(),
                  without = PagePool::required_bytes(options_of(pages, 16, 0)).value();
    EXPECT_LE(with - without, int64_t{16} * pages + 128) << pages;
  }
}

// ---- An adversary

TEST(PartialHits, equal_heads_by_the_thousand_cost_one_comparison) {
  PagePool pool = make_pool(options_of(4096, 4, 2));
  for (TokenId i = 0; i < 4000; ++i) serve(pool, {7, 7, i, 1});  // one parent, one head
  EXPECT_EQ(pool.stats().cached_pages, 4000);
  EXPECT_EQ(pool::PoolInspection::heads(pool).longest_chain(), 1U);
  EXPECT_EQ(pool.peek(Tokens{7, 7, 3999, 2}), 3);
  EXPECT_EQ(pool.peek(Tokens{7, 7, 5, 2}), 2);
  expect_sound(pool);
}

TEST(PartialHits, equal_pages_behind_many_parents_spread_over_the_buckets) {
  PagePool pool = make_pool(options_of(4096, 2, 1));
  for (TokenId i = 0; i < 1000; ++i) serve(pool, {i, i, 7, 7});  // wide
  serve(pool, Tokens(2000, 7));                                  // deep
  // By chance, the fullest of 4096 buckets that 3,000 keys fall into has more in one of 10^9 pools.
  EXPECT_LE(pool::PoolInspection::heads(pool).longest_chain(), 16U);
  EXPECT_LE(pool::PoolInspection::index(pool).longest_chain(), 16U);
  expect_sound(pool);
}

// ---- Clearing

TEST(Clear, is_refused_while_pages_are_used_and_changes_nothing) {
  PagePool pool = make_pool(options_of(8, 4));
  serve(pool, count_from(0, 8));
  const SequenceId a = prefill(pool, count_from(100, 2));
  const PoolStats before = pool.stats();
  const Status refused = pool.clear();
  EXPECT_EQ(refused.code(), Errc::busy);
  EXPECT_THAT(refused.message(), HasSubstr("1 pages are used, expected none"));
  EXPECT_EQ(pool.stats(), before);
  EXPECT_EQ(pool.peek(count_from(0, 8)), 7);
  pool.release(a).or_throw();
  pool.clear().or_throw();
  EXPECT_EQ(pool.stats().free_pages, 8);
  EXPECT_EQ(pool.stats().evicted_pages, before.evicted_pages);
  EXPECT_EQ(pool.peek(count_from(0, 8)), 0);
  EXPECT_EQ(pool.peek(count_from(100, 3)), 0);
  expect_sound(pool);
  serve(pool, count_from(0, 8));
  EXPECT_EQ(pool.peek(count_from(0, 8)), 7);
  expect_sound(pool);
}

TEST(Clear, of_a_pool_that_was_moved_from_is_an_error) {
  PagePool pool = make_pool(options_of(8, 4));
  const PagePool other = std::move(pool);
  EXPECT_EQ(pool.clear().code(), Errc::invalid_argument);  // NOLINT(bugprone-use-after-move)
}

}  // namespace
}  // namespace folio::test
