// SPDX-License-Identifier: Apache-2.0
/// bench/index_bench.cpp: scores of an indexer and lists of its best keys against the roofs of this
/// machine: DeepSeek V3.2's 64 heads of 128, 2,048 keys of a query.
///
///     index_bench [--benchmark_filter=REGEX] [--kernel=NAME] [--json=FILE] [--commit=ID]
///
/// scores/   score_index: P, the products of all heads with all visible keys
/// top/      select_top of scores in memory: R, each score read once
/// select/   select_keys, all in one pass: P
///
/// The roof is timed before and after each case, which is held against the median of both; a case
/// of two cores against what one core can do, too. Before it is timed, lists are compared with
/// those of scores that were written out.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "folio/core/convert.h"
#include "folio/core/element.h"
#include "folio/sparse/index.h"
#include "folio/sparse/select.h"
#include "report.h"
#include "roofs.h"
#include "timed_runs.h"

namespace folio::bench {
namespace {

constexpr int32_t heads = 64, head_size = 128, page_size = 64, list_keys = 2048;

struct Shape {
  const char* name;
  int32_t queries;
  int32_t keys;
};
constexpr Shape shapes[] = {{"1x131072", 1, 131072}, {"512x32768", 512, 32768}};

/// One sequence whose pages lie in no order, its last `queries` tokens asking.
class Workload {
 public:
  Workload(const Shape& shape, DType dtype, const std::string& kernel, int threads)
      : shape_(shape),
        keys_(int64_t{shape.keys} * key_bytes(dtype)),
        q_(static_cast<size_t>(shape.queries) * heads * head_size),
        weights_(static_cast<size_t>(shape.queries) * heads),
        entries_(static_cast<size_t>(shape.keys / page_size)),
        lists(static_cast<size_t>(shape.queries) * list_keys),
        executor_(default_executor(threads)) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (bf16& x : q_) x = from_float<bf16>(normal(random));
    for (float& x : weights_) x = normal(random);
    std::iota(entries_.begin(), entries_.end(), 0u);
    std::shuffle(entries_.begin(), entries_.end(), random);
    offsets_[1] = shape.queries;
    lengths_[0] = shape.keys;
    make_keys(dtype, random);

    batch.size = 1;
    batch.query_offsets = offsets_;
    batch.context_lengths = lengths_;
    batch.table.entries = entries_.data();
    IndexProblem problem;
    problem.key = args.key;
    problem.q_heads = heads;
    IndexLimits limits;
    limits.tokens = shape.queries;
    limits.context = shape.keys;
    limits.top = list_keys;
    limits.parallelism = threads;
    index = Index::create(problem, limits, {}, kernel).value();
    workspace_.resize(static_cast<size_t>(index.workspace_bytes() + 64));
    args.q = dense_tensor<3>(static_cast<const void*>(q_.data()), DType::bf16,
                             {shape.queries, heads, head_size});
    args.weights = dense_tensor<2>(static_cast<const void*>(weights_.data()), DType::f32,
                                   {shape.queries, heads});
  }

