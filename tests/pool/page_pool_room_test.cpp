// SPDX-License-Identifier: Apache-2.0
/// tests/pool/page_pool_room_test.cpp: room for several sequences at once, the watermark, and why
/// there is no room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "pool/pool_helpers.h"
#include "pool/pool_memory.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

constexpr int32_t smallest = std::numeric_limits<int32_t>::min();
constexpr int32_t largest = std::numeric_limits<int32_t>::max();

std::string message(const Status& status) { return std::string(status.message()); }

SequenceId admitted(PagePool& pool, TokenId token) {
  return pool.admit(std::vector<TokenId>{token}).value().id;
}

// ---- A batch

TEST(PagePoolBatch, room_for_several_sequences_comes_together) {
  PagePool pool = make_pool({.num_pages = 6, .page_size = 4});
  const SequenceId a = admitted(pool, 1), b = admitted(pool, 2);
  const ReserveRequest requests[] = {{a, 9}, {b, 12}};
  pool.reserve(requests).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 6);
  pool.commit(a, count_from(0, 9)).or_throw();
  pool.commit(b, count_from(50, 12)).or_throw();
  expect_sound(pool);
}

TEST(PagePoolBatch, nothing_is_taken_where_one_request_cannot_be_met_and_the_error_names_it) {
  PoolMemory memory;
  PagePool pool = make_pool(memory.hooked({.num_pages = 6, .page_size = 4, .hash_seed = 1}));
  const SequenceId a = admitted(pool, 1), b = admitted(pool, 2), c = admitted(pool, 3);
  const std::vector<std::byte> before = memory.snapshot();
  const ReserveRequest requests[] = {{a, 9}, {b, 12}, {c, 1}};
  const Status refused = pool.reserve(requests);
  EXPECT_EQ(refused.code(), Errc::out_of_pages);
  EXPECT_THAT(message(refused),
              ::testing::AllOf(HasSubstr("PagePool::reserve: 7 pages needed, 6 of 6 are free"),
                               HasSubstr("requests[0 .. 2]")));
  EXPECT_EQ(memory.snapshot(), before);
  expect_sound(pool);
}

TEST(PagePoolBatch, hostile_requests_are_refused_by_name_and_change_nothing) {
  PoolMemory memory;
  PagePool pool = make_pool(memory.hooked({.num_pages = 6, .page_size = 4, .hash_seed = 1}));
  const SequenceId a = admitted(pool, 1), b = admitted(pool, 2);
  const std::vector<std::byte> before = memory.snapshot();
  const struct {
    std::vector<ReserveRequest> requests;
    const char* expected;
  } cases[] = {
      {{{a, 1}, {b, 1}, {a, 1}},
       "requests[2] is sequence 0 of generation 1, expected one that is "
       "listed once"},
      {{{a, 1}, {{}, 1}}, "requests[1] is sequence 0 of generation 0, expected one that is alive"},
      {{{a, 1}, {{0xffffffffU, 0xffffffffU}, 1}}, "requests[1] is sequence 4294967295"},
      {{{a, 1}, {b, -1}}, "new_tokens is -1, expected 0 .. 24"},
      {{{a, 1}, {b, smallest}}, "new_tokens is -2147483648"},
      {{{a, 1}, {b, largest}}, "new_tokens is 2147483647"},
      {{{a, 1}, {b, 25}}, "requests[1]"},
  };
  for (const auto& bad : cases) {
    const Status refused = pool.reserve(bad.requests);
    EXPECT_EQ(refused.code(), Errc::invalid_argument) << bad.expected;
    EXPECT_THAT(message(refused), HasSubstr("PagePool::reserve: "));
    EXPECT_THAT(message(refused), HasSubstr(bad.expected));
    EXPECT_EQ(memory.snapshot(), before) << bad.expected;
  }
  const ReserveRequest* const null = nullptr;
  EXPECT_THAT(message(pool.reserve(std::span(null, 2))), HasSubstr("requests is null"));
  EXPECT_TRUE(pool.reserve(std::span<const ReserveRequest>()).is_ok());
  PagePool moved = std::move(pool);
  const ReserveRequest one[] = {{a, 1}};
  EXPECT_THAT(message(pool.reserve(one)),
              HasSubstr("moved from"));  // NOLINT(bugprone-use-after-move)
  expect_sound(moved);
}

TEST(PagePoolBatch, findable_content_under_a_cut_is_forgotten_rather_than_another_refused) {
  PagePool pool = make_pool({.num_pages = 3, .page_size = 4, .max_pages_per_sequence = 3});
  const SequenceId a = prefill(pool, count_from(0, 8)), b = admitted(pool, 9);
  pool.trim(a, 6).or_throw();  // its second page is findable
  const ReserveRequest requests[] = {{a, 2}, {b, 4}};
  pool.reserve(requests).or_throw();  // one page is left, and b needs it
  EXPECT_TRUE(pool.take_copies().empty());
  EXPECT_EQ(pool.peek(count_from(0, 9)), 4);
  expect_sound(pool);
}

// ---- Watermark and look-ahead

