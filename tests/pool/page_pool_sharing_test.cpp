// SPDX-License-Identifier: Apache-2.0
/// tests/pool/page_pool_sharing_test.cpp: forks, copies, and pages with equal content,
/// which may be merged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "pool/pool_helpers.h"

namespace folio::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

// ---- Forks

TEST(PagePoolFork, full_pages_are_shared_and_a_cut_page_becomes_a_copy) {
  PagePool pool = make_pool({.num_pages = 10, .page_size = 4});
  const SequenceId parent = prefill(pool, count_from(0, 10));
  const SequenceId child = pool.fork(parent, 10).value();
  EXPECT_EQ(pool.length(child).value(), 10);
  const auto from = row(pool, parent, 3), to = row(pool, child, 3);
  EXPECT_EQ(to[0], from[0]);
  EXPECT_EQ(to[1], from[1]);
  EXPECT_NE(to[2], from[2]);
  EXPECT_THAT(take_copies(pool), ElementsAre(PageCopy{from[2], to[2], 2}));
  EXPECT_THAT(take_copies(pool), IsEmpty());
  expect_sound(pool);
}

TEST(PagePoolFork, at_a_page_boundary_nothing_is_copied) {
  PagePool pool = make_pool({.num_pages = 10, .page_size = 4});
  const SequenceId parent = prefill(pool, count_from(0, 10));
  const SequenceId child = pool.fork(parent, 8).value(), empty = pool.fork(parent, 0).value();
  EXPECT_EQ(row(pool, child, 2), row(pool, parent, 2));
  EXPECT_EQ(row(pool, child, 3)[2], pool.num_pages());
  EXPECT_EQ(pool.length(empty).value(), 0);
  EXPECT_EQ(pool.stats().used_pages, 3);
  EXPECT_THAT(take_copies(pool), IsEmpty());
}

TEST(PagePoolFork, inside_a_full_page_copies_the_part_that_is_kept) {
  PagePool pool = make_pool({.num_pages = 10, .page_size = 4});
  const SequenceId parent = prefill(pool, count_from(0, 12));
  const SequenceId child = pool.fork(parent, 7).value();
  const uint32_t from = row(pool, parent, 2)[1], to = row(pool, child, 2)[1];
  EXPECT_THAT(take_copies(pool), ElementsAre(PageCopy{from, to, 3}));
  feed(pool, child, {90});
  EXPECT_EQ(pool.peek(Tokens{0, 1, 2, 3, 4, 5, 6, 90, 0}), 8);
  EXPECT_EQ(pool.peek(count_from(0, 13)), 12);
}

TEST(PagePoolFork, a_fork_and_its_parent_go_separate_ways) {
  PagePool pool = make_pool({.num_pages = 10, .page_size = 4});
  const SequenceId parent = prefill(pool, count_from(0, 6));
  const SequenceId child = pool.fork(parent, 6).value();
  take_copies(pool);
  feed(pool, parent, {6, 7});
  feed(pool, child, {60, 70});
  EXPECT_EQ(pool.peek(Tokens{0, 1, 2, 3, 4, 5, 6, 7, 0}), 8);
  EXPECT_EQ(pool.peek(Tokens{0, 1, 2, 3, 4, 5, 60, 70, 0}), 8);
  EXPECT_EQ(pool.peek(Tokens{0, 1, 2, 3, 4, 5, 6, 70, 0}), 4);
  take_copies(pool);  // the copy is over
  pool.release(parent).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 2);
  expect_sound(pool);
}

TEST(PagePoolFork, a_fork_of_a_fork_reads_where_the_bytes_already_are) {
  PagePool pool = make_pool({.num_pages = 10, .page_size = 4});
  const SequenceId a = prefill(pool, count_from(0, 3));
  const SequenceId b = pool.fork(a, 3).value();
  const SequenceId c = pool.fork(b, 2).value();
  const uint32_t page_a = row(pool, a, 1)[0], page_b = row(pool, b, 1)[0],
                 page_c = row(pool, c, 1)[0];
  pool.release(b).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 2);
  EXPECT_THAT(take_copies(pool), ElementsAre(PageCopy{page_a, page_c, 2}));
  EXPECT_NE(page_b, page_c);
  expect_sound(pool);
}

TEST(PagePoolFork, every_fork_of_a_cut_page_has_its_copy) {
  PagePool pool = make_pool({.num_pages = 10, .page_size = 4});
  const SequenceId parent = prefill(pool, count_from(0, 3));
  std::vector<PageCopy> expected;
  for (int32_t length = 1; length <= 3; ++length) {
    const SequenceId child = pool.fork(parent, length).value();
    expected.push_back({row(pool, parent, 1)[0], row(pool, child, 1)[0], length});
  }
  EXPECT_THAT(take_copies(pool), UnorderedElementsAreArray(expected));
}

