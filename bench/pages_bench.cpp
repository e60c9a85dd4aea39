// SPDX-License-Identifier: Apache-2.0
/// bench/pages_bench.cpp: decode over 131,072 tokens by the best pages: 32 q heads over 8 KV heads
/// of 128, bf16, 2,048 keys of pages of 64 or of 16; own dense attention beside it.
///
///     pages_bench [--benchmark_filter=REGEX] [--kernel=NAME] [--json=FILE] [--commit=ID]
///
/// dense/     attend over everything
/// select/    select_pages by bf16 bounds, lists for all heads
/// sparse/    select_pages, then attend over the lists
/// append/    K and V of 4,096 tokens, and of one in each of 64 sequences: with and without bounds
///
/// Each case is timed alone; ratios hold sparse/ against dense/ of the same run and threads.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "folio/attention/append.h"
#include "folio/attention/attend.h"
#include "folio/core/buffer.h"
#include "folio/core/convert.h"
#include "folio/core/element.h"
#include "folio/sparse/pages.h"
#include "report.h"
#include "roofs.h"
#include "timed_runs.h"

namespace folio::bench {
namespace {

constexpr int32_t q_heads = 32, heads = 8, head_size = 128, context = 131072, keys = 2048;

/// One sequence whose pages lie in no order, and one token that asks.
class Workload {
 public:
  Workload(int32_t page_size, bool is_sparse, const std::string& kernel, int threads)
      : k_pages(keys / page_size),
        page_size_(page_size),
        pages_(context / page_size),
        memory_(2 * int64_t{context} * heads * head_size * 2),
        summary_memory_(2 * pages_ * heads * head_size * 2),
        entries_(static_cast<size_t>(pages_)),
        q_(q_heads * head_size),
        out_(q_.size()),
        lists_(keys),
        executor_(default_executor(threads)) {
    key_ = plane(memory_.data(), page_size);
    value_ = plane(memory_.data() + memory_.bytes() / 2, page_size);
    summaries_ = {SummaryKind::bounds, plane(summary_memory_.data(), 2)};
    fill();
    batch_ = {1, offsets_, lengths_, {entries_.data(), pages_, nullptr}};
    if (is_sparse) {
      batch_.selected = lists_.data();
      batch_.selected_stride = keys;
    }
    AttentionProblem problem;
    problem.key = key_;
    problem.value = value_;
    problem.q_heads = q_heads;
    problem.selection = is_sparse;
    problem.reproducible = Reproducible::per_sequence;
    attention_ =
        Attention::create(problem, {.context = context, .parallelism = threads}, {}, kernel)
            .value();
    plan_memory_ = Buffer::allocate(attention_.plan_bytes()).value();
    workspace_ = Buffer::allocate(attention_.workspace_bytes()).value();
    plan_ = plan(attention_, batch_, plan_memory_.span()).value();
    select_memory_ = Buffer::allocate(select_pages_bytes(page_args(), context, threads)).value();
  }

  void select() { select_pages(batch_, page_args(), select_memory_.span(), executor_).or_throw(); }
  void attend_all() {
    AttentionArgs args;
    args.q = page_args().q;
    args.out = dense_tensor<3>(out_.data(), DType::bf16, {1, q_heads, head_size});
    args.key = key_;
    args.value = value_;
    attend(attention_, plan_, args, workspace_.span(), executor_).or_throw();
  }
  [[nodiscard]] std::string kernel() const { return std::string(attention_.kernel()); }
  [[nodiscard]] double summary_bytes() const {
    return static_cast<double>(summary_memory_.bytes());
  }

  int32_t k_pages;

 private:
  [[nodiscard]] PagedKVView plane(std::byte* data, int32_t slots) const {
    PagedKVView view;
    view.data = data;
    view.dtype = DType::bf16;
    view.num_heads = heads;
    view.head_size = head_size;
    view.page_size = slots;
    view.num_pages = pages_;
    view.head_stride_bytes = head_size * 2;
    view.slot_stride_bytes = heads * view.head_stride_bytes;
    view.page_stride_bytes = slots * view.slot_stride_bytes;
    return view;
  }
  [[nodiscard]] PageArgs page_args() {
    PageArgs args;
    args.q =
        dense_tensor<3>(static_cast<const void*>(q_.data()), DType::bf16, {1, q_heads, head_size});
    args.summaries = summaries_;
    args.page_size = page_size_;
    args.k_pages = k_pages;
    args.selected = lists_.data();
    args.stride = keys;
    return args;
  }
  void fill() {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    std::vector<bf16> some(1 << 20);
    for (bf16& x : some) x = from_float<bf16>(normal(random));
    const auto bytes = static_cast<int64_t>(some.size() * sizeof(bf16));
    for (int64_t at = 0; at < memory_.bytes(); at += bytes)
      std::memcpy(memory_.data() + at, some.data() + at / bytes % 64,
                  static_cast<size_t>(std::min(bytes - 128, memory_.bytes() - at)));
    for (bf16& x : q_) x = from_float<bf16>(normal(random));
    std::iota(entries_.begin(), entries_.end(), 0u);
    std::shuffle(entries_.begin(), entries_.end(), random);
    std::vector<FilledPage> all;
    all.reserve(entries_.size());
    for (const uint32_t page : entries_) all.push_back({page, page_size_});
    summarise(key_, summaries_, all, executor_).or_throw();
  }