TEST(PagePoolWatermark, counts_for_those_that_begin_while_others_have_pages) {
  PagePool pool = make_pool({.num_pages = 8, .page_size = 4, .watermark_pages = 2});
  const SequenceId a = admitted(pool, 1), b = admitted(pool, 2);
  pool.reserve(a, 20).or_throw();  // alone
  const Status refused = pool.reserve(b, 8);
  EXPECT_EQ(refused.code(), Errc::out_of_pages);
  EXPECT_THAT(message(refused), HasSubstr("2 pages needed, 3 of 8 are free or can be evicted, 2 of "
                                          "these are held back"));
  pool.reserve(b, 4).or_throw();
  pool.reserve(a, 28).or_throw();  // it runs already: both pages of the watermark
  EXPECT_EQ(pool.stats().free_pages, 0);
  expect_sound(pool);
}

TEST(PagePoolWatermark, a_pool_that_nobody_else_uses_gives_everything) {
  PagePool pool = make_pool({.num_pages = 4, .page_size = 4, .watermark_pages = 4});
  const SequenceId a = admitted(pool, 1);
  pool.reserve(a, 16).or_throw();
  pool.preempt(a).or_throw();
  pool.reserve(a, 16).or_throw();
  expect_sound(pool);
}

TEST(PagePoolWatermark, within_a_batch_the_requests_before_count_as_others) {
  PagePool pool = make_pool({.num_pages = 4, .page_size = 4, .watermark_pages = 2});
  const SequenceId a = admitted(pool, 1), b = admitted(pool, 2);
  const ReserveRequest both[] = {{a, 8}, {b, 4}};
  EXPECT_EQ(pool.reserve(both).code(), Errc::out_of_pages);
  const ReserveRequest less[] = {{a, 4}, {b, 4}};
  pool.reserve(less).or_throw();
  expect_sound(pool);
}

TEST(PagePoolLookahead, every_reserve_leaves_slots_for_drafts_as_far_as_the_sequence_may_grow) {
  PagePool pool = make_pool(
      {.num_pages = 8, .page_size = 4, .max_pages_per_sequence = 2, .lookahead_tokens = 3});
  const SequenceId a = admitted(pool, 1);
  pool.reserve(a, 2).or_throw();  // 2 and 3 of them
  EXPECT_EQ(pool.stats().used_pages, 2);
  pool.commit(a, count_from(0, 5)).or_throw();
  pool.reserve(a, 3).or_throw();  // 8 in all, no slot behind
  EXPECT_EQ(pool.commit(a, count_from(5, 4)).code(), Errc::invalid_argument);
  pool.commit(a, count_from(5, 3)).or_throw();
  expect_sound(pool);
}

TEST(PagePoolWatermark, impossible_options_are_refused_by_name) {
  const auto told = [](const PoolOptions& options) {
    return std::string(PagePool::create(options).error().message());
  };
  EXPECT_THAT(told({.num_pages = 4, .watermark_pages = 5}),
              HasSubstr("PagePool::create: watermark_pages is 5, expected 0 .. 4 (num_pages)"));
  EXPECT_THAT(told({.num_pages = 4, .watermark_pages = 0xffffffffU}), HasSubstr("4294967295"));
  EXPECT_THAT(told({.num_pages = 4, .lookahead_tokens = -1}),
              HasSubstr("PagePool::create: lookahead_tokens is -1, expected at least 0"));
  PagePool pool = make_pool({.num_pages = 4, .page_size = 4, .lookahead_tokens = largest});
  pool.reserve(admitted(pool, 1), 1).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 4);
  expect_sound(pool);
}

// ---- Why

TEST(PagePoolExplain, each_page_is_counted_once_by_who_has_it) {
  PagePool pool = make_pool({.num_pages = 12, .page_size = 4, .watermark_pages = 1});
  const SequenceId cached = prefill(pool, count_from(0, 8));
  pool.release(cached).or_throw();  // 2 cached
  const SequenceId a = prefill(pool, count_from(100, 6));
  const SequenceId b = pool.fork(a, 5).value();  // 3 of sequences, one copied from
  const SequenceId in_step = prefill(pool, count_from(200, 4));
  const SequenceId ids[] = {in_step};
  const StepTicket step = pool.begin_step(ids).value();
  pool.release(in_step).or_throw();  // 1 of a step
  pool.release(a).or_throw();        // its last page is read by a copy
  const SequenceId c = admitted(pool, 300);
  const PoolExplanation e = pool.explain(c, 40).value();
  EXPECT_EQ(e, (PoolExplanation{.needed = 10,
                                .held_back = 1,
                                .free = 6,
                                .cached = 2,
                                .of_sequences = 2,
                                .of_steps = 1,
                                .of_copies = 1}));
  EXPECT_EQ(pool.explain(b, 0).value().needed, 0);
  pool.end_step(step).or_throw();
  EXPECT_EQ(pool.explain(c, 0).value().of_steps, 0);
  expect_sound(pool);
}

TEST(PagePoolExplain, hostile_arguments_are_refused_as_by_reserve) {
  PagePool pool = make_pool({.num_pages = 4, .page_size = 4});
  const SequenceId a = admitted(pool, 1);
  for (const int32_t tokens : {-1, smallest, 17, largest}) {
    EXPECT_EQ(pool.explain(a, tokens).error().code(), Errc::invalid_argument);
    EXPECT_THAT(message(pool.explain(a, tokens).error()),
                HasSubstr("PagePool::explain: new_tokens is " + std::to_string(tokens)));
  }
  EXPECT_THAT(message(pool.explain({}, 1).error()), HasSubstr("PagePool::explain: id is sequence"));
  expect_sound(pool);
}

}  // namespace
}  // namespace folio::test
