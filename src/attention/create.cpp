// SPDX-License-Identifier: Apache-2.0
/// src/attention/create.cpp: selects the kernel of a problem and computes the memory that its
/// limits need.
#include <algorithm>

#include "attention/internals.h"
#include "attention/kernel_list.h"
#include "attention/plan_memory.h"
#include "attention/validate.h"
#include "core/checked.h"
#include "core/environment.h"
#include "core/run_on.h"
#include "cpu/features.h"
#include "folio/attention/plan.h"

namespace folio::inline v1 {
namespace {

Status empty(const char* function) {
  return fail(Errc::invalid_argument,
              "Attention::{}: attention is empty, expected one made by Attention::create",
              function);
}

Result<int32_t> default_concurrency(const char* function) {
  const Result<int64_t> threads = concurrency_of(function, default_executor());
  if (!threads) return threads.error();
  return static_cast<int32_t>(std::min<int64_t>(*threads, parallelism_max));
}

/// The limits ask for memory that can exist.
Status check_bytes(const char* function, const char* memory, int64_t bytes,
                   const AttentionLimits& limits) {
  if (bytes <= memory_bytes_max) return {};
  return fail(Errc::invalid_argument,
              "{}: limits of batch {}, tokens {}, context {} and parallelism {} need more than "
              "2^56 bytes of {}, expected smaller ones",
              function, limits.batch, limits.tokens, limits.context, limits.parallelism, memory);
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
  if (kernel.empty() && forced_kernel() != nullptr) kernel = forced_kernel();
  const Result<const Kernel*> selected =
      select(*resolved, machine_capabilities(), machine_profile(), kernel);
  if (!selected) return selected.error();

  Attention attention;
  attention.problem_ = *resolved;
  attention.device_ = device;
  attention.kernel_ = *selected;
  return sized("Attention::create", attention, limits);
}

Result<Attention> Attention::with_limits(const AttentionLimits& limits) const noexcept {
  if (kernel_entry(*this) == nullptr) return empty("with_limits");
  return sized("Attention::with_limits", *this, limits);
}

Result<Attention> Attention::sized(const char* function, Attention attention,
                                   const AttentionLimits& limits) noexcept {
  const AttentionProblem& problem = attention.problem_;
  if (Status s = check_limits(function, problem, limits); !s.is_ok()) return s;
  attention.limits_ = limits;
  if (limits.parallelism == 0) {
    const Result<int32_t> threads = default_concurrency(function);
    if (!threads) return threads.error();
    attention.limits_.parallelism = *threads;
  }
  const KernelGeometry geometry = kernel_entry(attention)->geometry(problem);
  const ScheduleSize bounds = schedule_bounds(problem, attention.limits_, geometry);
  attention.plan_bytes_ = plan_parts(nullptr, limits.batch, bounds).bytes;
  attention.workspace_bytes_ =
      workspace_parts(nullptr, attention.limits_.parallelism, bounds, geometry).bytes;
  if (Status s = check_bytes(function, "plan memory", attention.plan_bytes_, limits); !s.is_ok())
    return s;
  if (Status s = check_bytes(function, "workspace", attention.workspace_bytes_, limits); !s.is_ok())
    return s;
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
