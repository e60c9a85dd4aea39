// SPDX-License-Identifier: Apache-2.0
/// tests/pool/page_pool_memory_test.cpp: the one block of memory of a pool: asked for, given back,
/// and handed on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pool/pool_helpers.h"
#include "pool/pool_memory.h"
#include "support/allocations.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

TEST(PagePoolMemory, create_takes_one_block_of_the_announced_size_and_destruction_returns_it) {
  PoolMemory memory;
  const PoolOptions options = memory.hooked({.num_pages = 100, .page_size = 7});
  {
    const PagePool pool = make_pool(options);
    ASSERT_EQ(memory.living.size(), 1U);
    EXPECT_EQ(static_cast<int64_t>(memory.living[0].second),
              PagePool::required_bytes(options).value());
  }
  EXPECT_EQ(memory.calls, 1);
  EXPECT_EQ(memory.living.size(), 0U);
  EXPECT_EQ(memory.wrong_frees, 0);
}

TEST(PagePoolMemory, nothing_between_create_and_destruction_allocates) {
  PoolMemory memory;
  PagePool pool = make_pool(memory.hooked({.num_pages = 8, .page_size = 2, .max_sequences = 4}));
  const Tokens prompt = count_from(0, 9), more = count_from(50, 3);
  std::vector<SequenceId> ids(3);
  const int64_t before = allocations();
  for (int round = 0; round < 10; ++round) {
    const SequenceOptions tenant{.salt = round % 2 == 0 ? "even" : "odd",
                                 .adapter = static_cast<uint64_t>(round)};
    const Result<Admission> a = pool.admit(prompt, tenant);
    ids[0] = a->id;
    bool ok = pool.reserve(ids[0], 9 - a->cached_tokens).is_ok();
    ok = ok && pool.commit(ids[0], std::span(prompt).subspan(static_cast<size_t>(a->cached_tokens)))
                   .is_ok();
    ids[1] = *pool.fork(ids[0], 5);
    ids[2] = *pool.fork(ids[1], 4);
    ok = ok && pool.take_copies().size() == 1;
    const Result<StepTicket> ticket = pool.begin_step(ids);
    ok = ok && pool.trim(ids[2], 3).is_ok() && pool.reserve(ids[1], 1).is_ok() &&
         pool.commit(ids[1], std::span(more).first(1)).is_ok();
    for (const SequenceId id : ids) ok = ok && pool.release(id).is_ok();
    ok = ok && pool.end_step(*ticket).is_ok() && pool.peek(prompt, tenant) > 0;
    ASSERT_TRUE(ok) << round;
  }
  EXPECT_EQ(allocations(), before);
  EXPECT_EQ(memory.calls, 1);
  EXPECT_GT(pool.stats().evicted_pages, 0);
}

TEST(PagePoolMemory, without_hooks_one_operator_new_is_all) {
  const int64_t before = allocations();
  const PagePool pool = make_pool({.num_pages = 100});
  EXPECT_EQ(allocations(), before + 1);
}

TEST(PagePoolMemory, a_failed_allocation_is_out_of_memory) {
  PoolMemory memory;
  memory.fail = true;
  EXPECT_EQ(PagePool::create(memory.hooked({.num_pages = 4})).error().code(), Errc::out_of_memory);
  fail_allocations(true);
  const Errc code = PagePool::create({.num_pages = 4}).error().code();
  fail_allocations(false);
  EXPECT_EQ(code, Errc::out_of_memory);
}

TEST(PagePoolMemory, misaligned_memory_is_refused_and_given_back) {
  PoolMemory memory;
  memory.misalign = 16;
  EXPECT_THAT(std::string(PagePool::create(memory.hooked({.num_pages = 4})).error().message()),
              HasSubstr("PagePool::create: allocate's memory is aligned to 16 bytes, expected 64"));
  EXPECT_EQ(memory.living.size(), 0U);
  EXPECT_EQ(memory.wrong_frees, 0);
}

TEST(PagePoolMemory, an_unfinished_step_or_copy_leaves_nothing_behind) {
  PoolMemory memory;
  {
    PagePool pool = make_pool(memory.hooked({.num_pages = 8, .page_size = 4}));
    const SequenceId id = prefill(pool, count_from(0, 7));
    static_cast<void>(pool.fork(id, 6).value());
    static_cast<void>(pool.begin_step({{id}}).value());
  }
  EXPECT_EQ(memory.living.size(), 0U);
}

TEST(PagePoolMemory, a_moved_pool_keeps_its_sequences_and_the_old_one_is_empty) {
  PoolMemory memory;
  PagePool old = make_pool(memory.hooked({.num_pages = 8, .page_size = 4}));
  const SequenceId id = prefill(old, count_from(0, 5));
  const uint32_t* const entries = old.table().entries;
  PagePool pool = std::move(old);
  EXPECT_EQ(pool.length(id).value(), 5);
  EXPECT_EQ(pool.table().entries, entries);

  PagePool& moved = old;  // what is left of it answers, too
  EXPECT_EQ(moved.stats(), PoolStats());
  EXPECT_EQ(moved.num_pages(), 0U);
  EXPECT_EQ(moved.page_size(), 0);
  EXPECT_EQ(moved.table().entries, nullptr);
  EXPECT_EQ(moved.peek(count_from(0, 5)), 0);
  EXPECT_EQ(moved.take_copies().size(), 0U);
  EXPECT_TRUE(moved.check_invariants().is_ok());
  EXPECT_EQ(moved.admit(count_from(0, 5)).error().code(), Errc::invalid_argument);
  EXPECT_EQ(moved.reserve(id, 1).code(), Errc::invalid_argument);
  EXPECT_EQ(moved.commit(id, count_from(0, 1)).code(), Errc::invalid_argument);
  EXPECT_EQ(moved.trim(id, 0).code(), Errc::invalid_argument);
  EXPECT_EQ(moved.fork(id, 0).error().code(), Errc::invalid_argument);
  EXPECT_EQ(moved.release(id).code(), Errc::invalid_argument);
  EXPECT_EQ(moved.batch_rows({}, {}).code(), Errc::invalid_argument);
  EXPECT_EQ(moved.begin_step({}).error().code(), Errc::invalid_argument);
  EXPECT_EQ(moved.end_step({}).code(), Errc::invalid_argument);
  EXPECT_EQ(moved.length(id).error().code(), Errc::invalid_argument);
  EXPECT_EQ(moved.row_start(id).error().code(), Errc::invalid_argument);

  pool = make_pool(memory.hooked({.num_pages = 2, .page_size = 4}));
  EXPECT_EQ(memory.living.size(), 1U) << "assigning gives back what the pool had";
  PagePool& same = pool;
  pool = std::move(same);
  EXPECT_EQ(pool.num_pages(), 2U);
}

}  // namespace
}  // namespace folio::test
