// SPDX-License-Identifier: Apache-2.0
/// tests/pool/groups_test.cpp: hybrid models: what scripts of other managers expect, and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "folio/cache/planes.h"
#include "pool/group_helpers.h"
#include "pool/inspection.h"
#include "pool/pool_memory.h"

namespace folio::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Groups, a_prompt_of_seven_pages_leaves_two_in_each_window) {  // 20 + 10 layers, window 32
  PagePool pool = make_hybrid({full(16), window(16, 32), window(16, 32)}, 16 * 30, 16);
  const SequenceId id = prefill(pool, count_from(0, 112));
  EXPECT_EQ(used(pool, 0) + used(pool, 1) + used(pool, 2), 7 + 2 + 2);
  EXPECT_THAT(group_row(pool, id, 1, 3), ElementsAre(-1, -1, -1));
  expect_sound(pool);
}

TEST(Groups, a_hit_needs_all_of_the_leading_group_and_the_end_of_the_windows) {
  PagePool pool = make_hybrid({full(16), window(16, 32), window(16, 32)}, 16 * 20, 16);
  const Tokens common = count_from(0, 48);
  const SequenceId a = prefill(pool, common + count_from(100, 7));
  const Admission b = pool.admit(common + count_from(200, 7)).value();
  EXPECT_EQ(b.cached_tokens, 48);
  EXPECT_EQ(row(pool, b.id, 3), row(pool, a, 3));
  EXPECT_EQ(group_row(pool, b.id, 1, 3)[0], -1);  // behind the window
  EXPECT_EQ(group_row(pool, b.id, 1, 3)[2], group_row(pool, a, 1, 3)[2]);
  pool.release(a).or_throw();
  pool.release(b.id).or_throw();
  EXPECT_EQ(pool.peek(common + count_from(200, 7)), 48);
  EXPECT_EQ(used(pool, 0) + used(pool, 1) + used(pool, 2), 0);
  expect_sound(pool);
}

TEST(Groups, what_one_group_has_lost_is_no_hit) {
  PagePool pool = make_hybrid({full(16), window(16, 17)}, 16 * 5, 16);
  const SequenceId a = prefill(pool, count_from(0, 32));  // 2 pages, and 1 in the window
  const uint32_t leading = row(pool, a, 2)[1];
  pool.release(a).or_throw();
  EXPECT_EQ(pool.peek(count_from(0, 33)), 32);
  const pool::Groups& groups = pool::PoolInspection::groups(pool);
  ASSERT_NE(groups.companion(leading, 1), pool::no_page);
  // 2 leading pages and both companions are cached, 1 slab is empty: 2 + 1 more need 2 of the old.
  const SequenceId b = prefill(pool, count_from(500, 20));
  EXPECT_LT(pool.peek(count_from(0, 33)), 32);
  pool.release(b).or_throw();
  expect_sound(pool);
}

TEST(Groups, sinks_stay_while_the_window_moves) {
  PagePool pool = make_hybrid({full(4), window(4, 8, 3)}, 4 * 40, 4);
  const SequenceId id = prefill(pool, count_from(0, 40));
  const auto row = group_row(pool, id, 1, 10);
  EXPECT_NE(row[0], -1);
  for (const size_t p : {1U, 2U, 3U, 4U, 5U, 6U, 7U}) EXPECT_EQ(row[p], -1) << p;
  EXPECT_NE(row[8], -1);
  EXPECT_EQ(pool.peek(count_from(0, 41)), 40);
  // The window has left these tokens, and nobody has taken their pages: a fork finds them.
  const SequenceId child = pool.fork(id, 20).value();
  EXPECT_NE(group_row(pool, child, 1, 5)[4], -1);
  EXPECT_NE(group_row(pool, child, 1, 5)[0], -1);
  expect_sound(pool);
}

TEST(Groups, a_sequence_does_not_go_back_behind_its_window_without_reuse) {
  const std::vector<GroupOptions> groups{full(4), window(4, 8)};
  PagePool pool =
      make_pool({.page_size = 4, .prefix_reuse = false, .groups = groups, .arena_bytes = 4 * 40});
  const SequenceId id = prefill(pool, count_from(0, 40));
  EXPECT_THAT(pool.trim(id, 20).message(), HasSubstr("length is 20, but group 1 has given up"));
  EXPECT_EQ(pool.fork(id, 20).error().code(), Errc::invalid_argument);
  EXPECT_TRUE(pool.trim(id, 40).is_ok());
  EXPECT_TRUE(pool.fork(id, 40).has_value());
  EXPECT_TRUE(pool.trim(id, 0).is_ok());
  expect_sound(pool);
}

