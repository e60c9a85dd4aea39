// SPDX-License-Identifier: Apache-2.0
/// bench/plan_bench.cpp: how long a step's plan takes where sequences are many and rows long.
///
///     plan_bench [--benchmark_filter=REGEX] [--kernel=NAME] [--json=FILE] [--commit=ID]
///
/// plan/256_of_8k/PAGE/TABLE: decode of 256 sequences of 8,192 keys, 32 query heads over 8, bf16,
/// D = 128, pages of 1, 16 or 64 tokens; TABLE: `unshared`; `shared`, all pages of all rows;
/// `branches`, half of the pages of all rows and another quarter of those of each eight. Tables are
/// not in caches when plan begins. A row is the median call.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "folio/attention/plan.h"
#include "folio/cache/planes.h"
#include "folio/core/buffer.h"
#include "report.h"
#include "roofs.h"
#include "timed_runs.h"

namespace folio::bench {
namespace {

constexpr int32_t sequences = 256, context = 8192;

enum class Table : uint8_t { unshared, shared, branches };
constexpr const char* table_names[] = {"unshared", "shared", "branches"};

/// Who stands for row `b` at page `p` of `pages`: rows with one name share it.
uint32_t owner(Table table, uint32_t b, uint32_t p, uint32_t pages) {
  if (table == Table::unshared) return b;
  if (table == Table::shared || p < pages / 2) return 0;
  return p < pages * 3 / 4 ? b / 8 * 8 : b;
}

/// A batch, and an Attention whose planes have no memory: plan looks at none.
class Planner {
 public:
  Planner(int32_t page_size, Table table, const std::string& kernel) {
    const auto pages = static_cast<uint32_t>(context / page_size);
    const KVShape shape{.num_layers = 1,
                        .num_heads = 8,
                        .head_size = 128,
                        .page_size = page_size,
                        .dtype = DType::bf16};
    const KVPlanes planes = make_planes(shape, 0, {}).value().front();
    AttentionProblem problem;
    problem.key = planes.key;
    problem.value = planes.value;
    problem.q_heads = 32;
    const AttentionLimits limits{
        .batch = sequences, .tokens = sequences, .context = context, .parallelism = 2};
    attention_ = Attention::create(problem, limits, {}, kernel).value();
    memory_ = Buffer::allocate(attention_.plan_bytes()).value();
    for (uint32_t b = 0; b < sequences; ++b) {
      offsets_.push_back(static_cast<int32_t>(b));
      for (uint32_t p = 0; p < pages; ++p)
        entries_.push_back(owner(table, b, p, pages) * pages + p);
    }
    offsets_.push_back(sequences);
    lengths_.assign(sequences, context);
    batch_.size = sequences;
    batch_.query_offsets = offsets_.data();
    batch_.context_lengths = lengths_.data();
    batch_.table = {entries_.data(), pages, nullptr};
  }

  void plan() { benchmark::DoNotOptimize(folio::plan(attention_, batch_, memory_.span()).value()); }
  [[nodiscard]] std::string kernel() const { return std::string(attention_.kernel()); }
  [[nodiscard]] double table_bytes() const {
    return static_cast<double>(entries_.size() * sizeof(uint32_t));
  }

 private:
  std::vector<uint32_t> entries_;
  std::vector<int32_t> offsets_, lengths_;
  Batch batch_;
  Attention attention_;
  Buffer memory_;
};

void run_case(benchmark::State& state, Report* report, const std::string& shape, int32_t page_size,
              Table table) {
  Planner planner(page_size, table, report->options().kernel);
  std::vector<unsigned char> others(static_cast<size_t>(2 * cache_bytes()));
  const double seconds = median_of(
      state, [&] { planner.plan(); },
      [&] {
        for (size_t i = 0; i < others.size(); i += 64) ++others[i];
      });
  report->set(Row{planner.kernel(), shape, 1, seconds, planner.table_bytes(), 0.0, {}});
  state.counters["median_us"] = seconds * 1e6;
}

void add_cases(Report& report) {
  for (const int32_t page_size : {1, 16, 64}) {
    for (const Table table : {Table::unshared, Table::shared, Table::branches}) {
      const std::string shape = "plan/256_of_8k/page" + std::to_string(page_size) + "/" +
                                table_names[static_cast<size_t>(table)];
      benchmark::RegisterBenchmark(shape.c_str(),
                                   [&report, shape, page_size, table](benchmark::State& state) {
                                     run_case(state, &report, shape, page_size, table);
                                   })
          ->Iterations(40)
          ->UseManualTime();
    }
  }
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  return folio::bench::run_benches(argc, argv, folio::bench::add_cases);
}