  static int64_t key_bytes(DType dtype) {
    return head_size * bit_width(dtype) / 8 + (dtype == DType::f8_e4m3 ? 4 : 0);
  }
  [[nodiscard]] MemorySpan workspace() {
    const auto at = reinterpret_cast<uintptr_t>(workspace_.data());
    const uintptr_t shift = (64 - at % 64) % 64;
    return {workspace_.data() + shift, index.workspace_bytes()};
  }
  /// Products of visible keys, causal.
  [[nodiscard]] double flops() const {
    const double hidden = 0.5 * shape_.queries * (shape_.queries - 1);
    return 2.0 * heads * head_size * (1.0 * shape_.queries * shape_.keys - hidden);
  }
  void score(std::vector<float>& scores) {
    scores.resize(static_cast<size_t>(shape_.queries) * static_cast<size_t>(shape_.keys));
    score_index(index, batch, args, 0,
                dense_tensor<2>(scores.data(), DType::f32, {shape_.queries, shape_.keys}),
                workspace(), executor_)
        .or_throw();
  }
  void select(ListEntries entries) {
    SelectArgs select;
    select.score = args;
    select.k = list_keys;
    select.lists = lists.data();
    select.stride = list_keys;
    select.entries = entries;
    select_keys(index, batch, select, workspace(), executor_).or_throw();
  }
  /// Of scores written before.
  void take(const std::vector<float>& scores, MemorySpan memory, std::vector<int32_t>& to) const {
    TopArgs take;
    take.scores = dense_tensor<2>(static_cast<const void*>(scores.data()), DType::f32,
                                  {shape_.queries, shape_.keys});
    take.k = list_keys;
    take.indices = to.data();
    take.stride = list_keys;
    select_top(take, memory, executor_).or_throw();
  }

  Batch batch = {};
  ScoreArgs args = {};
  Index index;

 private:
  /// f8_e4m3: a page's values, then its scales.
  void make_keys(DType dtype, std::mt19937& random) {
    std::normal_distribution<float> normal;
    PagedKVView& key = args.key;
    key.data = keys_.data();
    key.dtype = dtype;
    key.num_heads = 1;
    key.head_size = head_size;
    key.page_size = page_size;
    key.num_pages = shape_.keys / page_size;
    key.slot_stride_bytes = key.head_stride_bytes = head_size * bit_width(dtype) / 8;
    key.page_stride_bytes = page_size * key_bytes(dtype);
    if (dtype == DType::f8_e4m3) {
      key.scales.data = keys_.data() + page_size * key.slot_stride_bytes;
      key.scales.dtype = DType::f32;
      key.scales.granularity = head_size;
      key.scales.page_stride_bytes = key.page_stride_bytes;
      key.scales.slot_stride_bytes = key.scales.head_stride_bytes = 4;
      key.scales.granule_stride_bytes = 4;
    }
    for (int64_t j = 0; j < shape_.keys; ++j) {
      std::byte* const page = keys_.data() + j / page_size * key.page_stride_bytes;
      std::byte* const row = page + j % page_size * key.slot_stride_bytes;
      for (int64_t d = 0; d < head_size; ++d) {
        if (dtype == DType::bf16) {
          const bf16 x = from_float<bf16>(normal(random));
          std::memcpy(row + d * 2, &x, 2);
        } else {
          const f8_e4m3 x = from_float<f8_e4m3>(100.0f * normal(random));
          std::memcpy(row + d, &x, 1);
        }
      }
      const float scale = 0.01f;
      if (dtype == DType::f8_e4m3)
        std::memcpy(page + page_size * head_size + j % page_size * 4, &scale, 4);
    }
  }

  Shape shape_;
  HugeMemory keys_;
  std::vector<bf16> q_;
  std::vector<float> weights_;
  std::vector<uint32_t> entries_;
  std::vector<std::byte> workspace_;
  int32_t offsets_[2] = {0, 0};
  int32_t lengths_[1] = {0};

 public:
  std::vector<int32_t> lists;