  int32_t page_size_;
  int64_t pages_;
  HugeMemory memory_, summary_memory_;
  Buffer plan_memory_, workspace_, select_memory_;
  std::vector<uint32_t> entries_;
  std::vector<bf16> q_, out_;
  std::vector<int32_t> lists_;
  int32_t offsets_[2] = {0, 1};
  int32_t lengths_[1] = {context};
  PagedKVView key_ = {}, value_ = {};
  PageSummaries summaries_ = {};
  Batch batch_ = {};
  Attention attention_;
  AttentionPlan plan_ = {};
  Executor executor_;
};

enum class Work : uint8_t { dense, select, sparse };
constexpr const char* names[] = {"dense", "select", "sparse"};

void run_case(benchmark::State& state, Report* report, const std::string& shape, int32_t page_size,
              Work work, int threads) {
  Workload workload(page_size, work != Work::dense, report->options().kernel, threads);
  workload.select();
  workload.attend_all();
  const double seconds = median_of(state, [&] {
    if (work != Work::dense) workload.select();
    if (work != Work::select) workload.attend_all();
  });
  const double row_bytes = 2.0 * heads * head_size * 2.0;  // K and V
  double bytes = work == Work::dense ? 0.0 : workload.summary_bytes();
  if (work != Work::select) bytes += row_bytes * (work == Work::dense ? context : keys);
  report->set(Row{workload.kernel(), shape, threads, seconds, bytes, 0.0, {}});
  state.counters["GB/s"] = bytes / seconds / 1e9;
  const Row* const dense =
      report->find("pages/dense/131072/page" + std::to_string(page_size), threads);
  if (work != Work::sparse || dense == nullptr) return;
  report->set(Ratio{shape + "/threads:" + std::to_string(threads) + " against dense",
                    dense->seconds / seconds});
  state.counters["dense/sparse"] = dense->seconds / seconds;
}

/// `tokens` in one sequence, or one in each of 64: K and V of bf16.
void run_append(benchmark::State& state, Report* report, const std::string& shape, bool decodes,
                bool summarises) {
  constexpr int32_t page_size = 64;
  const int32_t tokens = decodes ? 64 : 4096, sequences = decodes ? tokens : 1;
  const int64_t pages = 4 * 64;
  const int64_t plane_bytes = pages * page_size * heads * head_size * 2;
  const HugeMemory memory(2 * plane_bytes), rows(pages * 2 * heads * head_size * 2);
  PagedKVView key{.data = memory.data(),
                  .dtype = DType::bf16,
                  .num_heads = heads,
                  .head_size = head_size,
                  .page_size = page_size,
                  .num_pages = pages};
  key.head_stride_bytes = head_size * 2;
  key.slot_stride_bytes = heads * key.head_stride_bytes;
  key.page_stride_bytes = page_size * key.slot_stride_bytes;
  PagedKVView value = key;
  value.data = memory.data() + plane_bytes;
  PageSummaries summaries{SummaryKind::bounds, key};
  summaries.rows.data = rows.data();
  summaries.rows.page_size = 2;
  summaries.rows.page_stride_bytes = 2 * key.slot_stride_bytes;
  std::vector<bf16> source(static_cast<size_t>(tokens) * heads * head_size,
                           from_float<bf16>(0.75f));
  std::vector<int32_t> offsets, lengths;
  std::vector<uint32_t> entries;
  for (int32_t b = 0; b <= sequences; ++b) offsets.push_back(b * (tokens / sequences));
  for (int32_t b = 0; b < sequences; ++b) lengths.push_back(decodes ? 30 : tokens);
  for (uint32_t p = 0; p < pages; ++p) entries.push_back(p * 37 % 256);
  const Batch batch{
      sequences, offsets.data(), lengths.data(), {entries.data(), decodes ? 1 : pages, nullptr}};
  AppendArgs args;
  args.k = args.v = dense_tensor<3>(static_cast<const void*>(source.data()), DType::bf16,
                                    {tokens, heads, head_size});
  args.key = key;
  args.value = value;
  if (summarises) args.summaries = &summaries;
  const Executor executor = default_executor(1);
  const auto run = [&] { append(batch, args, executor).or_throw(); };
  run();
  const double seconds = median_of(state, run);
  report->set(Row{"append", shape, 1, seconds, 4.0 * tokens * heads * head_size * 2, 0.0, {}});
}

void add(const std::string& name, int iterations, std::function<void(benchmark::State&)> run) {
  benchmark::RegisterBenchmark(name.c_str(), std::move(run))
      ->Unit(benchmark::kMicrosecond)
      ->Iterations(iterations)
      ->UseManualTime();
}

void add_cases(Report& report) {
  for (const int32_t page_size : {64, 16}) {
    for (const int threads : {1, 2}) {
      if (threads > static_cast<int>(std::thread::hardware_concurrency())) continue;
      for (const Work work : {Work::dense, Work::select, Work::sparse}) {
        const std::string shape = std::string("pages/") + names[static_cast<int>(work)] +
                                  "/131072/page" + std::to_string(page_size);
        add(shape + "/threads:" + std::to_string(threads), work == Work::dense ? 15 : 60,
            [=, &report](benchmark::State& state) {
              run_case(state, &report, shape, page_size, work, threads);
            });
      }
    }
  }
  for (const bool decodes : {false, true}) {
    for (const bool summarises : {false, true}) {
      const std::string shape = std::string("pages/append/") +
                                (decodes ? "64_sequences" : "4096_tokens") +
                                (summarises ? "/bounds" : "/none");
      add(shape, 100, [=, &report](benchmark::State& state) {
        run_append(state, &report, shape, decodes, summarises);
      });
    }
  }
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  return folio::bench::run_benches(argc, argv, folio::bench::add_cases);
}
