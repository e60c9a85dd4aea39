// SPDX-License-Identifier: Apache-2.0
/// src/core/run_on.cpp: the only place that calls an executor, and the only `try` of the run path.
#include "core/run_on.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <exception>

namespace folio::inline v1 {
namespace {

/// `call` calls the executor's `member`.
template <class Call>
Status guarded(const char* function, const char* member, Call call) noexcept {
  constexpr auto format = "{}: executor.{} threw {}, expected it to return (output is undefined)";
  try {
    call();
    return {};
  } catch (const std::exception& e) {
    return fail(Errc::internal, format, function, member, e.what());
  } catch (...) {
    return fail(Errc::internal, format, function, member, "something");
  }
}

/// As many tasks as the executor is given at once, and which of them were begun: a bit each.
struct Round {
  static constexpr int64_t word_bits = 64, words = 64, most = word_bits * words;

  void (*task)(void* arg, int64_t i) noexcept = nullptr;
  void* arg = nullptr;
  int64_t first = 0;
  int64_t count = 0;
  std::array<std::atomic<uint64_t>, words> begun = {};

  static void run(void* self, int64_t i) noexcept {
    Round& round = *static_cast<Round*>(self);
    if (i < 0 || i >= round.count) return;
    const uint64_t bit = uint64_t{1} << (i % word_bits);
    auto& word = round.begun[static_cast<size_t>(i / word_bits)];
    if ((word.fetch_or(bit, std::memory_order_relaxed) & bit) == 0)
      round.task(round.arg, round.first + i);
  }
  [[nodiscard]] int64_t num_begun() const noexcept {
    int64_t sum = 0;
    for (const auto& word : begun) sum += std::popcount(word.load(std::memory_order_relaxed));
    return sum;
  }
};

}  // namespace

Status check_executor(const char* function, const Executor& executor) noexcept {
  if (executor.parallel_for != nullptr && executor.concurrency != nullptr) return {};
  return fail(Errc::invalid_argument, "{}: executor has no {}, expected a function", function,
              executor.parallel_for == nullptr ? "parallel_for" : "concurrency");
}

Result<int64_t> concurrency_of(const char* function, const Executor& executor) noexcept {
  int64_t threads = 1;
  Status s =
      guarded(function, "concurrency", [&] { threads = executor.concurrency(executor.context); });
  if (!s.is_ok()) return s;
  return std::max<int64_t>(1, threads);
}

Status run_on(const char* function, const Executor& executor, int64_t n,
              void (*task)(void* arg, int64_t i) noexcept, void* arg) noexcept {
  if (n == 1) {
    task(arg, 0);
    return {};
  }
  for (int64_t first = 0; first < n; first += Round::most) {
    Round round;
    round.task = task;
    round.arg = arg;
    round.first = first;
    round.count = std::min(n - first, Round::most);
    Status s = guarded(function, "parallel_for", [&] {
      executor.parallel_for(executor.context, round.count, Round::run, &round);
    });
    if (!s.is_ok()) return s;
    if (const int64_t begun = round.num_begun(); begun != round.count)
      return fail(Errc::internal,
                  "{}: executor.parallel_for ran {} tasks, expected {} (output is undefined)",
                  function, begun, round.count);
  }
  return {};
}

}  // namespace folio::inline v1
