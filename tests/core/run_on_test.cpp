// SPDX-License-Identifier: Apache-2.0
/// tests/core/run_on_test.cpp: every index has its turn once, whatever the executor calls.
#include "core/run_on.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace folio {
namespace {

using Task = void (*)(void*, int64_t) noexcept;

Executor executor_of(void (*parallel_for)(void*, int64_t, Task, void*)) {
  return {nullptr, [](void*) { return 4; }, parallel_for};
}

struct Counts {
  std::vector<std::atomic<int>> runs;
  explicit Counts(int64_t n) : runs(static_cast<size_t>(n)) {}
  static void task(void* self, int64_t i) noexcept {
    ++static_cast<Counts*>(self)->runs.at(static_cast<size_t>(i));
  }
  [[nodiscard]] bool each_once() const {
    for (const auto& run : runs) {
      if (run != 1) return false;
    }
    return true;
  }
};

void expect_each_once(const Executor& executor) {
  for (const int64_t n : {0, 1, 2, 63, 64, 65, 4095, 4096, 4097, 10000}) {
    Counts counts(n);
    const Status status = run_on("test", executor, n, Counts::task, &counts);
    EXPECT_TRUE(status.is_ok()) << status.message();
    EXPECT_TRUE(counts.each_once()) << n;
  }
}

TEST(RunOn, an_index_runs_once_however_often_it_is_called) {
  expect_each_once(serial_executor());
  expect_each_once(executor_of([](void*, int64_t n, Task task, void* arg) {
    for (int64_t i = -3; i < 2 * n; ++i) task(arg, i % (n + 2));
    for (int64_t i = n - 1; i >= 0; --i) task(arg, i);
  }));
}

TEST(RunOn, threads_that_call_the_same_index_at_once_run_it_once) {
  expect_each_once(executor_of([](void*, int64_t n, Task task, void* arg) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([=] {
        for (int64_t i = 0; i < n; ++i) task(arg, i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }));
}

TEST(RunOn, an_index_that_was_left_out_is_noticed_wherever_it_is) {
  static int64_t left_out = 0;
  const Executor executor = executor_of([](void*, int64_t n, Task task, void* arg) {
    for (int64_t i = 0; i < n; ++i) task(arg, i == left_out ? (i + 1) % n : i);
  });
  for (const int64_t index : {0, 1, 63, 64, 4095}) {
    left_out = index;
    Counts counts(4096);
    const Status status = run_on("test", executor, 4096, Counts::task, &counts);
    EXPECT_EQ(status.code(), Errc::internal);
    EXPECT_EQ(status.message(),
              "test: executor.parallel_for ran 4095 tasks, expected 4096 (output is undefined)");
  }
}

TEST(RunOn, concurrency_is_at_least_1) {
  for (const auto& [offered, expected] : {std::pair{-2, 1}, {0, 1}, {1, 1}, {96, 96}}) {
    static int answer = 0;
    answer = offered;
    const Executor executor{nullptr, [](void*) { return answer; }, nullptr};
    EXPECT_EQ(concurrency_of("test", executor).value(), expected);
  }
}

}  // namespace
}  // namespace folio
