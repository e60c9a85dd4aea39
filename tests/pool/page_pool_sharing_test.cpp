// SPDX-License-Identifier: Apache-2.0
/// tests/pool/page_pool_sharing_test.cpp: forks, trims, copies, steps, and pages with equal
/// content.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "pool/pool_helpers.h"

namespace folio::test {
namespace {

using ::testing::ElementsAre;
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

// ---- Trims

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

// ---- Steps

TEST(PagePoolStep, pages_of_an_unfinished_step_are_not_reused) {
  PagePool pool = make_pool({.num_pages = 3, .page_size = 4});
  const SequenceId id = prefill(pool, count_from(0, 10));
  const StepTicket ticket = pool.begin_step({{id}}).value();
  pool.release(id).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 3);
  EXPECT_EQ(pool.stats().unfinished_steps, 1);
  const SequenceId other = pool.admit(count_from(50, 2)).value().id;
  EXPECT_EQ(pool.reserve(other, 1).code(), Errc::out_of_pages);
  pool.end_step(ticket).or_throw();
  EXPECT_EQ(pool.stats().cached_pages, 2);
  EXPECT_EQ(pool.stats().free_pages, 1);
  EXPECT_TRUE(pool.reserve(other, 1).is_ok());
  expect_sound(pool);
}

TEST(PagePoolStep, pages_of_an_unfinished_step_are_still_found) {
  PagePool pool = make_pool({.num_pages = 3, .page_size = 4});
  const SequenceId id = prefill(pool, count_from(0, 9));
  const StepTicket ticket = pool.begin_step({{id}}).value();
  pool.release(id).or_throw();
  const Admission again = pool.admit(count_from(0, 9)).value();
  EXPECT_EQ(again.cached_tokens, 8);
  pool.end_step(ticket).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 2);
  pool.release(again.id).or_throw();
  EXPECT_EQ(pool.stats().cached_pages, 2);
  expect_sound(pool);
}

TEST(PagePoolStep, a_page_waits_for_all_steps_that_hold_it_in_any_order) {
  PagePool pool = make_pool({.num_pages = 4, .page_size = 4});
  const SequenceId a = prefill(pool, count_from(0, 3)), b = prefill(pool, count_from(50, 3));
  const StepTicket one = pool.begin_step({{a}}).value(), two = pool.begin_step({{a, b}}).value(),
                   three = pool.begin_step({{b}}).value();
  pool.release(a).or_throw();
  pool.release(b).or_throw();
  pool.end_step(two).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 2);
  pool.end_step(one).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 1);
  pool.end_step(three).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 0);
  expect_sound(pool);
}

TEST(PagePoolStep, a_step_holds_only_the_sequences_it_lists) {
  PagePool pool = make_pool({.num_pages = 4, .page_size = 4});
  const SequenceId a = prefill(pool, count_from(0, 3)), b = prefill(pool, count_from(50, 3));
  const StepTicket ticket = pool.begin_step({{a, a}}).value();
  pool.release(b).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 1);
  pool.end_step(ticket).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 1);
  EXPECT_EQ(pool.length(a).value(), 3);
}

TEST(PagePoolStep, a_successor_in_the_same_row_is_not_in_the_old_step) {
  PagePool pool = make_pool({.num_pages = 4, .page_size = 4, .max_sequences = 1});
  const SequenceId old = prefill(pool, count_from(0, 3));
  const StepTicket ticket = pool.begin_step({{old}}).value();
  pool.release(old).or_throw();
  pool.release(prefill(pool, count_from(50, 3))).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 1);
  pool.end_step(ticket).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 0);
}

TEST(PagePoolStep, trimmed_pages_are_held_and_evicted_end_first_afterwards) {
  PagePool pool = make_pool({.num_pages = 4, .page_size = 1});
  const SequenceId id = prefill(pool, {1, 2, 3, 4});
  const StepTicket ticket = pool.begin_step({{id}}).value();
  pool.trim(id, 1).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 4);
  pool.end_step(ticket).or_throw();
  EXPECT_EQ(pool.stats().cached_pages, 3);
  prefill(pool, {9});
  EXPECT_EQ(pool.peek(Tokens{1, 2, 3, 4, 0}), 3);
}

