// SPDX-License-Identifier: Apache-2.0
/// tests/support/run_case.cpp: from a case to a verdict.
#include "support/run_case.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <stdexcept>

#include "attention/check.h"
#include "attention/internals.h"
#include "attention/kernel_list.h"
#include "attention/plan_memory.h"
#include "support/sanitized.h"
#include "support/test_device.h"
#include "support/tolerance.h"

namespace folio::test {
namespace {

std::vector<std::string> names_where(bool present) {
  std::vector<std::string> names;
  for (const Kernel& kernel : kernels()) {
    if (!is_of_kind(kernel, test_capabilities())) continue;
    if (test_capabilities().has_all(kernel.needs) == present) names.emplace_back(kernel.name);
  }
  return names;
}

/// The strides of the problem are none of a kernel's business: those of the arguments count.
AttentionProblem without_strides(AttentionProblem problem) {
  constexpr int64_t nowhere = 0x5a5a5a5a5a5a5a5a;
  for (PagedKVView* plane : {&problem.key, &problem.value}) {
    plane->page_stride_bytes = plane->slot_stride_bytes = plane->head_stride_bytes = nowhere;
    plane->scales.page_stride_bytes = plane->scales.slot_stride_bytes = nowhere;
    plane->scales.head_stride_bytes = plane->scales.granule_stride_bytes = nowhere;
  }
  return problem;
}

/// Where and how an output differs.
::testing::AssertionResult differs(int64_t row, int32_t head, const char* what, int64_t d,
                                   double actual, double exact, double bound) {
  return ::testing::AssertionFailure()
         << what << " of row " << row << ", q head " << head << ", dim " << d << " is " << actual
         << ", expected " << exact << " +- " << bound;
}

}  // namespace

std::vector<std::string> absent_kernel_names() { return names_where(false); }

std::vector<std::string> kernel_names() {
  static const bool told = [] {
    for (const std::string& name : absent_kernel_names())
      std::printf("[  ABSENT  ] %s: this machine lacks its instructions\n", name.c_str());
    return true;
  }();
  static_cast<void>(told);
  return names_where(true);
}

const Kernel* find_kernel(std::string_view name) {
  for (const Kernel& kernel : kernels())
    if (kernel.name == name) return &kernel;
  return nullptr;
}

const Kernel& kernel_of(std::string_view name) {
  if (const Kernel* const kernel = find_kernel(name); kernel != nullptr) return *kernel;
  throw std::out_of_range("this build has no kernel " + std::string(name));
}

::testing::AssertionResult give_the_same_bits(const CaseOptions& a, const CaseOptions& b) {
  AttentionCase first(a), second(b);
  for (AttentionCase* c : {&first, &second}) {
    if (const Status status = run_case(*c, ""); !status.is_ok())
      return ::testing::AssertionFailure() << status.message();
  }
  if (first.output_bits() == second.output_bits()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "the bits differ";
}

Precision precision_of(const Kernel& kernel, const AttentionProblem& problem) {
  const auto operand = [&](const PagedKVView& view) {
    const bool is_rounded = allows_rounding(problem) && kernel.supports.rounded.has(view.dtype) &&
                            view.dtype != kernel.operands;
    const bool varies =
        is_rounded || folio::detail::is_block(view.dtype) ||
        (view.scales.dtype != DType::invalid && view.scales.granularity < view.head_size);
    return varies ? kernel.operands : DType::f32;
  };
  return {kernel.weights, operand(problem.key),
          operand(problem.value_in_key ? problem.key : problem.value),
          kernel.weights == DType::i8              ? DType::i8
          : kernel.supports.q.has(problem.q_dtype) ? DType::f32
                                                   : kernel.operands,
          problem.value.dtype == DType::i8 ? kernel.weight_steps : 255};
}

Result<PreparedCase> prepare_case(AttentionCase& c, std::string_view kernel,
                                  const AttentionLimits& limits) {
  PreparedCase prepared;
  Result<Attention> attention = Attention::create(c.problem(), limits, test_device(), kernel);
  if (!attention) return attention.error();
  c.set_precision(precision_of(*kernel_entry(*attention), c.problem()));
  prepared.attention = *attention;
  prepared.plan_memory = GuardedMemory(attention->plan_bytes(), 64);
  prepared.workspace = GuardedMemory(attention->workspace_bytes(), 64);
  const bool is_host = test_device().kind == Device::Kind::cpu;
  Result<AttentionPlan> made =
      is_host ? plan(*attention, c.batch(), prepared.plan_memory.span())
              : plan_async(*attention, c.batch(), prepared.plan_memory.span(), Stream());
  if (!made) return made.error();
  prepared.plan = *made;
  return prepared;
}

Status attend_prepared(AttentionCase& c, const PreparedCase& prepared, const Executor& executor) {
  const MemorySpan workspace = prepared.workspace.span();
  if (test_device().kind == Device::Kind::cpu)
    return attend(prepared.attention, prepared.plan, c.args(), workspace, executor);
  if (Status s = prepare_async(prepared.attention, workspace, Stream()); !s.is_ok()) return s;
  if (Status s = attend_async(prepared.attention, prepared.plan, c.args(), workspace, Stream());
      !s.is_ok())
    return s;
  return synchronise_test_device();
}

Status run_case(AttentionCase& c, std::string_view kernel, const Executor& executor) {
  c.poison_output();
  const Result<PreparedCase> prepared = prepare_case(c, kernel, c.limits());
  if (!prepared) return prepared.error();
  // Workspaces begin in turn as NaNs and as large counts and pointers to nowhere.
  static bool has_pointers = false;
  prepared->workspace.fill(has_pointers ? 0x5a : 0xff);
  has_pointers = !has_pointers;
  if (Status s = attend_prepared(c, *prepared, executor); !s.is_ok()) return s;
  if (prepared->plan_memory.slack_untouched() && prepared->workspace.slack_untouched()) return {};
  return fail(Errc::internal, "run_case: bytes behind the plan or the workspace were written");
}

Status run_kernel(AttentionCase& c, const Kernel& kernel) {
  c.poison_output();
  c.set_precision(precision_of(kernel, c.problem()));
  const Result<AttentionProblem> problem = resolve(c.problem());
  if (!problem) return problem.error();
  const KernelGeometry geometry = geometry_of(kernel, *problem);
  const ScheduleSize bounds = schedule_bounds(*problem, c.limits(), geometry);
  const GuardedMemory plan(plan_parts(nullptr, c.limits(), bounds).bytes, 64);
  const ScheduleMemory memory = plan_parts(plan.data(), c.limits(), bounds).schedule;
  const ScheduleSize size = make_schedule(*problem, c.limits(), c.batch(), geometry, memory);
  const GuardedMemory scratch(geometry.scratch_bytes, 64);
  const GuardedMemory partials(bounds.partial_bytes, 64);
  const AttentionProblem shown = without_strides(*problem);
  const KernelCall call{&shown, &c.args(), &c.batch(), memory.splits, memory.queries};
  for (const Task& task : std::span(memory.tasks, static_cast<size_t>(size.tasks)))
    kernel.run(call, task, scratch.data(), stores_states(task) ? partials.data() : nullptr);
  for (const Split& split : std::span(memory.splits, static_cast<size_t>(size.splits))) {
    kernel.finish(call, split.whole, scratch.data(), partials.data() + split.first_byte);
  }
  return {};
}

::testing::AssertionResult matches_reference(AttentionCase& c, const Scope& scope,
                                             Accuracy* accuracy) {
  Accuracy found;
  RelativeRms rms;
  int64_t index = 0;
  for (int64_t row = scope.first_row; row < std::min(c.tokens(), scope.end_row); ++row) {
    for (int32_t head = 0; head < c.options().q_heads; ++head) {
      if (index++ % scope.every != 0 || (row == scope.except_row && head == scope.except_head))
        continue;
      const reference::QueryResult& exact = c.expected(row, head);
      for (int64_t d = 0; d < c.options().v_head_size; ++d) {
        const double expected = exact.out[static_cast<size_t>(d)];
        const double actual = c.output(row, head, d);
        const double bound = out_bound(exact, d, c.options().out_dtype, c.precision());
        const double error = std::fabs(actual - expected);
        if (!(error <= bound)) return differs(row, head, "o", d, actual, expected, bound);
        if (exact.keys == 0 && (actual != 0.0 || std::signbit(actual)))
          return differs(row, head, "o", d, actual, 0.0, 0.0);
        found.worst = std::max(found.worst, error / bound);
        rms.add(actual, expected);
      }
      if (!c.options().lse) continue;
      const auto lse = static_cast<double>(c.output_lse(row, head));
      const double bound = lse_bound(exact, c.precision());
      if (lse != exact.lse && !(std::fabs(lse - exact.lse) <= bound))
        return differs(row, head, "lse", 0, lse, exact.lse, bound);
      if (bound == 0.0) continue;
      found.worst = std::max(found.worst, std::fabs(lse - exact.lse) / bound);
      found.lse = std::max(found.lse, std::fabs(lse - exact.lse));
    }
  }
  if (!c.output_gaps_untouched())
    return ::testing::AssertionFailure() << "bytes between the rows of the output were written";
  found.relative_rms = rms.value();
  if (accuracy != nullptr) *accuracy = found;
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult kernel_is_right(AttentionCase& c, std::string_view kernel) {
  const Status status = run_case(c, kernel);
  if (!status.is_ok())
    return ::testing::AssertionFailure() << kernel << ": " << status.message() << "\n"
                                         << describe(c.options());
  // What a sanitizer looks at has run; the comparison, slow under one, is whole in other builds.
  ::testing::AssertionResult result = matches_reference(c, {.every = is_sanitized ? 5 : 1});
  if (!result) result << "\nby " << kernel << "\nin " << describe(c.options());
  return result;
}

}  // namespace folio::test
