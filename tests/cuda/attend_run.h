// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/attend_run.h: a kernel of attention, run in the emulator on a case: planned by the
/// plan kernel, given nothing but what it may touch. What kernels of all families have in common.
#pragma once

#include <algorithm>
#include <set>
#include <string>

#include "attention/check.h"
#include "cuda/plan_run.h"
#include "support/attention_case.h"

namespace folio::test {

/// Bytes from the first to the last element of a plane.
inline int64_t reach_of(const PagedKVView& view) {
  if (view.num_pages == 0) return 0;
  return (view.num_pages - 1) * view.page_stride_bytes +
         (view.page_size == unbounded_page_size ? 0
                                                : (view.page_size - 1) * view.slot_stride_bytes) +
         (view.num_heads - 1) * view.head_stride_bytes +
         int64_t{view.head_size} * bit_width(view.dtype) / 8;
}

/// Likewise of its scales.
inline int64_t reach_of_scales(const PagedKVView& view) {
  const ScaleView& s = view.scales;
  const int64_t granules = (view.head_size + s.granularity - 1) / s.granularity;
  return (view.num_pages - 1) * s.page_stride_bytes +
         (view.page_size == unbounded_page_size ? 0 : (view.page_size - 1) * s.slot_stride_bytes) +
         (view.num_heads - 1) * s.head_stride_bytes + (granules - 1) * s.granule_stride_bytes +
         bit_width(s.dtype) / 8;
}

template <int Rank>
int64_t reach_of(const ConstTensor<Rank>& tensor) {
  int64_t bytes = bit_width(tensor.dtype) / 8;
  for (int i = 0; i < Rank; ++i) {
    if (tensor.extent[i] == 0) return 0;
    bytes += (tensor.extent[i] - 1) * tensor.stride_bytes[i];
  }
  return bytes;
}

/// Gives table entries of sequence `b`: of these pages, and no others.
inline void add_table(emulator::Grid& grid, const Batch& batch, int32_t b,
                      const std::set<int64_t>& pages) {
  const uint32_t* const row = batch.table.entries + batch.table.row_start(b);
  for (auto first = pages.begin(); first != pages.end();) {
    auto last = first;
    int64_t count = 1;
    while (++last != pages.end() && *last == *first + count) ++count;
    grid.add_input("table", row + *first, count * 4);
    first = last;
  }
}

/// Gives all that a call points to, and its outputs.
inline void add_args(emulator::Grid& grid, const AttentionProblem& problem,
                     const AttentionArgs& args) {
  const int64_t per_head = problem.q_heads * int64_t{4}, tokens = args.q.extent[0];
  grid.add_input("q", args.q.data, reach_of(args.q));
  grid.add_input("K", args.key.data, reach_of(args.key));
  // the values of latent rows are a part of their keys
  if (args.value.data != args.key.data) grid.add_input("V", args.value.data, reach_of(args.value));
  for (const PagedKVView* view : {&args.key, &args.value}) {
    if (view->scales.data == nullptr) continue;
    grid.add_input("scales", view->scales.data, reach_of_scales(*view));
    if (view->scales.tensor_scale != nullptr)
      grid.add_input("tensor scale", view->scales.tensor_scale, 4);
  }
  if (args.bias.data != nullptr) grid.add_input("bias", args.bias.data, reach_of(args.bias));
  if (args.sink_logits != nullptr) grid.add_input("sink logits", args.sink_logits, per_head);
  if (args.alibi_slopes != nullptr) grid.add_input("slopes", args.alibi_slopes, per_head);
  grid.add_buffer("out", args.out.data, reach_of(ConstTensor<3>(args.out)));
  if (args.lse != nullptr) grid.add_buffer("lse", args.lse, tokens * per_head);
}

template <int Blocks, int Resident>
struct RunOptions {
  int blocks = Blocks;
  int resident = Resident;
  uint64_t seed = 1;
  uint32_t arrivals = cuda::arrivals_ready;  ///< before the run, of a workspace that was prepared
};

/// What came of a run. `fault` is empty if the kernel kept all rules.
struct RunResult {
  std::string fault;
  emulator::GridCounts counts;
  int32_t splits = 0;
};

/// Runs `Kernel` over a plan of the case; outputs are poisoned first. `give_table` gives the grid
/// what it may read of the table, `make_call` turns the call into the kernel's arguments.
template <class Kernel, class Options, class GiveTable, class MakeCall>
RunResult run_planned(AttentionCase& c, const cuda::DeviceGeometry& geometry, const Options& o,
                      GiveTable give_table, MakeCall make_call) {
  RunResult result;
  c.poison_output();
  const AttentionProblem problem = resolve(c.problem()).value();
  const AttentionLimits limits = c.limits();
  const cuda::DevicePlanLayout layout =
      cuda::device_plan_layout(problem, limits, geometry, {}, o.blocks, 0);
  PlanRun<32> plan(problem, limits, c.batch(), layout, o.seed);
  if (!plan.fault.empty()) {
    result.fault = "plan: " + plan.fault;
    return result;
  }
  PoisonedMemory workspace(layout.workspace_bytes);
  std::fill_n(layout.arrivals(workspace.data()), layout.max_splits, o.arrivals);

  emulator::Grid grid({.blocks = o.blocks,
                       .resident = o.resident,
                       .threads = Kernel::threads,
                       .shared_bytes = Kernel::shared_bytes,
                       .seed = o.seed});
  grid.add_input("plan", plan.memory.data(), plan.memory.bytes());
  add_batch(grid, c.batch(), c.tokens());
  give_table(grid, problem);
  add_args(grid, problem, c.args());
  auto* const memory = static_cast<std::byte*>(workspace.data());
  grid.add_buffer("arrivals", memory, layout.max_splits * int64_t{4}, true);
  grid.add_buffer("partials", memory + layout.partial_rows_at,
                  layout.workspace_bytes - layout.partial_rows_at);

  cuda::AttendCall call = layout.call(plan.memory.data(), workspace.data());
  call.problem = problem;
  call.args = c.args();
  call.list = layout.few(plan.memory.data());
  const auto kernel_args = make_call(call);
  result.fault = grid.run([&](emulator::EmulatedThread& t) { Kernel::run(t, kernel_args); });
  result.counts = grid.counts();
  result.splits = plan.plan().num_splits[0];
  if (!result.fault.empty()) return result;
  for (int32_t i = 0; i < layout.max_splits; ++i)
    if (layout.arrivals(workspace.data())[i] != cuda::arrivals_ready)
      result.fault = "arrivals of split " + std::to_string(i) + " are not ready again";
  return result;
}

}  // namespace folio::test