TEST(PagePoolStep, a_page_cut_under_a_step_is_not_written_by_the_next) {
  PagePool pool = make_pool({.num_pages = 4, .page_size = 4, .prefix_reuse = false});
  const SequenceId id = prefill(pool, count_from(0, 3));
  const uint32_t page = row(pool, id, 1)[0];
  const StepTicket ticket = pool.begin_step({{id}}).value();
  pool.trim(id, 2).or_throw();
  pool.reserve(id, 1).or_throw();
  EXPECT_NE(row(pool, id, 1)[0], page);
  EXPECT_THAT(take_copies(pool), ElementsAre(PageCopy{page, row(pool, id, 1)[0], 2}));
  pool.end_step(ticket).or_throw();
  take_copies(pool);
  EXPECT_EQ(pool.stats().used_pages, 1);
  expect_sound(pool);
}

TEST(PagePoolStep, decoding_under_an_unfinished_step_goes_on_in_the_same_page) {
  PagePool pool = make_pool({.num_pages = 4, .page_size = 4});
  const SequenceId id = prefill(pool, count_from(0, 1));
  const uint32_t page = row(pool, id, 1)[0];
  const StepTicket ticket = pool.begin_step({{id}}).value();
  feed(pool, id, count_from(1, 2));
  EXPECT_EQ(row(pool, id, 1)[0], page);
  EXPECT_EQ(pool.stats().used_pages, 1);
  pool.end_step(ticket).or_throw();
}

TEST(PagePoolStep, the_next_step_takes_over_the_pages_of_taken_copies) {
  PagePool pool = make_pool({.num_pages = 2, .page_size = 4});
  const SequenceId parent = prefill(pool, count_from(0, 3));
  const SequenceId child = pool.fork(parent, 2).value();
  EXPECT_EQ(take_copies(pool).size(), 1U);
  const StepTicket ticket = pool.begin_step({{child}}).value();
  pool.release(parent).or_throw();
  take_copies(pool);  // of the next step: says nothing about those that the ticket holds
  EXPECT_EQ(pool.stats().used_pages, 2);
  pool.end_step(ticket).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 1);
  EXPECT_EQ(pool.length(child).value(), 2);
  expect_sound(pool);
}

TEST(PagePoolStep, as_many_steps_as_promised_may_be_unfinished) {
  PagePool pool = make_pool({.num_pages = 1, .page_size = 4});
  const SequenceId id = prefill(pool, count_from(0, 3));
  std::vector<StepTicket> tickets;
  for (int i = 0; i < PagePool::max_unfinished_steps; ++i)
    tickets.push_back(pool.begin_step({{id}}).value());
  EXPECT_EQ(pool.begin_step({{id}}).error().code(), Errc::busy);
  EXPECT_EQ(pool.stats().unfinished_steps, PagePool::max_unfinished_steps);
  pool.release(id).or_throw();
  for (const StepTicket ticket : tickets) {
    EXPECT_EQ(pool.stats().free_pages, 0);
    pool.end_step(ticket).or_throw();
  }
  EXPECT_EQ(pool.stats().free_pages, 1);
}

TEST(PagePoolStep, an_ended_or_invented_ticket_is_an_error_and_ends_no_other_step) {
  PagePool pool = make_pool({.num_pages = 1, .page_size = 4});
  const StepTicket first = pool.begin_step({}).value();
  pool.end_step(first).or_throw();
  const StepTicket second = pool.begin_step({}).value();
  EXPECT_EQ(pool.end_step(first).code(), Errc::invalid_argument);
  EXPECT_EQ(pool.end_step({}).code(), Errc::invalid_argument);
  EXPECT_EQ(pool.end_step({second.value + 1}).code(), Errc::invalid_argument);
  EXPECT_EQ(pool.stats().unfinished_steps, 1);
  EXPECT_TRUE(pool.end_step(second).is_ok());
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

}  // namespace
}  // namespace folio::test
