// SPDX-License-Identifier: Apache-2.0
/// bench/executor_bench.cpp: what an executor costs, and how much longer a step takes where others
/// are on the cores.
///
///     executor_bench [--benchmark_filter=REGEX] [--json=FILE] [--commit=ID]
///
/// fork_join/idle_I_us            two empty tasks, I microseconds after the last call
/// step_S_us/T_tasks/N_neighbours S us of work for each thread of the machine in T tasks, call upon
///                                call, beside N threads that compute without pause
/// step_S_us/T_tasks/after_openmp the same, each call after one of default_executor: what an engine
///                                with OpenMP regions of its own does
///
/// A row is the median call. default_executor and thread_pool_executor take turns in one process,
/// with pauses in which the other's threads fall asleep. Ratios: the mean call, and the longest of
/// twenty, over a step that nobody disturbs.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "folio/core/execution.h"
#include "report.h"
#include "timed_runs.h"

namespace folio::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

double since(Clock::time_point begin) { return Microseconds(Clock::now() - begin).count(); }

/// Additions that take about as long wherever they run.
void compute(int64_t rounds) {
  double sum = 1.0;
  for (int64_t i = 0; i < rounds; ++i) benchmark::DoNotOptimize(sum += 1.0 / sum);
}

int64_t rounds_of(double us) {
  static const double rounds_per_us = [] {
    constexpr int64_t many = 3'000'000;
    const auto begin = Clock::now();
    compute(many);
    return many / since(begin);
  }();
  return std::max<int64_t>(1, static_cast<int64_t>(us * rounds_per_us));
}

/// Threads that take their share of the cores for the life of the object.
class Neighbours {
 public:
  explicit Neighbours(int count) {
    for (int i = 0; i < count; ++i)
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

struct Case {
  std::string shape;
  int64_t tasks = 2;
  double step_us = 0.0;  // of each thread; 0: empty tasks
  int neighbours = 0;
  int idle_us = 0;
  bool after_openmp = false;
  int calls = 0;  // in a turn
};

struct Candidate {
  const char* name;
  Executor executor;
  std::vector<double> us = {};  // of each call
};

double call(const Executor& executor, const Case& c, int threads) {
  int64_t rounds =
      c.step_us == 0.0 ? 0 : rounds_of(c.step_us * threads / static_cast<double>(c.tasks));
  const auto begin = Clock::now();
  executor.parallel_for(
      executor.context, c.tasks,
      [](void* arg, int64_t) noexcept { compute(*static_cast<int64_t*>(arg)); }, &rounds);
  return since(begin);
}

void idle(int us) {
  const auto begin = Clock::now();
  if (us >= 1000) std::this_thread::sleep_for(std::chrono::microseconds(us));
  while (since(begin) < us) {}
}

void take_turn(Candidate& candidate, const Case& c) {
  std::this_thread::sleep_for(std::chrono::milliseconds(15));
  const int threads = candidate.executor.concurrency(candidate.executor.context);
  for (int i = 0; i < c.calls; ++i) {
    if (c.after_openmp) call(default_executor(), c, threads);
    if (c.idle_us > 0) idle(c.idle_us);
    candidate.us.push_back(call(candidate.executor, c, threads));
  }
}

void state_loads(Report& report, const Case& c, Candidate& candidate) {
  if (c.step_us == 0.0) return;
  std::vector<double>& us = candidate.us;
  std::sort(us.begin(), us.end());
  const double mean = std::accumulate(us.begin(), us.end(), 0.0) / static_cast<double>(us.size());
  const std::string name = c.shape + ", " + candidate.name;
  report.set(Ratio{name + ": mean", mean / c.step_us});
  report.set(Ratio{name + ": longest of 20", us[us.size() * 19 / 20] / c.step_us});
}

void run_case(benchmark::State& state, Report* report, const Case& c) {
  constexpr int turns = 8;
  Candidate candidates[] = {{"default", default_executor()},
                            {"thread_pool", thread_pool_executor()}};
  {
    const Neighbours neighbours(c.neighbours);
    for (auto _ : state)
      for (int turn = 0; turn < turns; ++turn)
        for (Candidate& candidate : candidates) take_turn(candidate, c);
  }
  for (Candidate& candidate : candidates) {
    state_loads(*report, c, candidate);
    std::vector<double>& us = candidate.us;
    std::nth_element(us.begin(), us.begin() + static_cast<int64_t>(us.size() / 2), us.end());
    const double median = us[us.size() / 2];
    const Executor& executor = candidate.executor;
    report->set(Row{candidate.name,
                    c.shape,
                    executor.concurrency(executor.context),
                    median * 1e-6,
                    0.0,
                    0.0,
                    {}});
    state.counters[std::string(candidate.name) + "_us"] = median;
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int us : {0, 50, 2000})
    all.push_back({.shape = "fork_join/idle_" + std::to_string(us) + "_us",
                   .idle_us = us,
                   .calls = us >= 1000 ? 50 : 500});
  for (const int us : {200, 2000}) {
    for (const int64_t tasks : {4, 32}) {
      Case c = {
          .shape = {}, .tasks = tasks, .step_us = static_cast<double>(us), .calls = 60'000 / us};
      const std::string step =
          "step_" + std::to_string(us) + "_us/" + std::to_string(tasks) + "_tasks/";
      for (c.neighbours = 0; c.neighbours <= 2; ++c.neighbours) {
        c.shape = step + std::to_string(c.neighbours) + "_neighbours";
        all.push_back(c);
      }
      c.neighbours = 0;
      c.after_openmp = true;
      c.shape = step + "after_openmp";
      all.push_back(c);
    }
  }
  return all;
}

void add_cases(Report& report) {
  for (const Case& c : cases())
    benchmark::RegisterBenchmark(c.shape.c_str(), [&report, c](benchmark::State& state) {
      run_case(state, &report, c);
    })->Iterations(1);
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  return folio::bench::run_benches(argc, argv, folio::bench::add_cases);
}
