// SPDX-License-Identifier: Apache-2.0
/// src/attention/create.cpp: selects the kernel of a problem and computes the memory that its
/// limits need.
#include <algorithm>

#include "attention/internals.h"
#include "attention/kernel_list.h"
#include "attention/plan_memory.h"
#include "attention/validate.h"
#include "core/environment.h"
#include "cpu/features.h"
#include "folio/attention/plan.h"

namespace folio::inline v1 {
namespace {

Status empty(const char* function) {
  return fail(Errc::invalid_argument,
              "Attention::{}: attention is empty, expected one made by Attention::create",
              function);
}

int32_t default_concurrency() {
  const Executor executor = default_executor();
  return std::max(1, executor.concurrency(executor.context));
}

}  // namespace

const char* refuse(const AttentionProblem& problem, Device device) noexcept {
  if (device.kind != Device::Kind::cpu) return "device: folio is built without CUDA kernels";
  const Result<AttentionProblem> resolved = resolve(problem);
  if (!resolved) return "the problem is broken; Attention::create names the argument";
  const char* reason = "no kernel is built in";
  for (const Kernel& kernel : kernels()) {
    reason = refusal(kernel, *resolved, machine_capabilities());
    if (reason == nullptr) return nullptr;
  }
  return reason;
}

Result<Attention> Attention::create(const AttentionProblem& problem, const AttentionLimits& limits,
                                    Device device, std::string_view kernel) noexcept {
  if (device.kind != Device::Kind::cpu)
    return fail(Errc::unsupported,
                "Attention::create: device: folio is built without CUDA kernels");
  Result<AttentionProblem> resolved = resolve(problem);
  if (!resolved) return resolved.error();
  if (Status s = check_limits("Attention::create", *resolved, limits); !s.is_ok()) return s;
  if (kernel.empty() && forced_kernel() != nullptr) kernel = forced_kernel();
  const Result<const Kernel*> selected =
      select(*resolved, machine_capabilities(), machine_profile(), kernel);
  if (!selected) return selected.error();

  Attention attention;
  attention.problem_ = *resolved;
  attention.device_ = device;
  attention.kernel_ = *selected;
  return attention.with_limits(limits);
}

Result<Attention> Attention::with_limits(const AttentionLimits& limits) const noexcept {
  const Kernel* const kernel = kernel_entry(*this);
  if (kernel == nullptr) return empty("with_limits");
  if (Status s = check_limits("Attention::with_limits", problem_, limits); !s.is_ok()) return s;
  Attention attention = *this;
  attention.limits_ = limits;
  if (limits.parallelism == 0) attention.limits_.parallelism = default_concurrency();
  const KernelGeometry geometry = kernel->geometry(problem_);
  const ScheduleSize bounds = schedule_bounds(problem_, attention.limits_, geometry);
  attention.plan_bytes_ = plan_parts(nullptr, limits.batch, bounds).bytes;
  attention.workspace_bytes_ =
      workspace_parts(nullptr, attention.limits_.parallelism, bounds, geometry).bytes;
  return attention;
}

Result<Attention> Attention::with_mask(const Mask& mask) const noexcept {
  const Kernel* const kernel = kernel_entry(*this);
  if (kernel == nullptr) return empty("with_mask");
  if (Status s = check_mask("Attention::with_mask", mask); !s.is_ok()) return s;
  Attention attention = *this;
  attention.problem_.mask = mask;
  const char* const reason = refusal(*kernel, attention.problem_, machine_capabilities());
  if (reason == nullptr) return attention;
  return fail(Errc::unsupported, "Attention::with_mask: kernel {} refuses: {}{}", kernel->name,
              reason, explain(kernel->name, kernel->supports, attention.problem_).text);
}

std::string_view Attention::kernel() const noexcept {
  return kernel_ == nullptr ? std::string_view() : kernel_entry(*this)->name;
}

}  // namespace folio::inline v1
