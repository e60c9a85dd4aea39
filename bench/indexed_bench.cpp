// SPDX-License-Identifier: Apache-2.0
/// bench/indexed_bench.cpp: decode over 131,072 tokens of DeepSeek V3.2's shape: 128 heads over a
/// latent cache of 576 (values 512), bf16, pages of 64, by the 2,048 keys that an indexer of 64
/// heads of 128 chooses; own dense attention beside it.
///
///     indexed_bench [--benchmark_filter=REGEX] [--kernel=NAME] [--json=FILE] [--commit=ID]
///
/// dense/     attend over everything
/// select/    select_keys
/// sparse/    attend_selected: both
///
/// Each case is timed alone; ratios hold sparse/ against dense/ of the same run and threads.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "folio/cache/planes.h"
#include "folio/core/buffer.h"
#include "folio/core/convert.h"
#include "folio/core/element.h"
#include "folio/sparse/attend_selected.h"
#include "report.h"
#include "roofs.h"
#include "timed_runs.h"

namespace folio::bench {
namespace {

constexpr int32_t q_heads = 128, head_size = 576, v_head_size = 512, page_size = 64;
constexpr int32_t index_heads = 64, index_size = 128, context = 131072, list_keys = 2048;
constexpr int64_t pages = context / page_size;

constexpr KVShape shape_of(int32_t elements) {
  return {.num_layers = 1,
          .num_heads = 1,
          .head_size = elements,
          .page_size = page_size,
          .dtype = DType::bf16,
          .is_mla = true};
}

/// Rows of a plane, in memory that no cache has.
struct Plane {
  Plane(int32_t elements, std::mt19937& random)
      : memory(pages * page_bytes(shape_of(elements)).value()),
        view(make_planes(shape_of(elements), pages, {memory.data(), memory.bytes()})
                 .value()
                 .front()
                 .key) {
    std::normal_distribution<float> normal;
    std::vector<bf16> some(1 << 20);
    for (bf16& x : some) x = from_float<bf16>(normal(random));
    for (int64_t at = 0; at < memory.bytes(); at += 1 << 20)
      std::memcpy(memory.data() + at, some.data() + at / (1 << 20) % 512,
                  static_cast<size_t>(std::min<int64_t>(1 << 20, memory.bytes() - at)));
  }
  HugeMemory memory;
  PagedKVView view;
};

/// One sequence whose pages lie in no order, and one token that asks.
class Workload {
 public:
  Workload(bool is_sparse, const std::string& kernel, int threads)
      : latents_(head_size, random_),
        keys_(index_size, random_),
        entries_(static_cast<size_t>(pages)),
        q_(normal(q_heads * head_size)),
        index_q_(normal(index_heads * index_size)),
        weights_(normal(index_heads)),
        out_(q_heads * v_head_size),
        lists_(list_keys),
        executor_(default_executor(threads)) {
    std::iota(entries_.begin(), entries_.end(), 0u);
    std::shuffle(entries_.begin(), entries_.end(), random_);
    batch_ = {1, offsets_, lengths_, {entries_.data(), pages, nullptr}};
    if (is_sparse) {
      batch_.selected = lists_.data();
      batch_.selected_stride = list_keys;
    }
    const AttentionProblem problem{.key = latents_.view,
                                   .q_heads = q_heads,
                                   .v_head_size = v_head_size,
                                   .value_in_key = true,
                                   .selection = is_sparse};
    attention_ =
        Attention::create(problem, {.context = context, .parallelism = threads}, {}, kernel)
            .value();
    index_ = Index::create({.key = keys_.view, .q_heads = index_heads, .weight_dtype = DType::bf16},
                           {.context = context, .parallelism = threads})
                 .value();
    plan_memory_ = Buffer::allocate(attention_.plan_bytes()).value();
    workspace_ = Buffer::allocate(attention_.workspace_bytes()).value();
    index_workspace_ = Buffer::allocate(index_.workspace_bytes()).value();
    plan_ = plan(attention_, batch_, plan_memory_.span()).value();
    args_.q =
        dense_tensor<3>(static_cast<const void*>(q_.data()), DType::bf16, {1, q_heads, head_size});
    args_.out = dense_tensor<3>(out_.data(), DType::bf16, {1, q_heads, v_head_size});
    args_.key = latents_.view;
    select_.score.q = dense_tensor<3>(static_cast<const void*>(index_q_.data()), DType::bf16,
                                      {1, index_heads, index_size});
    select_.score.weights =
        dense_tensor<2>(static_cast<const void*>(weights_.data()), DType::bf16, {1, index_heads});
    select_.score.key = keys_.view;
    select_.k = list_keys;
    select_.lists = lists_.data();
    select_.stride = list_keys;
    select();
  }

