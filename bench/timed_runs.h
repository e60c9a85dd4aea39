// SPDX-License-Identifier: Apache-2.0
/// bench/timed_runs.h: how benches of ours time a call and run their cases with Google Benchmark.
#pragma once

#include <benchmark/benchmark.h>

#include <chrono>
#include <utility>
#include <vector>

#include "report.h"
#include "roofs.h"

namespace folio::bench {

/// Calls run() for each iteration of `state`, which must time by hand, and returns the median in
/// seconds; before each iteration, untimed, prepare().
template <class Run, class Prepare>
double median_of(benchmark::State& state, Run&& run, Prepare&& prepare) {
  std::vector<double> seconds;
  for (auto _ : state) {
    prepare();
    const auto begin = std::chrono::steady_clock::now();
    run();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    state.SetIterationTime(seconds.back());
  }
  return median(std::move(seconds));
}

template <class Run>
double median_of(benchmark::State& state, Run&& run) {
  return median_of(state, run, [] {});
}

/// The main of a bench: takes the flags of both out of argv, lets `add_cases` register cases that
/// fill the report, runs those asked for and finishes the report. Returns the exit status.
inline int run_benches(int argc, char** argv, void (*add_cases)(Report&)) {
  Report report(take_options(argc, argv));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  add_cases(report);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  report.finish();
  return 0;
}

}  // namespace folio::bench
