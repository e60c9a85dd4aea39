// SPDX-License-Identifier: Apache-2.0
/// tests/pool/first_children_test.cpp: hits that end inside the first page that continued another:
/// HeadIndex knows it by the page before it, in no bucket.
#include <gtest/gtest.h>

#include <vector>

#include "pool/inspection.h"
#include "pool/pool_helpers.h"

namespace folio::test {
namespace {

const Tokens stem{1, 2, 3, 4}, older = stem + Tokens{5, 6, 7, 8},
                               younger = stem + Tokens{5, 6, 9, 9};

PagePool pool_of(uint32_t num_pages) {
  return make_pool({.num_pages = num_pages, .page_size = 4, .min_partial_tokens = 2});
}

/// Tokens of a prompt that begins like `pages`, but for its last two tokens, that are found.
int32_t found(const PagePool& pool, Tokens pages) {
  pages.back() = -1;
  pages.push_back(-2);
  return pool.peek(pages);
}

bool is_first_child(const PagePool& pool, uint32_t page) {
  return pool::PoolInspection::record(pool, page).first_child;
}

/// Admits the prompts while nothing of them is cached, then feeds them.
std::vector<SequenceId> side_by_side(PagePool& pool, const std::vector<Tokens>& prompts) {
  std::vector<SequenceId> ids;
  for (const Tokens& prompt : prompts) {
    const Admission a = pool.admit(prompt).value();
    EXPECT_EQ(a.cached_tokens, 0);
    ids.push_back(a.id);
  }
  for (size_t i = 0; i < ids.size(); ++i) feed(pool, ids[i], prompts[i]);
  return ids;
}

TEST(FirstChildren, are_those_of_pages_that_nothing_continued_before) {
  PagePool pool = pool_of(8);
  const SequenceId a = pool.admit(stem).value().id;
  for (TokenId token = 0; token < 12; ++token) feed(pool, a, {token});
  EXPECT_FALSE(is_first_child(pool, row(pool, a, 3)[0])) << "continues a namespace";
  EXPECT_TRUE(is_first_child(pool, row(pool, a, 3)[1]));
  EXPECT_TRUE(is_first_child(pool, row(pool, a, 3)[2]));
  const SequenceId b = prefill(pool, count_from(0, 4) + count_from(50, 8));
  EXPECT_EQ(row(pool, b, 3)[0], row(pool, a, 3)[0]);
  EXPECT_FALSE(is_first_child(pool, row(pool, b, 3)[1]));
  EXPECT_TRUE(is_first_child(pool, row(pool, b, 3)[2]));
  expect_sound(pool);
}

TEST(FirstChildren, that_continue_an_item_are_found_by_their_hash) {
  PagePool pool =
      make_pool({.num_pages = 8, .page_size = 4, .min_partial_tokens = 2, .max_spans = 1});
  const ContentSpan spans[] = {{.offset = 4, .length = 2, .hash = image(1)}};
  const SequenceId a = prefill(pool, older + stem, {.spans = spans});
  EXPECT_FALSE(is_first_child(pool, row(pool, a, 3)[1]));
  EXPECT_TRUE(is_first_child(pool, row(pool, a, 3)[2]));
  EXPECT_EQ(found(pool, older), 4) << "without the item";
  EXPECT_EQ(pool.peek(stem + Tokens{5, 6, 7, -1, -2}, {.spans = spans}), 7);
  expect_sound(pool);
}

TEST(FirstChildren, answer_when_later_ones_with_their_head_have_gone) {
  PagePool pool = pool_of(4);
  const SequenceId a = prefill(pool, older);
  const SequenceId b = pool.admit(younger).value().id;
  EXPECT_EQ(take_copies(pool).size(), 1U);
  feed(pool, b, {9, 9});
  EXPECT_TRUE(is_first_child(pool, row(pool, a, 2)[1]));
  EXPECT_FALSE(is_first_child(pool, row(pool, b, 2)[1]));
  EXPECT_EQ(found(pool, older), 6) << "of the younger one only the head";
  EXPECT_EQ(found(pool, younger), 7);
  pool.release(b).or_throw();
  EXPECT_TRUE(take_copies(pool).empty());
  pool.release(prefill(pool, count_from(100, 8))).or_throw();  // evicts the younger one
  EXPECT_EQ(found(pool, older), 7);
  EXPECT_EQ(found(pool, younger), 6);
  expect_sound(pool);
}

TEST(FirstChildren, that_are_evicted_leave_the_place_to_nobody) {
  PagePool pool = pool_of(3);
  const SequenceId a = prefill(pool, stem);
  pool.release(prefill(pool, older)).or_throw();
  EXPECT_EQ(found(pool, older), 7);
  pool.release(prefill(pool, count_from(100, 8))).or_throw();
  EXPECT_EQ(found(pool, older), 4);
  const SequenceId b = prefill(pool, younger);  // in a page that was a first child's
  EXPECT_FALSE(is_first_child(pool, row(pool, b, 2)[1]));
  EXPECT_EQ(found(pool, younger), 7);
  pool.release(a).or_throw();
  expect_sound(pool);
}

TEST(FirstChildren, and_what_they_continue_are_taken_over_by_twins) {
  PagePool pool = pool_of(8);
  const auto ids = side_by_side(pool, {older, older, older});
  for (const size_t i : {0U, 2U}) {  // of twins, the one that came last takes over first
    const uint32_t page = row(pool, ids[i], 2)[1];
    EXPECT_TRUE(is_first_child(pool, page)) << i;
    pool.release(ids[i]).or_throw();
    EXPECT_FALSE(is_first_child(pool, page)) << i;
    EXPECT_EQ(found(pool, older), 7) << i;
    expect_sound(pool);
  }
}

TEST(FirstChildren, that_lie_where_another_page_had_its_own_stay_with_their_parent) {
  PagePool pool = pool_of(10);
  const auto two = side_by_side(pool, {stem + Tokens{50}, stem + Tokens{51}});
  const SequenceId a = prefill(pool, older);
  const uint32_t page = row(pool, a, 2)[1];
  pool.release(a).or_throw();
  const Tokens other = count_from(100, 8);
  const auto three = side_by_side(pool, {other, other, other});
  EXPECT_EQ(row(pool, three[2], 2)[1], page) << "the last free one";
  pool.release(three[0]).or_throw();
  EXPECT_TRUE(is_first_child(pool, page));
  pool.release(two[0]).or_throw();  // what the page continued before has a twin
  pool.release(three[2]).or_throw();
  EXPECT_EQ(found(pool, other), 7);
  expect_sound(pool);
}

TEST(FirstChildren, stay_behind_a_page_whose_twin_takes_over) {
  PagePool pool = pool_of(8);
  const auto ids = side_by_side(pool, {older, stem + Tokens{50}});
  pool.release(ids[0]).or_throw();
  EXPECT_EQ(found(pool, older), 7);
  expect_sound(pool);
  const SequenceId c = prefill(pool, stem + Tokens{60, 61, 62, 63});
  EXPECT_FALSE(is_first_child(pool, row(pool, c, 2)[1])) << "the older one is known there";
  EXPECT_EQ(found(pool, older), 7);
  expect_sound(pool);
}

}  // namespace
}  // namespace folio::test
