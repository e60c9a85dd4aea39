// SPDX-License-Identifier: Apache-2.0
/// bench/mask_bench.cpp: what it costs to make a batch of a mask matrix, and to name a plan.
///
///     mask_bench [--benchmark_filter=REGEX] [--json=FILE] [--commit=ID]
///
/// mask/QUERIESxKEYS/KIND/TYPE: MaskReader::read on one thread, into memory that it has; `warm`:
/// the matrix lies in caches as far as it fits, as after an engine has written it; `cold`: as many
/// matrices as exceed the caches take turns, and the row has the roof R: how fast this thread reads
/// these very bytes. A row's bytes are the matrix's. fingerprint/...: plan_fingerprint of the
/// batch. A row is the median call.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include "folio/attention/mask_matrix.h"
#include "folio/attention/plan_fingerprint.h"
#include "folio/core/element.h"
#include "report.h"
#include "roofs.h"
#include "timed_runs.h"

namespace folio::bench {
namespace {

struct Kind {
  const char* name;
  /// The number of query t's key j.
  float (*number)(int64_t t, int64_t j, int64_t queries, int64_t keys);
  bool alibi = false;
};

constexpr float hidden = -std::numeric_limits<float>::infinity();
constexpr float slope = 0.5f;

float causal(int64_t t, int64_t j, int64_t queries, int64_t keys) {
  return j <= keys - queries + t ? 0.0f : hidden;
}

const Kind kinds[] = {
    {"causal", causal},
    {"window_1024",
     [](int64_t t, int64_t j, int64_t queries, int64_t keys) {
       return keys - queries + t - j < 1024 ? causal(t, j, queries, keys) : hidden;
     }},
    // two sequences whose cells take turns; the queries of one after those of the other
    {"two_sequences",
     [](int64_t t, int64_t j, int64_t queries, int64_t keys) {
       const int64_t half = queries / 2, sequence = t / half;
       return j % 2 == sequence && j / 2 <= keys / 2 - half + t % half ? 0.0f : hidden;
     }},
    // and query after query in turns: a table row for each
    {"two_in_turns",
     [](int64_t t, int64_t j, int64_t queries, int64_t keys) {
       return j % 2 == t % 2 && j / 2 <= (keys - queries) / 2 + t / 2 ? 0.0f : hidden;
     }},
    {"alibi",
     [](int64_t t, int64_t j, int64_t queries, int64_t keys) {
       return causal(t, j, queries, keys) == hidden ? hidden
                                                    : -static_cast<float>(keys - queries + t - j);
     },
     true},
};

/// Copies of one matrix, one behind the other.
class Masks {
 public:
  Masks(const Kind& kind, int64_t queries, int64_t keys, DType dtype, int64_t copies)
      : queries_(queries),
        keys_(keys),
        dtype_(dtype),
        bytes_(queries * keys * bit_width(dtype) / 8),
        memory_(bytes_ * copies) {
    detail::visit_dtype(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (Element<T>) {
        auto* to = reinterpret_cast<T*>(memory_.data());
        for (int64_t t = 0; t < queries; ++t)
          for (int64_t j = 0; j < keys; ++j)
            *to++ = from_float<T>(kind.number(t, j, queries, keys));
      }
    });
    for (int64_t i = 1; i < copies; ++i)
      std::memcpy(memory_.data() + i * bytes_, memory_.data(), static_cast<size_t>(bytes_));
  }
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  [[nodiscard]] MaskMatrix matrix(int64_t copy) const {
    const void* const data = memory_.data() + copy * bytes_;
    return {dense_tensor<4>(data, dtype_, {1, 1, queries_, keys_})};
  }
  /// The copies, as rows of the matrix are read.
  [[nodiscard]] ReadRuns runs() const {
    ReadRuns runs;
    runs.bytes = bytes_ / queries_;
    for (const std::byte* at = memory_.data(); at < memory_.data() + memory_.bytes();
         at += runs.bytes)
      runs.at.push_back(at);
    return runs;
  }