TEST(Groups, a_page_behind_the_window_waits_for_the_steps_that_read_it) {
  PagePool pool = make_hybrid({full(4), window(4, 5)}, 4 * 40, 4);
  const SequenceId id = prefill(pool, count_from(0, 8));
  const StepTicket ticket = pool.begin_step({&id, 1}).value();
  const int64_t before = used(pool, 1);
  feed(pool, id, count_from(8, 8));
  EXPECT_EQ(used(pool, 1), before + 2);  // two more, and none is given back
  pool.end_step(ticket).or_throw();
  EXPECT_EQ(used(pool, 1), 1);
  expect_sound(pool);
}

TEST(Groups, a_state_inside_its_page_is_copied_for_whoever_goes_on) {
  PagePool pool = make_hybrid({full(2), states(8, 4)}, 8 * 16, 2);
  const SequenceId producer = prefill(pool, count_from(0, 6));
  const Admission consumer = pool.admit(count_from(0, 8)).value();
  EXPECT_EQ(consumer.cached_tokens, 6);
  const int64_t source = group_row(pool, producer, 1, 2)[1];
  EXPECT_EQ(group_row(pool, consumer.id, 1, 2)[1], source);
  pool.reserve(consumer.id, 2).or_throw();
  const auto copies = pool.take_copies(1);
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].from, source);
  EXPECT_EQ(copies[0].to, group_row(pool, consumer.id, 1, 2)[1]);
  EXPECT_NE(copies[0].to, source);
  EXPECT_EQ(pool.peek(count_from(0, 8)), 6);  // the source keeps its place
  EXPECT_TRUE(pool.take_copies(0).empty());
  expect_sound(pool);
}

std::vector<int32_t> chunk_ends(int32_t done, int32_t length, int32_t budget, int32_t page,
                                int32_t checkpoint) {
  std::vector<int32_t> ends;
  while (done < length)
    ends.push_back(done += tokens_to_checkpoint(done, length, budget, page, checkpoint));
  return ends;
}

