// SPDX-License-Identifier: Apache-2.0
/// tests/pool/page_pool_steps_test.cpp: steps on a device that are not over: what they hold, and
/// for how long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "pool/pool_helpers.h"

namespace folio::test {
namespace {

using ::testing::ElementsAre;

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

}  // namespace
}  // namespace folio::test