/// A page is a string, a token a letter.
std::vector<std::string> ran(const std::vector<PageCopy>& copies, std::vector<std::string> pages) {
  for (const PageCopy& copy : copies)
    pages[copy.to].replace(0, static_cast<size_t>(copy.tokens), pages[copy.from], 0,
                           static_cast<size_t>(copy.tokens));
  return pages;
}

/// What folio/pool/page_pool.h and folio/cache/page_table.h say of lists of copies: the pool's need
/// no order, forks of forks whose pages are still to be copied included.
TEST(PagePoolFork, copies_of_the_pool_give_the_same_in_any_order) {
  PagePool pool = make_pool({.num_pages = 12, .page_size = 4, .min_partial_tokens = 1});
  const SequenceId parent = prefill(pool, count_from(0, 7));
  SequenceId last = pool.fork(parent, 6).value();
  last = pool.fork(last, 6).value();
  last = pool.fork(last, 5).value();
  static_cast<void>(pool.fork(parent, 3).value());
  static_cast<void>(pool.admit(Tokens{0, 1, 2, 90, 91}).value());  // three tokens of a full page
  std::vector<PageCopy> copies = take_copies(pool);
  ASSERT_EQ(copies.size(), 5U);
  std::vector<std::string> pages;
  for (uint32_t page = 0; page < pool.num_pages(); ++page)
    pages.emplace_back(4, static_cast<char>('a' + page));
  const auto less = [](const PageCopy& a, const PageCopy& b) { return a.to < b.to; };
  std::sort(copies.begin(), copies.end(), less);
  const std::vector<std::string> expected = ran(copies, pages);
  do {
    EXPECT_EQ(ran(copies, pages), expected);
  } while (std::next_permutation(copies.begin(), copies.end(), less));
}

TEST(PagePoolFork, the_source_of_a_copy_is_held_until_the_copy_is_over) {
  PagePool pool = make_pool({.num_pages = 2, .page_size = 4});
  const SequenceId parent = prefill(pool, count_from(0, 3));
  const SequenceId child = pool.fork(parent, 2).value();
  pool.release(parent).or_throw();
  EXPECT_EQ(pool.stats().free_pages, 0);
  EXPECT_EQ(take_copies(pool).size(), 1U);
  EXPECT_EQ(pool.stats().free_pages, 0);
  pool.release(child).or_throw();
  EXPECT_EQ(pool.stats().free_pages, 0) << "the copy may still be writing";
  take_copies(pool);
  EXPECT_EQ(pool.stats().free_pages, 2);
  expect_sound(pool);
}

TEST(PagePoolFork, a_copy_that_nobody_waits_for_is_dropped) {
  PagePool pool = make_pool({.num_pages = 3, .page_size = 4});
  const SequenceId parent = prefill(pool, count_from(0, 3));
  const SequenceId released = pool.fork(parent, 2).value(), trimmed = pool.fork(parent, 2).value();
  pool.release(released).or_throw();
  pool.trim(trimmed, 0).or_throw();
  EXPECT_EQ(pool.stats().free_pages, 2);
  EXPECT_THAT(take_copies(pool), IsEmpty());
  expect_sound(pool);
}

TEST(PagePoolFork, commit_before_the_copy_is_taken_is_an_error) {
  PagePool pool = make_pool({.num_pages = 10, .page_size = 4});
  const SequenceId child = pool.fork(prefill(pool, count_from(0, 3)), 3).value();
  pool.reserve(child, 1).or_throw();
  EXPECT_EQ(pool.commit(child, count_from(3, 1)).code(), Errc::invalid_argument);
  EXPECT_EQ(pool.length(child).value(), 3);
  take_copies(pool);
  EXPECT_TRUE(pool.commit(child, count_from(3, 1)).is_ok());
}

// ---- Pages with equal content

