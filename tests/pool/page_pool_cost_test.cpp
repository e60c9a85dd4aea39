// SPDX-License-Identifier: Apache-2.0
/// tests/pool/page_pool_cost_test.cpp: what a call changes does not grow with what lies beside it:
/// a release with the copies that others wait for, the end of a step with its sequences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pool/pool_helpers.h"
#include "pool/pool_memory.h"

namespace folio::test {
namespace {

/// Bytes of the pool's memory that `call` leaves otherwise than it found them.
template <class Call>
int64_t changed_bytes(const PoolMemory& memory, Call call) {
  const std::vector<std::byte> before = memory.snapshot();
  call();
  const std::vector<std::byte> after = memory.snapshot();
  int64_t changed = 0;
  for (size_t i = 0; i < before.size(); ++i) changed += before[i] != after[i] ? 1 : 0;
  return changed;
}

/// Of `count` forks with a cut page, no copy taken, the i-th is released.
int64_t bytes_of_a_release(uint32_t count, uint32_t i) {
  PoolMemory memory;
  PagePool pool = make_pool(memory.hooked({.num_pages = count + 1,
                                           .page_size = 4,
                                           .max_sequences = count + 1,
                                           .max_pages_per_sequence = 1}));
  const SequenceId parent = prefill(pool, count_from(0, 3));
  std::vector<SequenceId> forks;
  for (uint32_t f = 0; f < count; ++f) forks.push_back(pool.fork(parent, 2).value());
  const int64_t changed = changed_bytes(memory, [&] { pool.release(forks[i]).or_throw(); });
  expect_sound(pool);
  return changed;
}

TEST(PagePoolCost, a_release_changes_as_much_beside_a_thousand_pending_copies_as_beside_ten) {
  constexpr int64_t most = 128;  // a table entry, two pages, a sequence, a copy, the counters
  for (const uint32_t i : {0U, 5U, 9U}) EXPECT_LE(bytes_of_a_release(10, i), most) << i;
  for (const uint32_t i : {0U, 500U, 999U}) EXPECT_LE(bytes_of_a_release(1000, i), most) << i;
}

int64_t bytes_of_the_end_of_a_step(uint32_t count) {
  PoolMemory memory;
  PagePool pool = make_pool(memory.hooked(
      {.num_pages = count, .page_size = 4, .max_sequences = count, .max_pages_per_sequence = 1}));
  std::vector<SequenceId> ids;
  for (uint32_t i = 0; i < count; ++i)
    ids.push_back(prefill(pool, count_from(static_cast<TokenId>(4 * i), 3)));
  const StepTicket ticket = pool.begin_step(ids).value();
  const int64_t changed = changed_bytes(memory, [&] { pool.end_step(ticket).or_throw(); });
  expect_sound(pool);
  return changed;
}

TEST(PagePoolCost, the_end_of_a_step_changes_as_much_of_a_thousand_sequences_as_of_one) {
  EXPECT_EQ(bytes_of_the_end_of_a_step(1000), bytes_of_the_end_of_a_step(1));
}

// ---- What the short ways must not forget

TEST(PagePoolCost, copies_are_given_up_in_any_order) {
  for (const size_t first : {0U, 3U, 7U}) {
    PagePool pool = make_pool({.num_pages = 9, .page_size = 4});
    const SequenceId parent = prefill(pool, count_from(0, 3));
    std::vector<SequenceId> forks;
    for (int32_t i = 0; i < 8; ++i) forks.push_back(pool.fork(parent, 1 + i % 3).value());
    for (const size_t i : {first, (first + 5) % 8, (first + 2) % 8}) {
      pool.release(forks[i]).or_throw();
      forks[i] = {};
      expect_sound(pool);
    }
    std::vector<PageCopy> expected;
    for (size_t i = 0; i < forks.size(); ++i) {
      if (forks[i] == SequenceId()) continue;
      expected.push_back(
          {row(pool, parent, 1)[0], row(pool, forks[i], 1)[0], 1 + static_cast<int32_t>(i) % 3});
    }
    EXPECT_THAT(take_copies(pool), testing::UnorderedElementsAreArray(expected));
    expect_sound(pool);
  }
}

TEST(PagePoolCost, a_fork_of_a_fork_reads_where_its_copy_reads_after_others_are_given_up) {
  PagePool pool = make_pool({.num_pages = 8, .page_size = 4});
  const SequenceId parent = prefill(pool, count_from(0, 3));
  const SequenceId gone = pool.fork(parent, 3).value();
  const SequenceId child = pool.fork(parent, 2).value();
  pool.release(gone).or_throw();
  const SequenceId grandchild = pool.fork(child, 1).value();
  const uint32_t page = row(pool, parent, 1)[0];
  EXPECT_THAT(take_copies(pool),
              testing::UnorderedElementsAre(PageCopy{page, row(pool, child, 1)[0], 2},
                                            PageCopy{page, row(pool, grandchild, 1)[0], 1}));
  expect_sound(pool);
}

/// Two sequences of one page each, and how many pages are held after the first is released.
struct TwoSequences {
  PagePool pool = make_pool({.num_pages = 4, .page_size = 4, .prefix_reuse = false});
  SequenceId a = prefill(pool, count_from(0, 3)), b = prefill(pool, count_from(10, 3));

  StepTicket begin(SequenceId id) { return pool.begin_step({{id}}).value(); }
  void end(StepTicket ticket) { pool.end_step(ticket).or_throw(); }
  int64_t used_after_release_of_a() {
    pool.release(a).or_throw();
    expect_sound(pool);
    return pool.stats().used_pages;
  }
};

TEST(PagePoolCost, a_step_in_the_place_of_an_ended_one_holds_its_own_sequences_only) {
  TwoSequences t;
  t.end(t.begin(t.a));
  static_cast<void>(t.begin(t.b));
  EXPECT_EQ(t.used_after_release_of_a(), 1);
}

TEST(PagePoolCost, nor_after_the_sequence_has_joined_another_step) {
  TwoSequences t;
  t.end(t.begin(t.a));
  static_cast<void>(t.begin(t.b));
  t.end(t.begin(t.a));
  EXPECT_EQ(t.used_after_release_of_a(), 1);
}

TEST(PagePoolCost, a_sequence_in_two_steps_is_held_until_the_last_of_them_ends) {
  TwoSequences t;
  const StepTicket first = t.begin(t.a), second = t.begin(t.a);
  t.end(first);
  const StepTicket others = t.begin(t.b);
  EXPECT_EQ(t.used_after_release_of_a(), 2);
  t.end(others);
  EXPECT_EQ(t.pool.stats().used_pages, 2);
  t.end(second);
  EXPECT_EQ(t.pool.stats().used_pages, 1);
  expect_sound(t.pool);
}

}  // namespace
}  // namespace folio::test