  void select() {
    select_keys(index_, batch_, select_, index_workspace_.span(), executor_).or_throw();
  }
  void attend_all() { attend(attention_, plan_, args_, workspace_.span(), executor_).or_throw(); }
  void attend_chosen() {
    attend_selected({index_, batch_, select_, index_workspace_.span()}, attention_, plan_, args_,
                    workspace_.span(), executor_)
        .or_throw();
  }
  [[nodiscard]] std::string kernel() const { return std::string(attention_.kernel()); }

 private:
  std::vector<bf16> normal(size_t count) {
    std::normal_distribution<float> numbers;
    std::vector<bf16> row(count);
    for (bf16& x : row) x = from_float<bf16>(numbers(random_));
    return row;
  }

  std::mt19937 random_{7};
  Plane latents_, keys_;
  std::vector<uint32_t> entries_;
  std::vector<bf16> q_, index_q_, weights_, out_;
  std::vector<int32_t> lists_;
  int32_t offsets_[2] = {0, 1};
  int32_t lengths_[1] = {context};
  Batch batch_ = {};
  Attention attention_;
  Index index_;
  Buffer plan_memory_, workspace_, index_workspace_;
  AttentionPlan plan_ = {};
  AttentionArgs args_ = {};
  SelectArgs select_ = {};
  Executor executor_;
};

enum class Work : uint8_t { dense, select, sparse };
constexpr const char* names[] = {"dense", "select", "sparse"};

std::string shape_name(Work work) {
  return std::string("indexed/") + names[static_cast<int>(work)] + "/131072";
}

double flops_of(Work work) {
  const double attended = 2.0 * q_heads * (head_size + v_head_size);
  const double scored = 2.0 * index_heads * index_size * context;
  if (work == Work::dense) return attended * context;
  return scored + (work == Work::sparse ? attended * list_keys : 0.0);
}

void run_case(benchmark::State& state, Report* report, Work work, int threads) {
  Workload workload(work != Work::dense, report->options().kernel, threads);
  const auto run = [&] {
    if (work == Work::dense) workload.attend_all();
    if (work == Work::select) workload.select();
    if (work == Work::sparse) workload.attend_chosen();
  };
  run();
  const double seconds = median_of(state, run);
  report->set(Row{workload.kernel(), shape_name(work), threads, seconds, 0.0, flops_of(work), {}});
  const Row* const dense = report->find(shape_name(Work::dense), threads);
  if (work != Work::sparse || dense == nullptr) return;
  report->set(Ratio{shape_name(work) + "/threads:" + std::to_string(threads) + " against dense",
                    dense->seconds / seconds});
  state.counters["dense/sparse"] = dense->seconds / seconds;
}

void add_cases(Report& report) {
  for (const int threads : {1, 2}) {
    if (threads > static_cast<int>(std::thread::hardware_concurrency())) continue;
    for (const Work work : {Work::dense, Work::select, Work::sparse})
      benchmark::RegisterBenchmark(
          (shape_name(work) + "/threads:" + std::to_string(threads)).c_str(),
          [=, &report](benchmark::State& state) { run_case(state, &report, work, threads); })
          ->Unit(benchmark::kMillisecond)
          ->Iterations(work == Work::dense ? 5 : 20)
          ->UseManualTime();
  }
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  return folio::bench::run_benches(argc, argv, folio::bench::add_cases);
}