TEST(PagePoolTwins, content_computed_twice_stays_findable_when_its_first_page_goes) {
  PagePool pool = make_pool({.num_pages = 6, .page_size = 2});
  const Tokens prompt = count_from(0, 4);
  const SequenceId a = pool.admit(prompt).value().id, b = pool.admit(prompt).value().id;
  feed(pool, a, prompt);
  feed(pool, b, prompt + count_from(4, 2));
  EXPECT_NE(row(pool, a, 2), row(pool, b, 2)) << "both keep their pages";
  EXPECT_EQ(pool.peek(count_from(0, 7)), 6) << "b goes on from what a made findable";
  pool.release(a).or_throw();
  EXPECT_EQ(pool.stats().free_pages, 3) << "one page of equal content is enough";
  EXPECT_EQ(pool.stats().cached_pages, 0);
  prefill(pool, count_from(50, 6));
  EXPECT_EQ(pool.peek(count_from(0, 7)), 6);
  expect_sound(pool);
  pool.release(b).or_throw();
  EXPECT_EQ(pool.peek(count_from(0, 7)), 6);
  expect_sound(pool);
}

TEST(PagePoolTwins, a_cached_page_gives_way_to_an_equal_one_that_is_held) {
  PagePool pool = make_pool({.num_pages = 4, .page_size = 2});
  const SequenceId late = pool.admit(count_from(0, 3)).value().id;
  pool.release(prefill(pool, count_from(0, 2))).or_throw();
  EXPECT_EQ(pool.stats().cached_pages, 1);
  feed(pool, late, count_from(0, 2));
  EXPECT_EQ(pool.stats().cached_pages, 0);
  EXPECT_EQ(pool.stats().used_pages, 1);
  EXPECT_EQ(pool.peek(count_from(0, 3)), 2);
  expect_sound(pool);
}

TEST(PagePoolTwins, any_number_of_equal_pages_is_released_in_any_order) {
  PagePool pool = make_pool({.num_pages = 10, .page_size = 2});
  std::vector<SequenceId> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(pool.admit(count_from(0, 3)).value().id);
  for (const SequenceId id : ids) feed(pool, id, count_from(0, 2));
  EXPECT_EQ(pool.stats().used_pages, 5);
  for (const size_t i : {2U, 0U, 4U, 1U}) {
    pool.release(ids[i]).or_throw();
    EXPECT_EQ(pool.peek(count_from(0, 3)), 2);
    EXPECT_EQ(pool.stats().cached_pages, 0);
    expect_sound(pool);
  }
  pool.release(ids[3]).or_throw();
  EXPECT_EQ(pool.stats().cached_pages, 1);
}

// ---- Merging

TEST(Merge, puts_the_findable_page_into_the_row) {
  PagePool pool = make_pool({.num_pages = 8, .page_size = 4});
  const SequenceId a = pool.admit(count_from(0, 9)).value().id,
                   b = pool.admit(count_from(0, 9)).value().id;
  feed(pool, a, count_from(0, 9));
  pool.reserve(b, 9).or_throw();
  EXPECT_THAT(row(pool, b, 3), ElementsAre(3, 4, 5));
  pool.commit(b, count_from(0, 9), Merge::allowed).or_throw();
  EXPECT_THAT(row(pool, b, 3), ElementsAre(0, 1, 5));
  EXPECT_EQ(pool.stats().free_pages, 4);
  pool.release(a).or_throw();
  EXPECT_EQ(pool.peek(count_from(0, 9)), 8);
  expect_sound(pool);
}

TEST(Merge, leaves_the_row_of_a_sequence_that_a_step_may_read) {
  PagePool pool = make_pool({.num_pages = 8, .page_size = 4});
  const SequenceId a = prefill(pool, count_from(0, 4)), b = pool.admit(count_from(0, 4)).value().id;
  pool.reserve(b, 8).or_throw();
  const StepTicket step = pool.begin_step(std::vector<SequenceId>{b}).value();
  pool.commit(b, count_from(0, 4), Merge::allowed).or_throw();
  EXPECT_THAT(row(pool, b, 2), ElementsAre(1, 2));
  feed(pool, a, count_from(4, 4));
  pool.end_step(step).or_throw();
  pool.commit(b, count_from(4, 4), Merge::allowed).or_throw();
  EXPECT_THAT(row(pool, b, 2), ElementsAre(1, 3)) << "the step has ended; the first page is done";
  expect_sound(pool);
}

TEST(Merge, is_refused_by_default_and_otherwise_named) {
  PagePool pool = make_pool({.num_pages = 8, .page_size = 4});
  prefill(pool, count_from(0, 4));
  const SequenceId b = pool.admit(count_from(0, 4)).value().id;
  pool.reserve(b, 4).or_throw();
  EXPECT_THAT(pool.commit(b, count_from(0, 4), static_cast<Merge>(2)).message(),
              HasSubstr("merge is 2"));
  pool.commit(b, count_from(0, 4)).or_throw();
  EXPECT_THAT(row(pool, b, 1), ElementsAre(1));
  expect_sound(pool);
}

}  // namespace
}  // namespace folio::test
