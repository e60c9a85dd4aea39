// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/prefill_plan_test.cpp: the prefill kernel on work lists of the plan kernel, both in
/// the emulator.
#include <gtest/gtest.h>

#include <algorithm>

#include "attention/check.h"
#include "cuda/plan_run.h"
#include "cuda/prefill_case.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

/// Every sequence in the list of many rows, for a grid of `blocks` blocks.
PrefillResult run_planned(AttentionCase& c, int32_t blocks) {
  const AttentionProblem problem = resolve(c.problem()).value();
  const cuda::DevicePlanLayout layout = cuda::device_plan_layout(
      problem, c.limits(), {}, cuda::prefill_kernel.geometry(problem), 0, blocks);
  EXPECT_TRUE(layout.fits);
  PlanRun<256> plan(problem, c.limits(), c.batch(), layout);
  if (!plan.fault.empty()) return {plan.fault, {}};
  PoisonedMemory workspace(layout.workspace_bytes);
  uint32_t* const arrivals = layout.arrivals(workspace.data());
  std::fill_n(arrivals, layout.max_splits, cuda::arrivals_ready);

  cuda::AttendCall call = layout.call(plan.memory.data(), workspace.data());
  call.problem = problem;
  call.args = c.args();
  call.list = layout.many(plan.memory.data());
  PrefillResult result =
      run_call(c, c.batch(), call, {.blocks = blocks}, [&](emulator::Grid& grid) {
        grid.add_input("plan", plan.memory.data(), plan.memory.bytes());
        if (layout.max_splits == 0) return;
        grid.add_buffer("arrivals", arrivals, layout.max_splits * 4, true);
        grid.add_buffer("partial rows", call.partial_rows,
                        layout.partials_at - layout.partial_rows_at);
        grid.add_buffer("partials", call.partials, layout.workspace_bytes - layout.partials_at);
      });
  if (result.fault.empty())
    for (int32_t i = 0; i < layout.max_splits; ++i)
      if (arrivals[i] != cuda::arrivals_ready) result.fault = "counters are not ready again";
  return result;
}

CaseOptions options_of(std::vector<SequenceShape> sequences) {
  CaseOptions o;
  o.sequences = std::move(sequences);
  o.q_dtype = o.key_dtype = o.value_dtype = DType::bf16;
  return o;
}

TEST(PrefillPlan, planned_tasks_of_ragged_sequences_are_right) {
  for (const int32_t head_size : {64, 256})
    for (const int32_t blocks : {1, 3, 7}) {
      CaseOptions o = options_of({{1, 77}, {90, 100}, {0, 9}, {1, 3}, {70, 20}, {33, 130}});
      o.head_size = head_size;
      o.mask = blocks == 3 ? Mask::sliding_window(20, 5) : Mask::causal();
      AttentionCase c(o);
      ASSERT_EQ(run_planned(c, blocks).fault, "");
      EXPECT_TRUE(matches_reference(c)) << describe(o);
    }
}

TEST(PrefillPlan, planned_tasks_that_share_keys_are_right) {
  for (const Mask& mask : {Mask::causal(), Mask::sliding_window(1500, 4)}) {
    CaseOptions o = options_of({{20, 3300}, {3, 40}});
    o.q_heads = 2;
    o.kv_heads = 1;
    o.mask = mask;
    AttentionCase c(o);
    const PrefillResult result = run_planned(c, 4);
    ASSERT_EQ(result.fault, "");
    EXPECT_GT(result.counts.atomics, 0);
    EXPECT_TRUE(matches_reference(c)) << describe(o);
  }
}

TEST(PrefillPlan, the_number_of_blocks_decides_no_bit_of_a_sequence) {
  CaseOptions o = options_of({{20, 2300}, {40, 40}, {3, 70}});
  o.q_heads = 2;
  o.kv_heads = 1;
  o.reproducible = Reproducible::per_sequence;
  AttentionCase c(o);
  ASSERT_EQ(run_planned(c, 1).fault, "");
  const std::vector<std::byte> bits = c.output_bits();
  for (const int32_t blocks : {2, 5}) {
    const PrefillResult result = run_planned(c, blocks);
    ASSERT_EQ(result.fault, "");
    EXPECT_EQ(result.counts.atomics, 0);
    EXPECT_EQ(c.output_bits(), bits) << blocks << " blocks";
  }
}

}  // namespace
}  // namespace folio::test
