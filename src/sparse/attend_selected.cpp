// SPDX-License-Identifier: Apache-2.0
/// src/sparse/attend_selected.cpp: select_keys, then attend.
#include "folio/sparse/attend_selected.h"

#include "attention/check.h"
#include "attention/plan_memory.h"

namespace folio::inline v1 {
namespace {

constexpr auto function = "attend_selected";

/// The lists that are written are those that attention reads.
Status check_lists_of_plan(const SelectArgs& args, const Attention& attention,
                           const AttentionPlan& plan) {
  if (!attention.problem().selection || attention.problem().selection_per_head)
    return fail(Errc::invalid_argument,
                "{}: attention is of a problem without one list for each query, expected selection",
                function);
  const Batch& batch = static_cast<const PlanHeader*>(plan.items)->batch;
  if (args.lists != batch.selected)
    return fail(Errc::invalid_argument,
                "{}: select.args.lists is other memory than batch.selected of the plan", function);
  if (args.k != batch.selected_stride || args.stride != args.k)
    return fail(Errc::invalid_argument,
                "{}: select.args.k is {} and stride {}, expected batch.selected_stride = {} (of "
                "the plan)",
                function, args.k, args.stride, batch.selected_stride);
  if (args.entries == ListEntries::slots) return {};
  return fail(Errc::invalid_argument,
              "{}: select.args.entries is {}, expected slots (0), which attention takes", function,
              static_cast<int>(args.entries));
}

}  // namespace

Status attend_selected(const SelectCall& select, const Attention& attention,
                       const AttentionPlan& plan, const AttentionArgs& args, MemorySpan workspace,
                       const Executor& executor) noexcept {
  if (Status s = check_plan(function, attention, plan); !s.is_ok()) return s;
  if (plan.tokens > 0) {
    if (Status s = check_lists_of_plan(select.args, attention, plan); !s.is_ok()) return s;
  }
  if (Status s = select_keys(select.index, select.batch, select.args, select.workspace, executor);
      !s.is_ok())
    return s;
  return attend(attention, plan, args, workspace, executor);
}

}  // namespace folio::inline v1
