// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/mla_run.h: an MLA decode kernel, run in the emulator on a case: planned by the plan
/// kernel, given nothing but what it may touch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

#include "attention/validate.h"
#include "cuda/mla/instances.h"
#include "cuda/mla/kernels.h"
#include "cuda/plan_run.h"
#include "reference/attention.h"
#include "reference/visibility.h"
#include "support/attention_case.h"
#include "support/run_case.h"

namespace folio::test {

struct MlaOptions {
  int blocks = 3;
  int resident = 2;
  uint64_t seed = 1;
  uint32_t arrivals = cuda::arrivals_ready;  ///< of the workspace before the run
};

/// What came of a run. `fault` is empty if the kernel kept all rules.
struct MlaResult {
  std::string fault;
  emulator::GridCounts counts;
  int32_t splits = 0;
  int64_t visible_rows = 0;  ///< latent rows that a tile of query rows sees, of each tile
};

/// Bytes from the first to the last element.
inline int64_t reach_of(const PagedKVView& view) {
  const int64_t slots = view.page_size == unbounded_page_size ? 1 : view.page_size;
  return (view.num_pages - 1) * view.page_stride_bytes + (slots - 1) * view.slot_stride_bytes +
         (view.num_heads - 1) * view.head_stride_bytes + int64_t{view.head_size} * 2;
}
inline int64_t reach_of(const ConstTensor<3>& tensor) {
  int64_t bytes = bit_width(tensor.dtype) / 8;
  for (int i = 0; i < 3; ++i) {
    if (tensor.extent[i] == 0) return 0;
    bytes += (tensor.extent[i] - 1) * tensor.stride_bytes[i];
  }
  return bytes;
}

/// Whether a query row sees a key in some of its heads [head, head_end).
inline bool sees(const AttentionCase& c, int32_t b, int64_t row, int64_t key, int32_t head,
                 int32_t head_end) {
  if (!reference::is_visible(c.problem(), c.batch(), b, row, key)) return false;
  if (!c.problem().bias) return true;
  const ConstTensor<3>& bias = c.args().bias;
  for (; head < head_end; ++head) {
    const auto* at = static_cast<const std::byte*>(bias.data) +
                     (bias.extent[0] == 1 ? 0 : head) * bias.stride_bytes[0] +
                     row * bias.stride_bytes[1] + key * 4;
    float value;
    std::memcpy(&value, at, sizeof value);
    if (!(std::isinf(value) && value < 0)) return true;
  }
  return false;
}

/// Gives the table entries of pages with a key that some query sees, and counts latent rows that
/// tiles of `rows` query rows see.
inline int64_t add_visible_entries(emulator::Grid& grid, const AttentionCase& c, int32_t rows) {
  const Batch& batch = c.batch();
  const int32_t heads = c.problem().q_heads;
  int64_t seen_rows = 0;
  for (int32_t b = 0; b < batch.size; ++b) {
    std::set<int64_t> pages;
    const int32_t first = batch.query_offsets[b];
    const int32_t end = (batch.query_offsets[b + 1] - first) * heads;
    for (int64_t key = 0; key < batch.context_lengths[b]; ++key)
      for (int32_t tile = 0; tile < end; tile += rows) {
        bool is_seen = false;
        for (int32_t row = tile; row < std::min(end, tile + rows) && !is_seen; ++row)
          is_seen = sees(c, b, first + row / heads, key, row % heads, row % heads + 1);
        if (!is_seen) continue;
        pages.insert(key / c.args().key.page_size);
        if (reference::slot_of(c.args().key, batch, b, key).page >= 0) ++seen_rows;
      }
    const uint32_t* const row = batch.table.entries + batch.table.row_start(b);
    for (const int64_t page : pages) grid.add_input("table", row + page, 4);
  }
  return seen_rows;
}

/// Runs `Kernel` on the case; outputs are poisoned first.
template <class Kernel>
MlaResult run_mla(AttentionCase& c, const MlaOptions& o = {}) {
  MlaResult result;
  c.poison_output();
  c.set_precision({c.options().key_dtype, DType::f32, DType::f32});
  const AttentionProblem problem = resolve(c.problem()).value();
  const AttentionLimits limits = c.limits();
  const cuda::DeviceGeometry geometry = {Kernel::rows,
                                         cuda::mla::span_keys_of(problem.reproducible), INT32_MAX};
  const cuda::DevicePlanLayout layout =
      cuda::device_plan_layout(problem, limits, geometry, {}, o.blocks, 0);
  PlanRun<32> plan(problem, limits, c.batch(), layout, o.seed);
  if (!plan.fault.empty()) return {"plan: " + plan.fault, {}, 0, 0};
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
  result.visible_rows = add_visible_entries(grid, c, Kernel::rows);
  grid.add_input("q", args.q.data, reach_of(args.q));
  grid.add_input("K", args.key.data, reach_of(args.key));
  if (args.bias.data != nullptr) grid.add_input("bias", args.bias.data, reach_of(args.bias));
  for (const float* per_head : {args.sink_logits, args.alibi_slopes})
    if (per_head != nullptr) grid.add_input("per head", per_head, problem.q_heads * int64_t{4});
  grid.add_buffer("out", args.out.data, reach_of(ConstTensor<3>(args.out)));
  if (args.lse != nullptr) grid.add_buffer("lse", args.lse, tokens * problem.q_heads * 4);
  auto* const memory = static_cast<std::byte*>(workspace.data());
  grid.add_buffer("arrivals", memory, layout.max_splits * int64_t{4}, true);
  grid.add_buffer("partials", memory + layout.partial_rows_at,
                  layout.workspace_bytes - layout.partial_rows_at);

  cuda::AttendCall call = layout.call(plan.memory.data(), workspace.data());
  call.problem = problem;
  call.args = args;
  call.list = layout.few(plan.memory.data());
  result.fault = grid.run([&](emulator::EmulatedThread& t) { Kernel::run(t, call); });
  result.counts = grid.counts();
  result.splits = plan.plan().num_splits[0];
  if (!result.fault.empty()) return result;
  for (int32_t i = 0; i < layout.max_splits; ++i)
    if (layout.arrivals(workspace.data())[i] != cuda::arrivals_ready)
      result.fault = "arrivals of split " + std::to_string(i) + " are not ready again";
  return result;
}

}  // namespace folio::test
