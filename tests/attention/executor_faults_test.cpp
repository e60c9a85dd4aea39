// SPDX-License-Identifier: Apache-2.0
/// tests/attention/executor_faults_test.cpp: executors that throw, leave out tasks or repeat them,
/// under every operation that takes one.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "attention/append_parts.h"
#include "folio/attention/append.h"
#include "folio/attention/merge.h"
#include "folio/attention/rotate.h"
#include "folio/cache/copy.h"
#include "support/allocations.h"
#include "support/attention_case.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

using RunTask = void (*)(void*, int64_t) noexcept;

/// An executor for eight threads whose behaviour is `parallel_for`.
struct FaultyExecutor {
  std::function<void(int64_t n, RunTask task, void* arg)> parallel_for;
  std::function<int()> concurrency = [] { return 8; };

  [[nodiscard]] Executor executor() {
    return {this, [](void* self) { return static_cast<FaultyExecutor*>(self)->concurrency(); },
            [](void* self, int64_t n, RunTask task, void* arg) {
              static_cast<FaultyExecutor*>(self)->parallel_for(n, task, arg);
            }};
  }
};

void run_all(int64_t n, RunTask task, void* arg) {
  for (int64_t i = 0; i < n; ++i) task(arg, i);
}

CaseOptions case_options() {
  CaseOptions options;
  options.sequences = {{3, 700}, {1, 300}, {2, 90}, {1, 5000}};
  options.head_size = 32;
  options.parallelism = 8;
  return options;
}

/// Sound arguments of all operations, each with enough work to be cut into several tasks.
struct Operations {
  static constexpr int64_t tokens = 1024;

  AttentionCase attention_case{case_options()};
  PreparedCase prepared =
      prepare_case(attention_case, {}, attention_case.limits()).value_or(PreparedCase{});
  PlaneSpec spec{DType::f32, 2, 32, 64, 32};
  TestPlane key{spec}, value{spec}, to{spec};
  Source rows{DType::f32, tokens, 2, 32, 0};
  std::vector<float> angles = std::vector<float>(32, 0.6f);
  std::vector<int32_t> positions = std::vector<int32_t>(tokens, 0);
  std::vector<float> out = std::vector<float>(tokens * 64, 1.0f),
                     lse = std::vector<float>(tokens * 2);
  std::vector<int64_t> slots = std::vector<int64_t>(tokens);
  std::vector<PageCopy> pages;
  std::vector<SlotCopy> slot_copies;

