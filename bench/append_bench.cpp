// SPDX-License-Identifier: Apache-2.0
/// bench/append_bench.cpp: append, rotate and the copies against C, the best rate at which this
/// machine copies.
///
///     append_bench [--benchmark_filter=REGEX] [--json=FILE] [--commit=ID]
///
/// Bytes are those of the values, read and written once each. The planes exceed the caches, so that
/// nothing is measured but memory and arithmetic. C is timed between the cases, each of which is
/// held against the better of its neighbours; a case of two cores against that of one and of two,
/// whichever is higher. A case is checked against the reference, on the first tokens, before it is
/// timed.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>

#include "append_workload.h"
#include "cpu/append/rows.h"
#include "report.h"
#include "roofs.h"
#include "timed_runs.h"

namespace folio::bench {
namespace {

using Work = AppendWork;

/// Of bf16, with scales: of four bits, or turned.
constexpr AppendCase packed(const char* shape, DType to, DType scale_dtype, int32_t granule,
                            Hadamard hadamard = {}, bool rotates = false,
                            Zeros zeros = Zeros::none) {
  AppendCase c{shape, Work::append, DType::bf16, to, rotates, true};
  c.granule = granule;
  c.scale_dtype = scale_dtype;
  c.zeros = zeros;
  c.hadamard = hadamard;
  return c;
}

constexpr AppendCase cases[] = {
    {"append/f32_to_bf16", Work::append, DType::f32, DType::bf16},
    {"append/rope/f32_to_bf16", Work::append, DType::f32, DType::bf16, true},
    {"append/rope/bf16_to_bf16", Work::append, DType::bf16, DType::bf16, true},
    {"append/rope/bf16_to_i8/scale_per_token_and_head", Work::append, DType::bf16, DType::i8, true,
     true},
    {"append/rope/bf16_to_e4m3", Work::append, DType::bf16, DType::f8_e4m3, true},
    {"append/rope/bf16_to_e4m3/scale_per_token_and_head", Work::append, DType::bf16, DType::f8_e4m3,
     true, true},
    {"append/bf16_to_i8", Work::append, DType::bf16, DType::i8},
    {"append/bf16_to_e4m3", Work::append, DType::bf16, DType::f8_e4m3},
    {"append/bf16_to_e5m2", Work::append, DType::bf16, DType::f8_e5m2},
    {"append/bf16_to_i8/scale_per_token_and_head", Work::append, DType::bf16, DType::i8, false,
     true},
    {"append/bf16_to_i8/scale_per_32", Work::append, DType::bf16, DType::i8, false, true, 0, 32},
    {"append/bf16_to_e4m3/scale_per_token_and_head", Work::append, DType::bf16, DType::f8_e4m3,
     false, true},
    {"append/bf16_to_e4m3/scale_per_32", Work::append, DType::bf16, DType::f8_e4m3, false, true, 0,
     32},
    {"append/f32_to_e4m3/scale_per_token_and_head", Work::append, DType::f32, DType::f8_e4m3, false,
     true},
    {"append/bf16_to_q8_0", Work::append, DType::bf16, DType::q8_0},
    {"append/bf16_to_q4_0", Work::append, DType::bf16, DType::q4_0},
    {"append/bf16_to_q4_1", Work::append, DType::bf16, DType::q4_1},
    {"append/bf16_to_q5_0", Work::append, DType::bf16, DType::q5_0},
    {"append/bf16_to_q5_1", Work::append, DType::bf16, DType::q5_1},
    {"append/bf16_to_iq4_nl", Work::append, DType::bf16, DType::iq4_nl},
    {"append/rope/bf16_to_q8_0", Work::append, DType::bf16, DType::q8_0, true},
    {"append/head_major/rope/bf16_to_bf16", Work::append, DType::bf16, DType::bf16, true, false, 0,
     128, AppendCache::head_major},
    {"append/head_major/bf16_to_e4m3/scale_per_token_and_head", Work::append, DType::bf16,
     DType::f8_e4m3, false, true, 0, 128, AppendCache::head_major},
    {"append/head_major/bf16_to_q8_0", Work::append, DType::bf16, DType::q8_0, false, false, 0, 128,
     AppendCache::head_major},
    {"append/latent/rope/bf16_to_bf16", Work::append, DType::bf16, DType::bf16, true, false, 0, 576,
     AppendCache::latent},
    {"append/latent/rope/bf16_to_e4m3/scale_per_token", Work::append, DType::bf16, DType::f8_e4m3,
     true, true, 0, 576, AppendCache::latent},
    {"append/latent/bf16_to_q8_0", Work::append, DType::bf16, DType::q8_0, false, false, 0, 576,
     AppendCache::latent},
    packed("append/bf16_to_i4/f16_per_32", DType::i4, DType::f16, 32),
    packed("append/turned/bf16_to_i4/f16_per_32", DType::i4, DType::f16, 32, {.block = 128}),
    packed("append/turned/rope/bf16_to_i4/f16_per_32", DType::i4, DType::f16, 32, {.block = 128},
           true),
    packed("append/turned/bf16_to_i4/f16_per_128", DType::i4, DType::f16, 128, {.block = 128}),
    packed("append/turned/bf16_to_i4_halves/f16_per_32", DType::i4_halves, DType::f16, 32,
           {.block = 128}),
    packed("append/turned/bf16_to_u4/f16_and_pattern_per_32", DType::u4, DType::f16, 32,
           {.block = 128}, false, Zeros::patterns),
    packed("append/bf16_to_e2m1/e4m3_per_16", DType::f4_e2m1, DType::f8_e4m3, 16),
    packed("append/turned/bf16_to_e2m1/e4m3_per_16", DType::f4_e2m1, DType::f8_e4m3, 16,
           {.block = 128}),
    packed("append/turned/bf16_to_e2m1/e8m0_per_32", DType::f4_e2m1, DType::f8_e8m0, 32,
           {.block = 128}),
    packed("append/turned/bf16_to_i8/scale_per_token_and_head", DType::i8, DType::f32, 128,
           {.block = 128}),
    {"copy_pages/bf16_to_q8_0", Work::copy_pages, DType::bf16, DType::q8_0},
    {"copy_pages/q8_0_to_bf16", Work::copy_pages, DType::q8_0, DType::bf16},
    {"append/rope/bf16_to_bf16/one_token_in_256_sequences", Work::append, DType::bf16, DType::bf16,
     true, false, 256},
    {"rotate/bf16_in_place", Work::rotate, DType::bf16, DType::bf16, true},
    {"copy_pages/bf16", Work::copy_pages, DType::bf16, DType::bf16},
    {"copy_pages/bf16_to_e4m3", Work::copy_pages, DType::bf16, DType::f8_e4m3},
    {"copy_pages/bf16_to_i8", Work::copy_pages, DType::bf16, DType::i8},
    {"copy_pages/bf16_to_i8/scale_per_token_and_head", Work::copy_pages, DType::bf16, DType::i8,
     false, true},
    {"copy_slots/bf16", Work::copy_slots, DType::bf16, DType::bf16},
};

/// Google Benchmark calls a case several times until it lasts long enough; memory is made once.
struct Session {
  Report report;
  std::string built;
  std::unique_ptr<AppendWorkload> workload;
  std::string wrong;
  double copied[3] = {};  ///< C as last timed, for 1 and 2 threads
};

/// C of up to so many threads, timed now and last time: the highest.
double copy_roof(Session& session, int threads) {
  double best = 0.0;
  for (int t = 1; t <= threads; ++t) {
    const double before = session.copied[t];
    session.copied[t] = copy_rate(t);
    best = std::max({best, before, session.copied[t]});
  }
  return best;
}

void run_case(benchmark::State& state, Session* session, const AppendCase& c, int threads) {
  const std::string id = std::string(c.shape) + "/" + std::to_string(threads);
  if (session->built != id) {
    session->workload.reset();
    session->workload = std::make_unique<AppendWorkload>(c, threads);
    session->wrong = session->workload->check();
    session->built = id;
  }
  if (!session->wrong.empty()) {
    state.SkipWithError(session->wrong.c_str());
    return;
  }
  if (session->copied[threads] == 0.0) copy_roof(*session, threads);
  const double seconds = median_of(state, [&] { session->workload->run(); });
  Row row{std::string(rows::kernel().name), c.shape, threads, seconds,
          session->workload->bytes(),       0.0,     {}};
  row.roof = {"C", copy_roof(*session, threads), "copy, read and written bytes"};
  raise_to_fewer(row, session->report);
  session->report.set(row);
  state.counters["GB/s"] = row.bytes / row.seconds / 1e9;
  state.counters["%roof"] = row.percent_of_roof();
}

/// How much two cores gain, over what a copy gains.
void state_scaling(Report& report, const AppendCase& c) {
  const Row* one = report.find(c.shape, 1);
  const Row* two = report.find(c.shape, 2);
  if (one == nullptr || two == nullptr) return;
  const double gain = one->seconds / two->seconds,
               possible = two->roof.per_second / one->roof.per_second;
  report.set(Ratio{std::string(c.shape) + ": two cores against one, over the roofs' ratio",
                   gain / possible});
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  using namespace folio::bench;
  Session session{Report(take_options(argc, argv)), {}, nullptr, {}, {}};
  benchmark::Initialize(&argc, argv);
  for (const int threads : {1, 2}) {
    if (threads > static_cast<int>(std::thread::hardware_concurrency())) continue;
    for (const AppendCase& c : cases) {
      const std::string title = std::string(c.shape) + "/threads:" + std::to_string(threads);
      benchmark::RegisterBenchmark(title.c_str(),
                                   [&session, &c, threads](benchmark::State& state) {
                                     run_case(state, &session, c, threads);
                                   })
          ->Unit(benchmark::kMillisecond)
          ->UseManualTime();
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  for (const AppendCase& c : cases) state_scaling(session.report, c);
  session.report.finish();
  return 0;
}
