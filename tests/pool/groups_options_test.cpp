// SPDX-License-Identifier: Apache-2.0
/// tests/pool/groups_options_test.cpp: hybrid models with retention, hits that end inside a page,
/// and merging: each group does as the leading one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "pool/group_helpers.h"
#include "pool/inspection.h"
#include "pool/retention_helpers.h"

namespace folio::test {
namespace {

using ::testing::ElementsAre;

constexpr int32_t normal = retention_level::normal;

// ---- How long pages are kept

/// Other requests, each of 4 pages, as many as take the whole arena several times.
void flood(PagePool& pool) {
  for (int32_t i = 0; i < 20; ++i) serve(pool, count_from(1000 + 100 * i, 16));
}

TEST(GroupsRetention, pinned_pages_stay_in_every_group_until_their_deadline) {
  PagePool pool = make_hybrid({full(4), window(4, 8)}, 4 * 16, 4, {.max_retention_ms = 10000});
  pool.advance_time(0).or_throw();
  const Tokens prompt = count_from(0, 16);
  serve(pool, prompt, everything(pinned, 1000));
  EXPECT_EQ(cached(pool, 1), 4);
  EXPECT_EQ(used(pool, 1), 0);
  flood(pool);
  EXPECT_EQ(found(pool, prompt), 16);
  pool.advance_time(2000).or_throw();
  flood(pool);
  EXPECT_EQ(found(pool, prompt), 0);
}

TEST(GroupsRetention, pinned_pages_are_not_there_for_others) {
  PagePool pool = make_hybrid({full(4), window(4, 16)}, 4 * 10, 4, {.max_retention_ms = 10000});
  serve(pool, count_from(0, 16), everything(pinned));
  const SequenceId id = pool.admit(count_from(50, 9)).value().id;  // 8 of 10 pages are pinned
  EXPECT_EQ(pool.reserve(id, 5).code(), Errc::out_of_pages);
  EXPECT_EQ(pool.explain(id, 5)->pinned, 4);
  EXPECT_TRUE(pool.reserve(id, 4).is_ok());
  expect_sound(pool);
}

/// Three prompts come and go, asking for these levels, where both groups have room for two of them.
/// Returns what is left of each.
std::vector<int32_t> left_of(const std::array<int32_t, 3>& levels) {
  // 8 slabs of one page each
  PagePool pool = make_hybrid({full(4), window(4, 16)}, 4 * 8, 4, {.max_retention_ms = 10000});
  const Tokens prompts[] = {count_from(0, 8), count_from(100, 8), count_from(200, 8)};
  for (size_t i = 0; i < 3; ++i) serve(pool, prompts[i], everything(levels[i]));
  std::vector<int32_t> left;
  for (const Tokens& prompt : prompts) left.push_back(found(pool, prompt));
  return left;
}

TEST(GroupsRetention, slabs_with_kept_pages_go_after_all_others) {
  EXPECT_THAT(left_of({60, normal, normal}), ElementsAre(8, 0, 8));
}

TEST(GroupsRetention, pages_of_a_low_level_go_first) {
  EXPECT_THAT(left_of({normal, retention_level::first_to_go, normal}), ElementsAre(8, 0, 8));
}

TEST(GroupsRetention, what_retain_says_of_a_prompt_counts_for_pages_behind_windows_too) {
  PagePool pool = make_hybrid({full(4), window(4, 4)}, 4 * 16, 4, {.max_retention_ms = 10000});
  const SequenceId id = prefill(pool, count_from(0, 16));  // 3 of its pages are behind the window
  EXPECT_EQ(cached(pool, 1), 3);
  EXPECT_EQ(pool.retain(count_from(0, 16), {.retention = everything(pinned)}).value(), 16);
  expect_sound(pool);
  pool.release(id).or_throw();
  flood(pool);
  EXPECT_EQ(found(pool, count_from(0, 8)), 8);
  EXPECT_EQ(pool.retain(count_from(0, 16), {.retention = everything(normal)}).value(), 16);
  flood(pool);
  EXPECT_EQ(found(pool, count_from(0, 8)), 0);
}

// ---- Hits that end inside a page

TEST(GroupsPartialHits, each_group_copies_the_same_tokens) {
  PagePool pool =
      make_hybrid({full(4), window(4, 6), full(8)}, 16 * 40, 4, {.min_partial_tokens = 1});
  const SequenceId a = prefill(pool, count_from(0, 12));
  const Admission b = pool.admit(count_from(0, 10) + count_from(500, 9)).value();
  EXPECT_EQ(b.cached_tokens, 10);
  for (uint32_t g = 0; g < 3; ++g) {
    const uint32_t from = row(pool, a, 3, g)[2], to = row(pool, b.id, 3, g)[2];
    EXPECT_THAT(take_copies(pool, g), ElementsAre(PageCopy{from, to, 2})) << g;
  }
  EXPECT_EQ(pool.stats().hit_tokens_partial, 2);
  feed(pool, b.id, count_from(500, 9));
  expect_sound(pool);
}

TEST(GroupsPartialHits, commit_waits_for_the_copies_of_all_groups) {
  PagePool pool = make_hybrid({full(4), window(4, 6)}, 4 * 40, 4, {.min_partial_tokens = 1});
  (void)prefill(pool, count_from(0, 12));
  const SequenceId b = pool.admit(count_from(0, 10) + Tokens{500}).value().id;
  pool.reserve(b, 1).or_throw();
  EXPECT_EQ(pool.take_copies(0).size(), 1U);
  EXPECT_EQ(pool.commit(b, Tokens{500}).code(), Errc::invalid_argument);
  EXPECT_EQ(pool.take_copies(1).size(), 1U);
  EXPECT_TRUE(pool.commit(b, Tokens{500}).is_ok());
  expect_sound(pool);
}

TEST(GroupsPartialHits, without_the_companion_of_one_group_the_hit_ends_at_the_page) {
  PagePool pool = make_hybrid({full(4), window(4, 6)}, 4 * 40, 4, {.min_partial_tokens = 1});
  const SequenceId a = prefill(pool, count_from(0, 12));
  const uint32_t companion = row(pool, a, 3, 1)[2];
  pool.release(a).or_throw();
  EXPECT_EQ(pool.peek(count_from(0, 10) + Tokens{500}), 10);
  pool::PoolInspection::evict(pool, 1, companion);
  EXPECT_EQ(pool.peek(count_from(0, 10) + Tokens{500}), 8);
  EXPECT_EQ(pool.admit(count_from(0, 10) + Tokens{500})->cached_tokens, 8);
  expect_sound(pool);
}

TEST(GroupsPartialHits, a_state_serves_a_prompt_that_goes_on_behind_its_very_token) {
  PagePool pool = make_hybrid({full(4), states(8, 8)}, 8 * 20, 4, {.min_partial_tokens = 1});
  const SequenceId a = prefill(pool, count_from(0, 6));
  const uint32_t state = row(pool, a, 1, 1)[0];
  pool.release(a).or_throw();
  EXPECT_EQ(pool.peek(count_from(0, 5) + count_from(500, 3)), 0);  // no state of 5 tokens
  const Admission b = pool.admit(count_from(0, 8)).value();
  EXPECT_EQ(b.cached_tokens, 6);
  EXPECT_EQ(row(pool, b.id, 1, 1)[0], state);
  EXPECT_EQ(pool.take_copies(0).size(), 1U);
  // The second prompt that finds it writes into a copy: the first one's state goes on.
  const Admission c = pool.admit(count_from(0, 8)).value();
  EXPECT_EQ(c.cached_tokens, 6);
  pool.reserve(c.id, 2).or_throw();
  const uint32_t own = row(pool, c.id, 1, 1)[0];
  EXPECT_NE(own, state);
  EXPECT_THAT(take_copies(pool, 1), ElementsAre(PageCopy{state, own, 8}));
  expect_sound(pool);
}

TEST(GroupsPartialHits, a_state_with_room_behind_it_may_have_been_changed_and_is_not_kept) {
  PagePool pool = make_hybrid({full(4), states(8, 8)}, 8 * 20, 4, {.min_partial_tokens = 1});
  const SequenceId a = pool.admit(count_from(0, 6)).value().id;
  pool.reserve(a, 7).or_throw();
  pool.commit(a, count_from(0, 6)).or_throw();
  pool.release(a).or_throw();
  EXPECT_EQ(pool.peek(count_from(0, 8)), 0);
  expect_sound(pool);
}

TEST(GroupsPartialHits, peek_and_admit_agree_where_slabs_are_scarce) {
  // 4 leading pages and their companions are all of the arena: nothing is left for copies
  PagePool pool = make_hybrid({full(4), window(4, 64)}, 4 * 8, 4, {.min_partial_tokens = 1});
  const SequenceId a = prefill(pool, count_from(0, 16));
  EXPECT_EQ(pool.peek(count_from(0, 14) + Tokens{500}), 12);
  EXPECT_EQ(pool.admit(count_from(0, 14) + Tokens{500})->cached_tokens, 12);
  EXPECT_EQ(pool.stats().hit_tokens_partial, 0);
  pool.release(a).or_throw();
  expect_sound(pool);
}

// ---- Merging

TEST(GroupsMerge, pages_of_all_groups_make_way_for_those_that_are_findable) {
  PagePool pool = make_hybrid({full(4), window(4, 64), states(8, 8)}, 8 * 60, 4);
  const Tokens prompt = count_from(0, 16);
  const SequenceId a = pool.admit(prompt).value().id, b = pool.admit(prompt).value().id;
  for (const SequenceId id : {a, b}) pool.reserve(id, 16).or_throw();
  pool.commit(a, prompt, Merge::allowed).or_throw();
  pool.commit(b, prompt, Merge::allowed).or_throw();
  for (const uint32_t g : {0U, 1U}) {
    EXPECT_EQ(row(pool, a, 4, g), row(pool, b, 4, g)) << g;
    EXPECT_EQ(used(pool, g), 4) << g;
  }
  EXPECT_EQ(row(pool, a, 2, 2)[1], row(pool, b, 2, 2)[1]);
  expect_sound(pool);
}

TEST(GroupsMerge, a_sequence_in_an_unfinished_step_keeps_its_pages) {
  PagePool pool = make_hybrid({full(4), window(4, 64)}, 4 * 40, 4);
  const Tokens prompt = count_from(0, 8);
  const SequenceId a = prefill(pool, prompt), b = pool.admit(Tokens{9}).value().id;
  pool.release(b).or_throw();
  pool.trim(a, 8).or_throw();
  const SequenceId c = pool.admit(count_from(0, 4)).value().id;  // nothing: a page is 4 tokens
  pool.reserve(c, 8).or_throw();
  const StepTicket step = pool.begin_step(std::vector<SequenceId>{c}).value();
  pool.commit(c, prompt, Merge::allowed).or_throw();
  EXPECT_NE(row(pool, a, 2, 1), row(pool, c, 2, 1));
  pool.end_step(step).or_throw();
  expect_sound(pool);
}

// ---- The watermark

TEST(GroupsPartialHits, a_reserve_that_takes_no_page_leaves_the_watermark_alone) {
  PagePool pool =
      make_pool({.num_pages = 4, .page_size = 4, .watermark_pages = 2, .min_partial_tokens = 1});
  const SequenceId a = prefill(pool, count_from(0, 8));
  const SequenceId b = pool.admit(count_from(0, 6) + Tokens{500}).value().id;
  EXPECT_EQ(pool.length(b).value(), 6);
  EXPECT_TRUE(pool.reserve(b, 1).is_ok());  // 1 page is available, and none is taken
  EXPECT_EQ(pool.explain(b, 3)->held_back, 0);
  pool.release(a).or_throw();
  expect_sound(pool);
}

}  // namespace
}  // namespace folio::test
