// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/prefill_case.cpp: from a case to a grid of emulated blocks.
#include "cuda/prefill_case.h"

#include <set>

#include "cuda/attend_run.h"

namespace folio::test {
namespace {

template <int HeadSize, DType Type, bool IsGeneral>
EmulatedInstance instance() {
  using Kernel = cuda::PrefillKernel<HeadSize, Type, IsGeneral>;
  return {Kernel::threads, Kernel::shared_bytes,
          [](emulator::EmulatedThread& t, const cuda::AttendCall& call) { Kernel::run(t, call); }};
}

/// Which keys of a sequence some query sees: of the whole, not of one task.
std::vector<bool> seen_keys(const AttentionProblem& problem, const Batch& batch, int32_t b) {
  std::vector<bool> seen(static_cast<size_t>(batch.context_lengths[b]), false);
  for (int64_t row = batch.query_offsets[b]; row < batch.query_offsets[b + 1]; ++row)
    for (size_t key = 0; key < seen.size(); ++key)
      if (!seen[key])
        seen[key] = reference::is_visible(problem, batch, b, row, static_cast<int64_t>(key));
  return seen;
}

/// Table entries of pages with a visible key, and no others.
void give_table(emulator::Grid& grid, const AttentionProblem& problem, const Batch& batch) {
  for (int32_t b = 0; b < batch.size; ++b) {
    const std::vector<bool> seen = seen_keys(problem, batch, b);
    std::set<int64_t> pages;
    for (size_t key = 0; key < seen.size(); ++key)
      if (seen[key]) pages.insert(static_cast<int64_t>(key) / problem.key.page_size);
    add_table(grid, batch, b, pages);
  }
}

}  // namespace

EmulatedInstance emulated_instance(std::string_view name) {
  if (name == "prefill_bf16_64") return instance<64, DType::bf16, false>();
  if (name == "prefill_bf16_128") return instance<128, DType::bf16, false>();
  if (name == "prefill_bf16_256") return instance<256, DType::bf16, false>();
  if (name == "prefill_bf16_64_general") return instance<64, DType::bf16, true>();
  if (name == "prefill_bf16_128_general") return instance<128, DType::bf16, true>();
  if (name == "prefill_bf16_256_general") return instance<256, DType::bf16, true>();
  if (name == "prefill_f16_64") return instance<64, DType::f16, false>();
  if (name == "prefill_f16_128") return instance<128, DType::f16, false>();
  if (name == "prefill_f16_256") return instance<256, DType::f16, false>();
  if (name == "prefill_f16_64_general") return instance<64, DType::f16, true>();
  if (name == "prefill_f16_128_general") return instance<128, DType::f16, true>();
  if (name == "prefill_f16_256_general") return instance<256, DType::f16, true>();
  return {};
}

PrefillWork::PrefillWork(const AttentionProblem& problem, const Batch& batch, const PrefillRun& how)
    : geometry_(cuda::prefill_kernel.geometry(problem)) {
  plan_.batch = batch;
  const int32_t group = problem.q_heads / problem.key.num_heads;
  const int32_t rows_of_task = how.rows != 0 ? how.rows : geometry_.rows;
  for (int32_t b = batch.size - 1; b >= 0; --b) {
    const int32_t rows = (batch.query_offsets[b + 1] - batch.query_offsets[b]) * group;
    const int64_t spans =
        (batch.context_lengths[b] + int64_t{geometry_.span_keys} - 1) / geometry_.span_keys;
    for (int32_t head = 0; head < problem.key.num_heads; ++head)
      for (int32_t row = 0; row < rows; row += rows_of_task)
        add_rows(b, head, row, std::min(rows, row + rows_of_task), static_cast<int32_t>(spans),
                 how.tasks_of_row);
  }
  plan_.num_tasks[1] = static_cast<int32_t>(tasks_.size());
  const int64_t tasks = static_cast<int64_t>(tasks_.size());
  for (int32_t i = 0; i <= how.blocks; ++i)
    block_tasks_.push_back(static_cast<int32_t>(tasks * i / how.blocks));
  arrivals_.assign(splits_.size(), how.arrivals);
  const auto partials = static_cast<size_t>(plan_.num_partials[1]);
  partial_rows_.resize(partials * static_cast<size_t>(geometry_.rows));
  partials_.resize(partial_rows_.size() * static_cast<size_t>(problem.v_head_size));
}

void PrefillWork::add_rows(int32_t sequence, int32_t head, int32_t row_begin, int32_t row_end,
                           int32_t spans, int32_t tasks) {
  tasks = std::min(tasks, spans);
  if (tasks <= 1) {
    tasks_.push_back({sequence, head, row_begin, row_end, 0, spans, -1, 0});
    return;
  }
  const auto split = static_cast<int32_t>(splits_.size());
  splits_.push_back({tasks, plan_.num_partials[1], tasks, 0});
  for (int32_t i = 0; i < tasks; ++i)
    tasks_.push_back({sequence, head, row_begin, row_end, spans * i / tasks,
                      spans * (i + 1) / tasks, split, plan_.num_partials[1]++});
}

cuda::AttendCall PrefillWork::call(const AttentionProblem& problem, const AttentionArgs& args) {
  cuda::AttendCall call;
  call.problem = problem;
  call.args = args;
  call.plan = &plan_;
  call.list = {block_tasks_.data(), tasks_.data()};
  call.splits = splits_.data();
  call.arrivals = arrivals_.data();
  call.partial_rows = partial_rows_.data();
  call.partials = partials_.data();
  call.stores_spans = problem.reproducible != Reproducible::per_plan;
  return call;
}

void PrefillWork::give(emulator::Grid& grid) {
  const auto bytes = [](const auto& v) { return static_cast<int64_t>(v.size() * sizeof v[0]); };
  grid.add_input("plan", &plan_, sizeof plan_);
  grid.add_input("block_tasks", block_tasks_.data(), bytes(block_tasks_));
  grid.add_input("tasks", tasks_.data(), bytes(tasks_));
  if (splits_.empty()) return;
  grid.add_input("splits", splits_.data(), bytes(splits_));
  grid.add_buffer("arrivals", arrivals_.data(), bytes(arrivals_), true);
  grid.add_buffer("partial rows", partial_rows_.data(), bytes(partial_rows_));
  grid.add_buffer("partials", partials_.data(), bytes(partials_));
}

PrefillResult run_call(AttentionCase& c, const Batch& batch, const cuda::AttendCall& call,
                       const PrefillRun& how, const std::function<void(emulator::Grid&)>& give) {
  const EmulatedInstance instance = emulated_instance(cuda::prefill_kernel.instance(call.problem));
  if (instance.threads == 0) return {"no such instance", {}};
  if (!how.keeps_output) c.poison_output();
  c.set_precision({c.options().key_dtype, DType::f32, DType::f32});
  emulator::Grid grid({.blocks = how.blocks,
                       .resident = how.resident,
                       .threads = instance.threads,
                       .shared_bytes = instance.shared_bytes,
                       .seed = how.seed});
  give(grid);
  give_table(grid, call.problem, batch);
  add_args(grid, call.problem, call.args);
  PrefillResult result;
  result.fault = grid.run([&](emulator::EmulatedThread& t) { instance.run(t, call); });
  result.counts = grid.counts();
  return result;
}

PrefillResult run_prefill(AttentionCase& c, const Batch& batch, const AttentionArgs& args,
                          const PrefillRun& how) {
  const Result<AttentionProblem> problem = resolve(c.problem());
  if (!problem) return {std::string(problem.error().message()), {}};
  if (const char* why = unsupported(cuda::supports_prefill, *problem); why != nullptr)
    return {why, {}};
  if (const char* why = cuda::refuse_prefill(*problem); why != nullptr) return {why, {}};
  PrefillWork work(*problem, batch, how);
  PrefillResult result = run_call(c, batch, work.call(*problem, args), how,
                                  [&](emulator::Grid& grid) { work.give(grid); });
  if (result.fault.empty() && !work.is_ready_again()) result.fault = "counters are not ready again";
  return result;
}

PrefillResult run_prefill(AttentionCase& c, const PrefillRun& how) {
  return run_prefill(c, c.batch(), c.args(), how);
}

}  // namespace folio::test