 private:
  int64_t queries_, keys_;
  DType dtype_;
  int64_t bytes_;
  HugeMemory memory_;
};

MaskOptions options_of(const Kind& kind) {
  return {.slopes = kind.alibi ? &slope : nullptr, .q_heads = 1};
}

void run_read(benchmark::State& state, Report* report, const std::string& shape, const Kind& kind,
              int64_t queries, int64_t keys, DType dtype, bool is_cold) {
  const int64_t bytes = queries * keys * bit_width(dtype) / 8;
  const int64_t copies = is_cold ? 2 * cache_bytes() / bytes + 2 : 1;
  const Masks masks(kind, queries, keys, dtype, copies);
  MaskReader reader;
  int64_t copy = 0;
  MaskedBatch masked = reader.read(masks.matrix(0), options_of(kind)).value();
  const double seconds = median_of(state, [&] {
    copy = (copy + 1) % copies;
    masked = reader.read(masks.matrix(copy), options_of(kind)).value();
    benchmark::DoNotOptimize(masked);
  });
  Row row{"mask_reader", shape, 1, seconds, static_cast<double>(bytes), 0.0, {}};
  if (is_cold) {
    const ReadRuns runs = masks.runs();
    const ReadChoice choice = best_pattern(runs, 1);
    row.roof = {"R", median(read_rates(runs, choice, 1, 5)), describe(choice)};
  }
  report->set(row);
  state.counters["median_us"] = seconds * 1e6;
  state.counters["table_rows"] = masked.batch.size;
}

/// Of attention over planes as wide as the mask asks for.
void run_fingerprint(benchmark::State& state, Report* report, const std::string& shape,
                     const Kind& kind, int64_t queries, int64_t keys) {
  const Masks masks(kind, queries, keys, DType::f16, 1);
  MaskReader reader;
  const MaskedBatch masked = reader.read(masks.matrix(0), options_of(kind)).value();
  AttentionProblem problem;
  problem.key = {nullptr, DType::f32, 1, 64, 1, keys, 256, 256, 256, {}};
  problem.value = problem.key;
  problem.q_heads = 1;
  const AttentionLimits limits{.batch = masked.batch.size,
                               .tokens = masked.tokens,
                               .context = masked.context,
                               .parallelism = 1};
  const Attention attention = Attention::create(masked_problem(problem, masked), limits).value();
  PlanFingerprint fingerprint;
  const double seconds = median_of(state, [&] {
    fingerprint = plan_fingerprint(attention, masked.batch).value();
    benchmark::DoNotOptimize(fingerprint);
  });
  report->set(Row{"plan_fingerprint", shape, 1, seconds, 0.0, 0.0, {}});
  state.counters["median_us"] = seconds * 1e6;
}

void add_case(Report& report, const Kind& kind, int64_t queries, int64_t keys, DType dtype) {
  const std::string size = std::to_string(queries) + "x" + std::to_string(keys);
  for (const bool is_cold : {false, true}) {
    const std::string shape =
        "mask/" + size + "/" + kind.name + "/" + name(dtype) + (is_cold ? "/cold" : "/warm");
    benchmark::RegisterBenchmark(shape.c_str(),
                                 [=, &report, &kind](benchmark::State& state) {
                                   run_read(state, &report, shape, kind, queries, keys, dtype,
                                            is_cold);
                                 })
        ->Iterations(queries * keys > 1'000'000 ? 200 : 2000)
        ->UseManualTime();
  }
  if (dtype != DType::f16) return;
  const std::string shape = "fingerprint/" + size + "/" + kind.name;
  benchmark::RegisterBenchmark(shape.c_str(),
                               [=, &report, &kind](benchmark::State& state) {
                                 run_fingerprint(state, &report, shape, kind, queries, keys);
                               })
      ->Iterations(500)
      ->UseManualTime();
}

void add_cases(Report& report) {
  for (const Kind& kind : kinds) add_case(report, kind, 512, 4096, DType::f16);
  add_case(report, kinds[0], 512, 4096, DType::f32);
  for (const DType dtype : {DType::f16, DType::f32}) add_case(report, kinds[0], 1, 32768, dtype);
  add_case(report, kinds[4], 1, 32768, DType::f16);
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  return folio::bench::run_benches(argc, argv, folio::bench::add_cases);
}
