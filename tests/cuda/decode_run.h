// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/decode_run.h: a decode kernel, run in the emulator on a case: planned by the plan
/// kernel, given nothing but what it may touch.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "attention/validate.h"
#include "cuda/attention_kernel.h"
#include "cuda/decode/decode.h"
#include "cuda/plan_run.h"
#include "kernel/sequence.h"
#include "reference/elements.h"
#include "support/attention_case.h"
#include "support/run_case.h"

namespace folio::test {

struct DecodeOptions {
  int blocks = 4;
  int resident = 3;
  uint64_t seed = 1;
  /// before the run, of a workspace that was prepared
  uint32_t arrivals = cuda::arrivals_ready;
};

/// What came of it. `fault` is empty if the kernel kept all rules.
struct DecodeResult {
  std::string fault;
  emulator::GridCounts counts;
  int32_t splits = 0;
  int64_t visible_bytes = 0;  ///< of K and V, once per tile of rows that sees them
};

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

/// Table entries of pages with a key that some tile of rows sees, and the bytes of those keys.
template <class Config>
int64_t add_visible_entries(emulator::Grid& grid, const AttentionProblem& problem,
                            const Batch& batch) {
  const int32_t group = problem.q_heads / problem.key.num_heads;
  int64_t bytes = 0;
  for (int32_t b = 0; b < batch.size; ++b) {
    const Sequence s = sequence_of(batch, b);
    std::set<int64_t> pages;
    for (int32_t row = 0; row < s.new_tokens * group; row += Config::rows) {
      const int32_t last = std::min(row + Config::rows, s.new_tokens * group) - 1;
      Visible seen;
      for (int32_t token = row / group; token <= last / group; ++token)
        seen = hull(seen, visible_of(problem, batch, s, token));
      for (int64_t key = 0; key < s.context; ++key) {
        if ((seen_in_tile(seen, key) & 1) == 0) continue;
        pages.insert(key / problem.key.page_size);
        const reference::Slot slot = reference::slot_of(problem.key, batch, b, key);
        if (slot.page >= 0) bytes += 2 * Config::row_bytes * problem.key.num_heads;
      }
    }
    const uint32_t* const row = batch.table.entries + batch.table.row_start(b);
    for (auto first = pages.begin(); first != pages.end();) {
      auto last = first;
      int64_t count = 1;
      while (++last != pages.end() && *last == *first + count) ++count;
      grid.add_input("table", row + *first, count * 4);
      first = last;
    }
  }
  return bytes;
}

/// Runs `Kernel` on the case; outputs are poisoned first. `make_call` turns the call into the
/// kernel's arguments.
template <class Kernel, class MakeCall>
DecodeResult run_decode(AttentionCase& c, const DecodeOptions& o, MakeCall make_call) {
  using Config = typename Kernel::Config;
  DecodeResult result;
  c.poison_output();
  const AttentionProblem problem = resolve(c.problem()).value();
  const AttentionLimits limits = c.limits();
  const bool stores_spans = problem.reproducible != Reproducible::per_plan;
  const cuda::DeviceGeometry geometry = {cuda::decode_rows, cuda::decode_span_keys(stores_spans),
                                         INT32_MAX};
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
  const AttentionArgs& args = c.args();
  const int64_t tokens = c.tokens();
  grid.add_input("plan", plan.memory.data(), plan.memory.bytes());
  add_batch(grid, c.batch(), tokens);
  AttentionProblem planes = problem;  // with the pages of the call
  planes.key = args.key;
  planes.value = args.value;
  result.visible_bytes = add_visible_entries<Config>(grid, planes, c.batch());
  grid.add_input("q", args.q.data, reach_of(args.q));
  grid.add_input("K", args.key.data, reach_of(args.key));
  grid.add_input("V", args.value.data, reach_of(args.value));
  for (const PagedKVView* view : {&args.key, &args.value}) {
    if (view->scales.data == nullptr) continue;
    grid.add_input("scales", view->scales.data, reach_of_scales(*view));
    if (view->scales.tensor_scale != nullptr)
      grid.add_input("tensor scale", view->scales.tensor_scale, 4);
  }
  if (args.bias.data != nullptr) grid.add_input("bias", args.bias.data, reach_of(args.bias));
  if (args.sink_logits != nullptr)
    grid.add_input("sink logits", args.sink_logits, problem.q_heads * int64_t{4});
  if (args.alibi_slopes != nullptr)
    grid.add_input("slopes", args.alibi_slopes, problem.q_heads * int64_t{4});
  grid.add_buffer("out", args.out.data, reach_of(ConstTensor<3>(args.out)));
  if (args.lse != nullptr) grid.add_buffer("lse", args.lse, tokens * problem.q_heads * 4);
  std::byte* const memory = static_cast<std::byte*>(workspace.data());
  grid.add_buffer("arrivals", memory, layout.max_splits * int64_t{4}, true);
  grid.add_buffer("partials", memory + layout.partial_rows_at,
                  layout.workspace_bytes - layout.partial_rows_at);

  cuda::AttendCall call = layout.call(plan.memory.data(), workspace.data());
  call.problem = problem;
  call.args = args;
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

template <class Kernel>
DecodeResult run_decode(AttentionCase& c, const DecodeOptions& o = {}) {
  return run_decode<Kernel>(c, o, [](const cuda::AttendCall& call) { return call; });
}

}  // namespace folio::test