  Operations() {
    Rng rng(1);
    rows.randomise(rng, false);
    for (int64_t t = 0; t < tokens; ++t) {
      slots[static_cast<size_t>(t)] = t * 2;
      slot_copies.push_back({t, t * 2});
    }
    for (uint32_t page = 0; page < 30; ++page) pages.push_back({page, page, 64});
    AppendArgs args;
    args.k = rows.tensor;
    args.key = key.view;
    args.slots = slots.data();
    EXPECT_TRUE(folio::append({}, args, serial_executor()).is_ok());
  }
  Status attend(const Executor& executor) {
    return folio::attend(prepared.attention, prepared.plan, attention_case.args(),
                         prepared.workspace.span(), executor);
  }
  Status append(const Executor& executor) {
    AppendArgs args;
    args.k = args.v = rows.tensor;
    args.key = to.view;
    args.value = value.view;
    args.slots = slots.data();
    return folio::append({}, args, executor);
  }
  Status rotate(const Executor& executor) {
    // in place: a token that is rotated twice shows
    const Rope rope{angles.data(), 1, 32, false, 0, positions.data()};
    RotateArgs args;
    args.q = args.out = result();
    args.rope = &rope;
    return folio::rotate({}, args, executor);
  }
  Status merge(const Executor& executor) {
    const Partial parts[] = {{rows.tensor, lse.data()}, {rows.tensor, lse.data()}};
    return folio::merge(parts, result(), nullptr, executor);
  }
  Status copy_pages(const Executor& executor) {
    const KVPlanes from[] = {{key.view, {}}}, target[] = {{to.view, {}}};
    return folio::copy_pages(from, target, pages, executor);
  }
  Status copy_slots(const Executor& executor) {
    const KVPlanes from[] = {{key.view, {}}}, target[] = {{to.view, {}}};
    return folio::copy_slots(from, target, slot_copies, executor);
  }
  [[nodiscard]] AnyTensor<3> result() {
    return dense_tensor<3>(out.data(), DType::f32, {tokens, 2, 32});
  }
  [[nodiscard]] std::vector<std::byte> written() const {
    std::vector<std::byte> all = attention_case.output_bits();
    for (const TestPlane* plane : {&value, &to}) {
      const std::vector<std::byte> bytes = plane->bytes();
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    const auto* result_bytes = reinterpret_cast<const std::byte*>(out.data());
    all.insert(all.end(), result_bytes, result_bytes + out.size() * sizeof(float));
    return all;
  }
};

struct Operation {
  const char* name;
  Status (Operations::*run)(const Executor&);
};
constexpr Operation operations[] = {
    {"attend", &Operations::attend},         {"append", &Operations::append},
    {"rotate", &Operations::rotate},         {"merge", &Operations::merge},
    {"copy_pages", &Operations::copy_pages}, {"copy_slots", &Operations::copy_slots}};

/// Every operation answers `internal`, with these words, and works again with a sound executor.
void expect_internal(FaultyExecutor faulty, const std::string& words) {
  Operations o;
  for (const Operation& operation : operations) {
    SCOPED_TRACE(operation.name);
    const Status status = (o.*operation.run)(faulty.executor());
    const std::string message(status.message());
    EXPECT_EQ(status.code(), Errc::internal) << message;
    EXPECT_EQ(message.rfind(std::string(operation.name) + ": executor.", 0), 0u) << message;
    EXPECT_NE(message.find(words), std::string::npos) << message;
    EXPECT_NE(message.find("expected"), std::string::npos) << message;
    EXPECT_EQ((o.*operation.run)(default_executor(2)).message(), "");
  }
}

/// Every operation succeeds and writes what it writes on one thread.
void expect_the_same_bytes(FaultyExecutor strange) {
  Operations expected, o;
  for (const Operation& operation : operations) {
    SCOPED_TRACE(operation.name);
    ASSERT_EQ((expected.*operation.run)(serial_executor()).message(), "");
    ASSERT_EQ((o.*operation.run)(strange.executor()).message(), "");
    EXPECT_EQ(o.written(), expected.written());
  }
}

TEST(ExecutorFaults, what_an_executor_throws_becomes_an_error_value) {
  expect_internal({[](int64_t, RunTask, void*) { throw std::runtime_error("no such thread"); }},
                  "parallel_for threw no such thread");
  expect_internal({[](int64_t n, RunTask task, void* arg) {
                    run_all(n / 2, task, arg);
                    throw 7;  // not even an exception by type
                  }},
                  "parallel_for threw something");
  expect_internal({[](int64_t n, RunTask task, void* arg) {
                    run_all(n, task, arg);
                    throw std::runtime_error("after the last task");
                  }},
                  "after the last task");
  expect_internal({run_all, []() -> int { throw std::runtime_error("cannot count"); }},
                  "concurrency threw cannot count");
}

TEST(ExecutorFaults, tasks_that_were_left_out_are_an_error_value) {
  expect_internal({[](int64_t, RunTask, void*) {}}, "ran 0 tasks");
  expect_internal({[](int64_t n, RunTask task, void* arg) { run_all(n - 1, task, arg); }},
                  "parallel_for ran");
  expect_internal({[](int64_t n, RunTask task, void* arg) {
                    for (int64_t i = 0; i < n; ++i) task(arg, std::max<int64_t>(i, 1));
                  }},
                  "parallel_for ran");
}

TEST(ExecutorFaults, tasks_that_are_called_again_or_do_not_exist_run_once_or_not_at_all) {
  expect_the_same_bytes({[](int64_t n, RunTask task, void* arg) {
    run_all(n, task, arg);
    run_all(n + 5, task, arg);
    for (const int64_t i : {int64_t{-1}, n, n + 63, int64_t{1} << 40, INT64_MIN}) task(arg, i);
  }});
}

TEST(ExecutorFaults, nested_threads_may_call_the_same_task_at_once) {
  expect_the_same_bytes({[](int64_t n, RunTask task, void* arg) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([=] {
        std::thread inner(run_all, n, task, arg);
        run_all(n, task, arg);
        inner.join();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }});
}

TEST(ExecutorFaults, any_number_of_threads_may_be_claimed) {
  for (const int threads : {0, -3, 1, 1000, 1 << 20, std::numeric_limits<int>::max()})
    expect_the_same_bytes({run_all, [threads] { return threads; }});
}

TEST(ExecutorFaults, operations_on_a_callers_executor_allocate_nothing) {
  Operations o;
  FaultyExecutor sound{run_all};
  const Executor executor = sound.executor();
  const int64_t before = allocations();
  for (const Operation& operation : operations) ASSERT_TRUE((o.*operation.run)(executor).is_ok());
  EXPECT_EQ(allocations(), before);
}

}  // namespace
}  // namespace folio::test
