// SPDX-License-Identifier: Apache-2.0
/// tests/pool/page_pool_trim_test.cpp: going back, into pages that others hold or find, too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "pool/pool_helpers.h"

namespace folio::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(PagePoolTrim, gives_back_the_pages_behind_the_new_length) {
  PagePool pool = make_pool({.num_pages = 10, .page_size = 4});
  const SequenceId id = prefill(pool, count_from(0, 14));
  pool.reserve(id, 9).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 6);
  pool.trim(id, 14).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 4);
  EXPECT_EQ(pool.commit(id, count_from(0, 1)).code(), Errc::invalid_argument) << "the room is gone";
  pool.trim(id, 5).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 2);
  EXPECT_EQ(pool.length(id).value(), 5);
  pool.trim(id, 0).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 0);
  EXPECT_EQ(pool.stats().cached_pages, 3);
  expect_sound(pool);
}

TEST(PagePoolTrim, rejected_tokens_are_not_found) {
  PagePool pool = make_pool({.num_pages = 10, .page_size = 4});
  const SequenceId id = prefill(pool, count_from(0, 6));
  pool.reserve(id, 5).or_throw();     // drafts 6, 7, 8, 9, 10
  pool.commit(id, {{6}}).or_throw();  // one is accepted
  pool.trim(id, 7).or_throw();
  EXPECT_EQ(pool.peek(count_from(0, 11)), 4);
  feed(pool, id, {70});
  EXPECT_EQ(pool.peek(Tokens{0, 1, 2, 3, 4, 5, 6, 70, 0}), 8);
  EXPECT_EQ(pool.peek(count_from(0, 11)), 4);
  EXPECT_THAT(take_copies(pool), IsEmpty());
}

TEST(PagePoolTrim, a_cut_page_that_another_sequence_holds_is_copied_before_it_is_written) {
  PagePool pool = make_pool({.num_pages = 10, .page_size = 4});
  const SequenceId first = prefill(pool, count_from(0, 9));
  const SequenceId second = pool.admit(count_from(0, 9)).value().id;
  pool.trim(second, 6).or_throw();
  const uint32_t shared = row(pool, first, 2)[1];
  EXPECT_EQ(row(pool, second, 2)[1], shared);
  EXPECT_THAT(take_copies(pool), IsEmpty());
  pool.reserve(second, 1).or_throw();
  const uint32_t own = row(pool, second, 2)[1];
  EXPECT_NE(own, shared);
  EXPECT_EQ(row(pool, first, 2)[1], shared);
  EXPECT_THAT(take_copies(pool), ElementsAre(PageCopy{shared, own, 2}));
  feed(pool, second, {60, 70});
  EXPECT_EQ(pool.peek(Tokens{0, 1, 2, 3, 4, 5, 60, 70, 0}), 8);
  EXPECT_EQ(pool.peek(count_from(0, 9)), 8);
  expect_sound(pool);
}

TEST(PagePoolTrim, a_cut_page_that_is_findable_stays_findable) {
  PagePool pool = make_pool({.num_pages = 4, .page_size = 4});
  const SequenceId id = prefill(pool, count_from(0, 8));
  pool.trim(id, 6).or_throw();
  pool.reserve(id, 1).or_throw();
  EXPECT_EQ(take_copies(pool).size(), 1U);
  EXPECT_EQ(pool.peek(count_from(0, 9)), 8);
}

TEST(PagePoolTrim, findable_content_is_given_up_before_reserve_fails) {
  PagePool pool = make_pool({.num_pages = 2, .page_size = 4});
  const SequenceId id = prefill(pool, count_from(0, 8));
  pool.trim(id, 6).or_throw();
  const auto before = row(pool, id, 2);
  pool.reserve(id, 2).or_throw();
  EXPECT_EQ(row(pool, id, 2), before);
  EXPECT_THAT(take_copies(pool), IsEmpty());
  EXPECT_EQ(pool.peek(count_from(0, 9)), 4);
  expect_sound(pool);
}

TEST(PagePoolTrim, a_shared_cut_page_without_a_page_for_the_copy_is_out_of_pages) {
  PagePool pool = make_pool({.num_pages = 2, .page_size = 4});
  prefill(pool, count_from(0, 8));
  const SequenceId second = pool.admit(count_from(0, 9)).value().id;
  pool.trim(second, 6).or_throw();
  EXPECT_EQ(pool.reserve(second, 1).code(), Errc::out_of_pages);
  expect_sound(pool);
}

TEST(PagePoolTrim, a_copy_that_waits_survives_a_trim_inside_its_page) {
  PagePool pool = make_pool({.num_pages = 4, .page_size = 4});
  const SequenceId parent = prefill(pool, count_from(0, 4));
  const SequenceId child = pool.fork(parent, 3).value();
  pool.trim(child, 1).or_throw();
  pool.reserve(child, 1).or_throw();
  const auto copies = take_copies(pool);
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].to, row(pool, child, 1)[0]);
  EXPECT_GE(copies[0].tokens, 1);
}

}  // namespace
}  // namespace folio::test