 private:
  Executor executor_;
};

enum class Work : uint8_t { scores, top, select };
constexpr const char* names[] = {"scores", "top", "select"};

/// The higher of the medians on one core and on more, over samples before and after.
class RoofBeside {
 public:
  RoofBeside(Work work, int threads, const std::vector<float>& scores)
      : is_read_(work == Work::top), samples_(static_cast<size_t>(threads)) {
    if (!is_read_) return;
    runs_.bytes = 16384;
    const auto* const at = reinterpret_cast<const std::byte*>(scores.data());
    for (size_t i = 0; i + 16384 <= scores.size() * 4; i += 16384) runs_.at.push_back(at + i);
  }
  void sample() {
    for (size_t t = 0; t < samples_.size(); ++t) {
      const int threads = static_cast<int>(t) + 1;
      if (is_read_ && choices_.size() <= t) choices_.push_back(best_pattern(runs_, threads));
      const std::vector<double> more = is_read_
                                           ? read_rates(runs_, choices_[t], threads, 5)
                                           : arithmetic_rates(fastest_unit(threads), threads, 0.3);
      samples_[t].insert(samples_[t].end(), more.begin(), more.end());
    }
  }
  [[nodiscard]] Roof roof() const {
    Roof best{is_read_ ? "R" : "P", 0.0, {}};
    for (size_t t = samples_.size(); t-- > 0;) {
      if (median(samples_[t]) <= best.per_second) continue;
      best.per_second = median(samples_[t]);
      best.how = is_read_ ? describe(choices_[t]) : name(fastest_unit(static_cast<int>(t) + 1));
    }
    return best;
  }

 private:
  bool is_read_;
  ReadRuns runs_;
  std::vector<ReadChoice> choices_;
  std::vector<std::vector<double>> samples_;
};

void run_case(benchmark::State& state, Report* report, const std::string& shape_name,
              const Shape& shape, DType dtype, Work work, int threads) {
  Workload workload(shape, dtype, report->options().kernel, threads);
  std::vector<float> scores;
  workload.score(scores);
  std::vector<int32_t> expected(workload.lists.size());
  std::vector<std::byte> bytes(static_cast<size_t>(select_top_bytes(list_keys, threads) + 64));
  const uintptr_t shift = (64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64) % 64;
  const MemorySpan memory{bytes.data() + shift, select_top_bytes(list_keys, threads)};
  workload.take(scores, memory, expected);
  workload.select(ListEntries::keys);
  if (workload.lists != expected) {
    state.SkipWithError("select_keys and select_top list unlike keys");
    return;
  }
  RoofBeside roof(work, threads, scores);
  roof.sample();
  const double seconds = median_of(state, [&] {
    if (work == Work::scores) workload.score(scores);
    if (work == Work::top) workload.take(scores, memory, expected);
    if (work == Work::select) workload.select(ListEntries::slots);
  });
  roof.sample();
  const bool is_read = work == Work::top;
  Row row{std::string(workload.index.kernel()),
          shape_name,
          threads,
          seconds,
          is_read
              ? static_cast<double>(scores.size()) * 4.0
              : static_cast<double>(shape.keys) * static_cast<double>(Workload::key_bytes(dtype)),
          is_read ? 0.0 : workload.flops(),
          roof.roof()};
  report->set(row);
  state.counters["GFLOP/s"] = row.flops / row.seconds / 1e9;
  state.counters["GB/s"] = row.bytes / row.seconds / 1e9;
  state.counters["%roof"] = row.percent_of_roof();
}

void add_cases(Report& report) {
  for (const Shape& shape : shapes) {
    for (const DType dtype : {DType::bf16, DType::f8_e4m3}) {
      for (const Work work : {Work::scores, Work::top, Work::select}) {
        if (work == Work::top && dtype != DType::bf16) continue;  // the same scores
        for (const int threads : {1, 2}) {
          if (threads > static_cast<int>(std::thread::hardware_concurrency())) continue;
          const std::string name = std::string("index/") + names[static_cast<int>(work)] + "/" +
                                   shape.name +
                                   (work == Work::top ? "" : std::string("/") + folio::name(dtype));
          benchmark::RegisterBenchmark((name + "/threads:" + std::to_string(threads)).c_str(),
                                       [=, &report](benchmark::State& state) {
                                         run_case(state, &report, name, shape, dtype, work,
                                                  threads);
                                       })
              ->Unit(benchmark::kMillisecond)
              ->Iterations(shape.queries > 1 && work != Work::top ? 3 : 20)
              ->UseManualTime();
        }
      }
    }
  }
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  return folio::bench::run_benches(argc, argv, folio::bench::add_cases);
}
