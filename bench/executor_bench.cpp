// SPDX-License-Identifier: Apache-2.0
/// bench/executor_bench.cpp: what an executor costs: waking and joining its threads, and how much
/// longer a step takes where strangers are on the cores.
///
/// fork_join    two empty tasks; "idle" microseconds between two calls, spent without the executor
/// step         work of 2 ms in so many tasks on every thread of the machine, beside "neighbours"
///              threads that compute without pause; "ratio": the median call to one without
///              neighbours, "worst": the longest of a hundred likewise
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "folio/core/execution.h"

namespace folio::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

constexpr double step_us = 2000;

Executor executor_of(int64_t which) {
  return which == 0 ? default_executor() : thread_pool_executor();
}
const char* name_of(int64_t which) { return which == 0 ? "default" : "thread_pool"; }

double elapsed(Clock::time_point begin) { return Microseconds(Clock::now() - begin).count(); }

/// Additions that take about as long wherever they run; what they sum up to.
double compute(int64_t rounds) {
  double sum = 1.0;
  for (int64_t i = 0; i < rounds; ++i) benchmark::DoNotOptimize(sum += 1.0 / sum);
  return sum;
}

int64_t rounds_of(double us) {
  static const double rounds_per_us = [] {
    constexpr int64_t many = 1'000'000;
    const auto begin = Clock::now();
    compute(many);
    return many / elapsed(begin);
  }();
  return std::max<int64_t>(1, static_cast<int64_t>(us * rounds_per_us));
}

/// Threads that take their share of the cores for the life of the object.
class Neighbours {
 public:
  explicit Neighbours(int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      threads_.emplace_back([this] {
        while (!stop_.load(std::memory_order_relaxed)) compute(1000);
      });
  }
  ~Neighbours() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

/// Microseconds of a call of `tasks` tasks that share `us` of work.
double call(const Executor& executor, int64_t tasks, double us) {
  int64_t rounds = rounds_of(us / static_cast<double>(tasks));
  const auto begin = Clock::now();
  executor.parallel_for(
      executor.context, tasks,
      [](void* arg, int64_t) noexcept { compute(*static_cast<int64_t*>(arg)); }, &rounds);
  return elapsed(begin);
}

void fork_join(benchmark::State& state) {
  const Executor executor = executor_of(state.range(0));
  state.SetLabel(name_of(state.range(0)));
  for (auto _ : state) {
    const auto idle = std::chrono::microseconds(state.range(1));
    if (idle.count() > 0) std::this_thread::sleep_for(idle);
    const auto begin = Clock::now();
    executor.parallel_for(
        executor.context, 2, [](void*, int64_t) noexcept {}, nullptr);
    state.SetIterationTime(elapsed(begin) * 1e-6);
  }
}
BENCHMARK(fork_join)
    ->ArgNames({"executor", "idle"})
    ->ArgsProduct({{0, 1}, {0, 50, 2000}})
    ->Iterations(2000)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

std::vector<double> calls(const Executor& executor, int64_t tasks, double us) {
  std::vector<double> times(100);
  for (double& time : times) time = call(executor, tasks, us);
  std::sort(times.begin(), times.end());
  return times;
}

void step(benchmark::State& state) {
  const Executor executor = executor_of(state.range(0));
  const int64_t tasks = state.range(1);
  const double us = step_us * executor.concurrency(executor.context);
  state.SetLabel(name_of(state.range(0)));
  const double alone = calls(executor, tasks, us)[50];
  const Neighbours neighbours(state.range(2));
  std::vector<double> times;
  for (auto _ : state) {
    times = calls(executor, tasks, us);
    state.SetIterationTime(times[50] * 1e-6);
  }
  state.counters["ratio"] = times[50] / alone;
  state.counters["worst"] = times.back() / alone;
}
BENCHMARK(step)
    ->ArgNames({"executor", "tasks", "neighbours"})
    ->ArgsProduct({{0, 1}, {4, 16, 64}, {0, 1, 2}})
    ->Iterations(3)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace folio::bench

BENCHMARK_MAIN();
