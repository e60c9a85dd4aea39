// SPDX-License-Identifier: Apache-2.0
/// bench/small_bench.cpp: what is left of a call when there is hardly any work, by parts.
///
///     small_bench [--benchmark_filter=REGEX] [--kernel=NAME] [--json=FILE] [--commit=ID]
///
/// small/KEYS/PART: one sequence of 32 query heads over 8 of keys, bf16, D = 128, KEYS keys in
/// caches; "empty": a step without sequences. PART: `plan`; `prepare`, which checks and resets the
/// workspace; `attend` on one thread, on the default executor's and on the pool's; `step`, plan and
/// attend together. A row is the median call.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "folio/attention/attend.h"
#include "folio/cache/planes.h"
#include "folio/core/buffer.h"
#include "folio/core/element.h"
#include "report.h"
#include "timed_runs.h"

namespace folio::bench {
namespace {

constexpr int32_t heads = 8, q_heads = 32, head_size = 128, page_size = 64;
constexpr int32_t longest = 8192;

const char* name(StorageOrder order) {
  return order == StorageOrder::token_major ? "token_major" : "head_major";
}

/// One sequence of `keys` keys, or none; every element is 0: no kernel looks at what it multiplies.
class Step {
 public:
  Step(int32_t keys, StorageOrder order, int32_t parallelism, const std::string& kernel)
      : lengths_{keys},
        q_(size_t{q_heads} * head_size),
        out_(q_.size()),
        pages_(longest / page_size) {
    const auto num_pages = static_cast<int64_t>(pages_.size());
    const KVShape shape{.num_layers = 1,
                        .num_heads = heads,
                        .head_size = head_size,
                        .page_size = page_size,
                        .dtype = DType::bf16,
                        .order = order};
    for (size_t p = 0; p < pages_.size(); ++p) pages_[p] = static_cast<uint32_t>((p * 37) % 128);
    blocks_ = Buffer::allocate(num_pages * page_bytes(shape).value()).value();
    std::fill_n(static_cast<std::byte*>(blocks_.span().data), blocks_.span().bytes, std::byte{0});
    planes_ = make_planes(shape, num_pages, blocks_.span()).value().front();
    AttentionProblem problem;
    problem.key = planes_.key;
    problem.value = planes_.value;
    problem.q_heads = q_heads;
    problem.v_head_size = head_size;
    const AttentionLimits limits{
        .batch = 16, .tokens = 16, .context = longest, .parallelism = parallelism};
    attention_ = Attention::create(problem, limits, {}, kernel).value();
    plan_memory_ = Buffer::allocate(attention_.plan_bytes()).value();
    workspace_ = Buffer::allocate(attention_.workspace_bytes()).value();
    plan();
  }

  void plan() {
    Batch batch;
    batch.size = lengths_[0] > 0 ? 1 : 0;
    batch.query_offsets = offsets_;
    batch.context_lengths = lengths_;
    batch.table.entries = pages_.data();
    plan_ = folio::plan(attention_, batch, plan_memory_.span()).value();
  }
  void prepare() { folio::prepare(attention_, plan_, args(), workspace_.span()).or_throw(); }
  void attend(const Executor& executor) {
    folio::attend(attention_, plan_, args(), workspace_.span(), executor).or_throw();
  }
  [[nodiscard]] std::string kernel() const { return std::string(attention_.kernel()); }

 private:
  [[nodiscard]] AttentionArgs args() {
    const int64_t tokens = lengths_[0] > 0 ? 1 : 0;
    return {.q = dense_tensor<3>(q_.data(), DType::bf16, {tokens, q_heads, head_size}),
            .out = dense_tensor<3>(out_.data(), DType::bf16, {tokens, q_heads, head_size}),
            .key = planes_.key,
            .value = planes_.value};
  }

  int32_t offsets_[2] = {0, 1};
  int32_t lengths_[1];
  std::vector<bf16> q_, out_;
  std::vector<uint32_t> pages_;
  Buffer blocks_, plan_memory_, workspace_;
  KVPlanes planes_;
  Attention attention_;
  AttentionPlan plan_;
};

struct Part {
  std::string name;
  int threads;
  void (*run)(Step& step);
};

const Part parts[] = {
    {"plan", 1, [](Step& step) { step.plan(); }},
    {"prepare", 1, [](Step& step) { step.prepare(); }},
    {"attend", 1, [](Step& step) { step.attend(serial_executor()); }},
    {"step", 1,
     [](Step& step) {
       step.plan();
       step.attend(serial_executor());
     }},
    {"attend/default", 2, [](Step& step) { step.attend(default_executor(2)); }},
    {"attend/thread_pool", 2, [](Step& step) { step.attend(thread_pool_executor(2)); }},
    {"step/thread_pool", 2,
     [](Step& step) {
       step.plan();
       step.attend(thread_pool_executor(2));
     }},
};

void run_part(benchmark::State& state, Report* report, const std::string& shape, int32_t keys,
              StorageOrder order, const Part& part) {
  Step step(keys, order, part.threads, report->options().kernel);
  for (int i = 0; i < 100; ++i) part.run(step);
  const double seconds = median_of(state, [&] { part.run(step); });
  const double bytes = 2.0 * keys * heads * head_size * 2;
  report->set(Row{step.kernel(), shape, part.threads, seconds, bytes, 0.0, {}});
  state.counters["median_us"] = seconds * 1e6;
}

void add_cases(Report& report) {
  for (const int32_t keys : {0, 32, 1024, longest}) {
    for (const StorageOrder order : {StorageOrder::token_major, StorageOrder::head_major}) {
      if (keys == 0 && order == StorageOrder::head_major) continue;
      for (const Part& part : parts) {
        const std::string shape =
            "small/" + (keys == 0 ? "empty" : std::to_string(keys) + "_keys/" + name(order)) + "/" +
            part.name;
        benchmark::RegisterBenchmark(shape.c_str(),
                                     [&report, shape, keys, order, part](benchmark::State& state) {
                                       run_part(state, &report, shape, keys, order, part);
                                     })
            ->Iterations(keys > 1024 ? 300 : 2000)
            ->UseManualTime();
      }
    }
  }
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  return folio::bench::run_benches(argc, argv, folio::bench::add_cases);
}
