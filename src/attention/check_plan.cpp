// SPDX-License-Identifier: Apache-2.0
/// src/attention/check_plan.cpp: whether an Attention, a plan and a workspace belong together.
///
/// A plan is a list of tasks whose numbers are used as they are, so it must meet the limits, the
/// problem and the kernel that it was cut for. Its header holds those; the generation tells the
/// plan that the memory holds from those that it held before. Nothing here reads a list.
#include "attention/check.h"
#include "attention/internals.h"
#include "attention/plan_memory.h"
#include "cache/check_tensor.h"

namespace folio::inline v1 {
namespace {

struct Count {
  const char* name;
  int64_t given;
  int64_t planned;
};

Status check_attention(const char* function, const Attention& attention, const PlanHeader& header) {
  if (header.kernel != kernel_entry(attention) && header.kernel != few_rows_entry(attention))
    return fail(Errc::invalid_argument,
                "{}: plan is of an Attention with another kernel, expected one of {}", function,
                attention.kernel());
  const AttentionLimits& limits = attention.limits();
  const Count counts[] = {{"batch", header.limits.batch, limits.batch},
                          {"tokens", header.limits.tokens, limits.tokens},
                          {"context", header.limits.context, limits.context},
                          {"parallelism", header.limits.parallelism, limits.parallelism},
                          {"shared_levels", header.limits.shared_levels, limits.shared_levels}};
  for (const Count& c : counts) {
    if (c.given == c.planned) continue;
    return fail(Errc::invalid_argument,
                "{}: plan is of an Attention with limits.{} = {}, expected {} (from attention)",
                function, c.name, c.given, c.planned);
  }
  if (header.problem == attention.problem()) return {};
  return fail(Errc::invalid_argument,
              "{}: plan is of an Attention with another problem, expected one of this attention",
              function);
}

}  // namespace

Status check_plan(const char* function, const Attention& attention,
                  const AttentionPlan& plan) noexcept {
  if (kernel_entry(attention) == nullptr)
    return fail(Errc::invalid_argument,
                "{}: attention is empty, expected one made by Attention::create", function);
  if (Status s = check_host(function, attention); !s.is_ok()) return s;
  if (plan.items == nullptr)
    return fail(Errc::invalid_argument, "{}: plan is empty, expected one made by plan()", function);
  if (reinterpret_cast<uintptr_t>(plan.items) % Carver::alignment != 0)
    return fail(Errc::invalid_argument,
                "{}: plan.items is not aligned, expected plan memory (a multiple of {} bytes)",
                function, Carver::alignment);
  const auto& header = *static_cast<const PlanHeader*>(plan.items);
  if (plan.generation == 0 || header.generation != plan.generation)
    return fail(Errc::invalid_argument,
                "{}: plan.generation is {}, expected {} (its memory was planned again, or is none)",
                function, plan.generation, header.generation);
  if (Status s = check_attention(function, attention, header); !s.is_ok()) return s;
  const Count counts[] = {{"num_tasks", plan.num_tasks, header.num_tasks},
                          {"batch", plan.batch, header.batch.size},
                          {"tokens", plan.tokens, header.tokens}};
  for (const Count& c : counts) {
    if (c.given == c.planned) continue;
    return fail(Errc::invalid_argument, "{}: plan.{} is {}, expected {} (as planned)", function,
                c.name, c.given, c.planned);
  }
  return {};
}

Status check_task(const Attention& attention, const AttentionPlan& plan,
                  const MemorySpan& workspace, int64_t task) noexcept {
  constexpr auto function = "attend_task";
  if (Status s = check_plan(function, attention, plan); !s.is_ok()) return s;
  if (Status s = check_memory(function, "workspace", workspace, attention.workspace_bytes());
      !s.is_ok())
    return s;
  if (static_cast<const WorkspaceHeader*>(workspace.data)->generation != plan.generation)
    return fail(Errc::invalid_argument,
                "{}: workspace is not prepared for this plan, expected a call of prepare before",
                function);
  if (task >= 0 && task < plan.num_tasks) return {};
  return fail(Errc::invalid_argument, "{}: task is {}, expected 0 to less than {} (plan.num_tasks)",
              function, task, plan.num_tasks);
}

}  // namespace folio::inline v1
