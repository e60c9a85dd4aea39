// SPDX-License-Identifier: Apache-2.0
/// bench/attention_bench.cpp: every kernel of the list against the roofs of this machine, on one core and on all.
///
/// Prints the roofs first: f32 fused multiply-adds, and the read rate over the very pages that decode reads. Decode's pages are at
/// least four times the caches, so "cold" is what it measures. Plan is not part of the timed region; each result is checked once.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "attention/kernel_list.h"
#include "attention_workload.h"
#include "cpu/features.h"
#include "roofs.h"

namespace folio::bench {
namespace {

struct Roofs {
  double flops = 0.0;
  double bytes = 0.0;
};

constexpr WorkloadShape prefill{.new_tokens = 512, .context = 4096, .q_heads = 32, .kv_heads = 8};
constexpr WorkloadShape causal{.new_tokens = 4096, .context = 4096, .q_heads = 4, .kv_heads = 1, .mask = Mask::causal()};

/// Group 4, 8 KV heads, 8k tokens of context: 32 MiB of K and V a sequence.
WorkloadShape decode(StorageOrder order) {
  WorkloadShape shape{.context = 8192, .q_heads = 32, .kv_heads = 8, .order = order};
  shape.sequences = static_cast<int32_t>(std::clamp<int64_t>(4 * cache_bytes() / (32 << 20) + 1, 8, 256));
  return shape;
}

void run_case(benchmark::State& state, const WorkloadShape& shape, const std::string& kernel, int threads, const Roofs& roofs) {
  Workload workload(shape, kernel, threads);
  workload.run();
  if (const std::string wrong = workload.check(); !wrong.empty()) {
    state.SkipWithError(wrong.c_str());
    return;
  }
  double seconds = 0.0;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    workload.run();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    state.SetIterationTime(elapsed.count());
    seconds += elapsed.count();
  }
  const double rounds = static_cast<double>(state.iterations());
  const double flops = workload.flops() * rounds / seconds, bytes = workload.bytes() * rounds / seconds;
  state.counters["GFLOP/s"] = flops / 1e9;
  state.counters["GB/s"] = bytes / 1e9;
  if (shape.new_tokens > 1) state.counters["%FMA"] = 100.0 * flops / roofs.flops;
  if (shape.new_tokens == 1) state.counters["%read"] = 100.0 * bytes / roofs.bytes;
}

Roofs measure_roofs(int threads) {
  const Workload pages(decode(StorageOrder::token_major), std::string(kernels().back().name), threads);
  const Roofs roofs{peak_flops(threads), read_rate(pages.memory(), pages.page_bytes(), pages.pages(), threads)};
  std::printf(
      "%d thread%s: %.0f GFLOP/s of f32 fused multiply-adds, %.1f GB/s read from %.0f MiB of scattered pages (caches: %.0f "
      "MiB)\n",
      threads, threads == 1 ? "" : "s", roofs.flops / 1e9, roofs.bytes / 1e9, pages.bytes() / (1 << 20),
      static_cast<double>(cache_bytes()) / (1 << 20));
  const std::string prefix = "roof_" + std::to_string(threads) + "_threads_";
  benchmark::AddCustomContext(prefix + "gflops", std::to_string(roofs.flops / 1e9));
  benchmark::AddCustomContext(prefix + "read_gb_per_s", std::to_string(roofs.bytes / 1e9));
  return roofs;
}

void add_cases(int threads) {
  const Roofs roofs = measure_roofs(threads);
  const std::string suffix = "/threads:" + std::to_string(threads);
  for (const Kernel& kernel : kernels()) {
    const std::string name(kernel.name);
    if (kernel.isa > machine_isa()) {
      std::printf("%s: skipped, this machine lacks %s\n", name.c_str(), folio::name(kernel.isa));
      continue;
    }
    const auto add = [&](const std::string& title, const WorkloadShape& shape) {
      benchmark::RegisterBenchmark((title + "/" + name + suffix).c_str(), run_case, shape, name, threads, roofs)
          ->Unit(benchmark::kMillisecond)
          ->UseManualTime()
          ->Repetitions(3)
          ->MinTime(0.2)
          ->ReportAggregatesOnly();
    };
    add("prefill_512_over_4096", prefill);
    add("prefill_causal_4096", causal);
    add("decode_8k_group4_token_major", decode(StorageOrder::token_major));
    add("decode_8k_group4_head_major", decode(StorageOrder::head_major));
  }
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  const int all = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  folio::bench::add_cases(1);
  if (all > 1) folio::bench::add_cases(all);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