TEST(Groups, chunks_of_a_prompt_end_where_a_state_can_be_kept) {
  EXPECT_THAT(chunk_ends(0, 10'000, 8192, 32, 512), ElementsAre(8192, 9728, 9984, 10'000));
  EXPECT_THAT(chunk_ends(0, 10'000, 8192, 512, 512), ElementsAre(8192, 9728, 10'000));
  EXPECT_EQ(tokens_to_checkpoint(9984, 12'000, 8192, 32, 512), 256);
  EXPECT_THAT(chunk_ends(0, 30'000, 8192, 11'392, 11'392),
              ElementsAre(8192, 11'392, 19'584, 22'784, 30'000));
  const int32_t most = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(tokens_to_checkpoint(0, most, most, 1, most), most);
  EXPECT_EQ(tokens_to_checkpoint(most - 1, most, 1, most, most), 1);
  EXPECT_EQ(tokens_to_checkpoint(-1, 5, 5, 1, 1), 0);
  EXPECT_EQ(tokens_to_checkpoint(6, 5, 5, 1, 1), 0);
  EXPECT_EQ(tokens_to_checkpoint(0, 5, 0, 1, 1), 0);
  EXPECT_EQ(tokens_to_checkpoint(0, 5, 5, 0, 1), 0);
  EXPECT_EQ(tokens_to_checkpoint(0, 5, 5, 1, INT32_MIN), 0);
}

TEST(Groups, planes_of_two_groups_lie_in_one_arena_and_used_pages_never_cross) {
  const KVShape shapes[] = {{.num_layers = 2, .num_heads = 1, .head_size = 8, .page_size = 4},
                            {.num_layers = 3, .num_heads = 2, .head_size = 8, .page_size = 4}};
  const int64_t bytes[] = {page_bytes(shapes[0]).value(), page_bytes(shapes[1]).value()};
  ASSERT_NE(bytes[0], bytes[1]);
  const int64_t arena_bytes = bytes[0] * bytes[1] * 3;
  PagePool pool = make_hybrid({full(bytes[0]), window(bytes[1], 9)}, arena_bytes, 4);
  std::vector<std::byte> arena(static_cast<size_t>(arena_bytes));
  std::vector<int> owners(arena.size(), -1);
  for (int i = 0; i < 4; ++i) prefill(pool, count_from(100 * i, 13 + i));
  for (uint32_t g = 0; g < 2; ++g) {
    const GroupFigures figures = pool.group(g).value();
    ASSERT_EQ(figures.page_bytes, bytes[g]);
    const auto planes =
        make_planes(shapes[g], figures.num_pages, MemorySpan{arena.data(), arena_bytes});
    ASSERT_TRUE(planes.has_value());
    EXPECT_EQ(static_cast<void*>(planes->front().key.data), arena.data());
    EXPECT_EQ(planes->front().key.page_stride_bytes, bytes[g]);
    int64_t pages = 0;
    for (uint32_t page = 0; page < figures.num_pages; ++page) {
      if (pool::PoolInspection::groups(pool).slabs.use_of(g, page) != pool::PageUse::used) continue;
      ++pages;
      for (int64_t b = page * bytes[g]; b < (page + 1) * bytes[g]; ++b) {
        EXPECT_EQ(owners[static_cast<size_t>(b)], -1);
        owners[static_cast<size_t>(b)] = static_cast<int>(g);
      }
    }
    EXPECT_GT(pages, 0);
  }
}

TEST(Groups, impossible_groups_are_refused_by_name) {
  constexpr int32_t most = std::numeric_limits<int32_t>::max();
  struct Case {
    std::vector<GroupOptions> groups;
    int64_t arena;
    const char* expected;
  };
  const GroupOptions nonsense{.rule = static_cast<GroupRule>(9), .page_bytes = 1};
  const Case cases[] = {
      {{window(4, 8)}, 100, "groups[0].rule is 1, expected full"},
      {{full(4), nonsense}, 100, "groups[1].rule is 9"},
      {{full(4), full(0)}, 100, "groups[1].page_bytes is 0, expected 1"},
      {{full(-1)}, 100, "groups[0].page_bytes is -1"},
      {{full(INT64_MAX)}, INT64_MAX, "groups[0].page_bytes is 9223372036854775807"},
      {{full(4), window(4, 0)}, 100, "groups[1].window is 0, expected 1"},
      {{full(4), window(4, -5)}, 100, "groups[1].window is -5"},
      {{full(4), window(4, 8, 8)}, 100, "groups[1].sinks is 8, expected 0 .. 7"},
      {{full(4), window(4, 8, -1)}, 100, "groups[1].sinks is -1"},
      {{full(4), {.rule = GroupRule::chunked, .page_bytes = 4}}, 100, "groups[1].chunk is 0"},
      {{full(4), {.page_bytes = 4, .window = 3}}, 100, "groups[1].window is 3, expected 0 .. 0"},
      {{full(4), states(4, 0)}, 100, "groups[1].checkpoint is 0, expected 16"},
      {{full(4), states(4, 24)}, 100, "groups[1].checkpoint is 24, expected a multiple"},
      {{full(4), states(4, most)}, 100, "groups[1].checkpoint is 2147483647, expected a multiple"},
      {{full(4), full(6)}, 11, "arena_bytes is 11, expected at least 12"},
      {{full(4)}, -1, "arena_bytes is -1"},
      {{full(1)}, INT64_MAX, "expected less"},
      {{full(0), full(4)}, 100, "num_pages is 0, expected 1 or more"},
      {std::vector<GroupOptions>(100, full(4)), 100, "groups has 100 elements, expected 1 .. 8"},
  };
  PoolMemory memory;
  for (const Case& c : cases) {
    const auto pool = PagePool::create(
        memory.hooked({.page_size = 16, .groups = c.groups, .arena_bytes = c.arena}));
    ASSERT_FALSE(pool.has_value()) << c.expected;
    EXPECT_EQ(pool.error().code(), Errc::invalid_argument);
    EXPECT_THAT(std::string(pool.error().message()), HasSubstr(c.expected));
  }
  const std::vector<GroupOptions> one{full(4)};
  EXPECT_FALSE(PagePool::create({.num_pages = 5, .groups = one, .arena_bytes = 100}).has_value());
  EXPECT_FALSE(PagePool::create({.num_pages = 5, .arena_bytes = 100}).has_value());
  const GroupOptions* const nothing = nullptr;
  EXPECT_FALSE(PagePool::create({.groups = {nothing, 2}, .arena_bytes = 100}).has_value());
  EXPECT_EQ(memory.calls, 0);
}

TEST(Groups, a_group_out_of_range_and_stale_ids_are_refused) {
  PagePool pool = make_hybrid({full(4), window(4, 8)}, 400, 4);
  const SequenceId id = prefill(pool, count_from(0, 9));
  for (const uint32_t group : {2U, 8U, 0xffffffffU}) {
    EXPECT_THAT(std::string(pool.row_start(id, group).error().message()),
                HasSubstr("expected 0 .. 1"));
    EXPECT_EQ(pool.group(group).error().code(), Errc::invalid_argument);
    EXPECT_EQ(pool.table(group).entries, nullptr);
    EXPECT_TRUE(pool.take_copies(group).empty());
  }
  pool.release(id).or_throw();
  EXPECT_EQ(pool.row_start(id, 1).error().code(), Errc::invalid_argument);
  int64_t start = -1;
  EXPECT_EQ(pool.batch_rows({&id, 1}, {&start, 1}, 1).code(), Errc::invalid_argument);
  EXPECT_EQ(start, -1);
  EXPECT_EQ(make_pool({.num_pages = 3}).num_groups(), 1U);
}

}  // namespace
}  // namespace folio::test
