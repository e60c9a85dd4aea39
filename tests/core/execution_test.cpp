// SPDX-License-Identifier: Apache-2.0
/// tests/core/execution_test.cpp: the executors run every task once, and really at the same time.
#include "folio/core/execution.h"
#include "folio/core/element.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "core/counts.h"
#include "folio/core/any_tensor.h"

namespace folio {
namespace {

static_assert(sizeof(Executor) == 3 * sizeof(void*) && std::is_trivially_copyable_v<Executor>);
static_assert(std::is_trivially_copyable_v<Device> && std::is_trivially_copyable_v<Stream>);

using test::Counts;

/// An executor with threads, by the function that makes it.
using MakeExecutor = Executor (*)(int threads);

struct ThreadsExecutor : ::testing::TestWithParam<MakeExecutor> {
  static Executor make(int threads = 0) { return GetParam()(threads); }
};
INSTANTIATE_TEST_SUITE_P(
    Each, ThreadsExecutor,
    ::testing::Values([](int threads) { return default_executor(threads); },
                      [](int threads) { return thread_pool_executor(threads); }),
    [](const auto& which) -> std::string { return which.index == 0 ? "default" : "thread_pool"; });

void expect_each_task_once(const Executor& executor, int64_t n) {
  Counts counts(n);
  executor.parallel_for(executor.context, n, Counts::task, &counts);
  EXPECT_TRUE(counts.each_once()) << n;
}

TEST_P(ThreadsExecutor, every_task_runs_exactly_once) {
  for (const int64_t n : {0, 1, 2, 3, 64, 10000}) {
    expect_each_task_once(make(), n);
    for (const int threads : {1, 2, 3, 8}) expect_each_task_once(make(threads), n);
  }
}

TEST_P(ThreadsExecutor, threads_that_would_have_no_task_are_not_started) {
  for (const int threads : {1 << 20, INT32_MAX}) expect_each_task_once(make(threads), 3);
}

TEST_P(ThreadsExecutor, concurrency_is_what_was_asked_for) {
  const Executor five = make(5);
  EXPECT_EQ(five.concurrency(five.context), 5);
  const Executor any = make();
  EXPECT_GE(any.concurrency(any.context), 1);
  const Executor negative = make(-3);
  EXPECT_EQ(negative.concurrency(negative.context), any.concurrency(any.context));
}

TEST(Executor, serial_runs_every_task_exactly_once) {
  EXPECT_EQ(serial_executor().concurrency(nullptr), 1);
  for (const int64_t n : {0, 1, 2, 64}) expect_each_task_once(serial_executor(), n);
}

TEST(Executor, serial_runs_in_order_on_the_calling_thread) {
  struct Seen {
    std::vector<int64_t> order;
    std::thread::id caller = std::this_thread::get_id();
    bool same_thread = true;
  } seen;
  seen.order.reserve(100);
  const Executor executor = serial_executor();
  executor.parallel_for(
      executor.context, 100,
      [](void* arg, int64_t i) noexcept {
        Seen& s = *static_cast<Seen*>(arg);
        s.same_thread = s.same_thread && std::this_thread::get_id() == s.caller;
        s.order.push_back(i);
      },
      &seen);
  EXPECT_TRUE(seen.same_thread);
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(seen.order[static_cast<size_t>(i)], i);
}

TEST_P(ThreadsExecutor, two_tasks_wait_for_each_other_on_two_threads) {
  // Only possible if both run at once; a serial executor would never end, so this one needs two
  // threads.
  std::atomic<int> arrived = 0;
  const Executor executor = make(2);
  executor.parallel_for(
      executor.context, 2,
      [](void* arg, int64_t) noexcept {
        auto& count = *static_cast<std::atomic<int>*>(arg);
        ++count;
        while (count < 2) std::this_thread::yield();
      },
      &arrived);
  EXPECT_EQ(arrived, 2);
}

TEST_P(ThreadsExecutor, what_tasks_wrote_is_visible_after_the_call) {
  std::vector<int64_t> squares(1000);
  const Executor executor = make(4);
  for (int round = 1; round <= 50; ++round) {
    executor.parallel_for(
        executor.context, 1000,
        [](void* arg, int64_t i) noexcept {
          int64_t& square = (*static_cast<std::vector<int64_t>*>(arg))[static_cast<size_t>(i)];
          square += i * i;
        },
        &squares);
    ASSERT_EQ(squares[999], 999 * 999 * round);
    ASSERT_EQ(squares[1], round);
  }
}

TEST_P(ThreadsExecutor, callers_on_several_threads_do_not_disturb_one_another) {
  std::vector<std::thread> callers;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&wrong] {
      const Executor executor = make(3);
      for (int round = 0; round < 50; ++round) {
        Counts counts(200);
        executor.parallel_for(executor.context, 200, Counts::task, &counts);
        if (!counts.each_once()) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(AnyTensor, dense_tensor_is_packed_row_major_in_bytes) {
  bf16 storage[24] = {};
  const AnyTensor<3> t = dense_tensor<3>(storage, DType::bf16, {2, 3, 4});
  EXPECT_EQ(t.data, storage);
  EXPECT_EQ(t.dtype, DType::bf16);
  EXPECT_EQ(t.extent[0], 2);
  EXPECT_EQ(t.extent[2], 4);
  EXPECT_EQ(t.stride_bytes[0], 24);
  EXPECT_EQ(t.stride_bytes[1], 8);
  EXPECT_EQ(t.stride_bytes[2], 2);
}

// What is written may be read, and not the other way round.
static_assert(std::is_convertible_v<AnyTensor<3>, ConstTensor<3>>);
static_assert(!std::is_convertible_v<ConstTensor<3>, AnyTensor<3>>);

TEST(AnyTensor, a_tensor_of_const_elements_is_read_only_and_otherwise_the_same) {
  const bf16 storage[24] = {};
  bf16 others[24] = {};
  const auto t = dense_tensor<3>(storage, DType::bf16, {2, 3, 4});
  static_assert(std::is_same_v<decltype(t), const ConstTensor<3>>);
  const ConstTensor<3> converted = dense_tensor<3>(others, DType::bf16, {2, 3, 4});
  EXPECT_EQ(t.data, storage);
  EXPECT_EQ(converted.data, others);
  for (const ConstTensor<3>& tensor : {t, converted}) {
    EXPECT_EQ(tensor.dtype, DType::bf16);
    const int64_t extents[] = {2, 3, 4}, strides[] = {24, 8, 2};
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(tensor.extent[i], extents[i]);
      EXPECT_EQ(tensor.stride_bytes[i], strides[i]);
    }
  }
}

}  // namespace
}  // namespace folio
