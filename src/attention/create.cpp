// SPDX-License-Identifier: Apache-2.0
/// src/attention/create.cpp: selects the kernel of a problem and computes the memory that its
/// limits need.
#include "attention/kernel_list.h"
#include "attention/plan_memory.h"
#include "attention/validate.h"
#include "core/checked.h"
#include "core/environment.h"
#include "cpu/features.h"
#include "folio/attention/plan.h"

namespace folio::inline v1 {
namespace {

/// The limits ask for memory that can exist.
Status check_bytes(const char* memory, int64_t bytes, const AttentionLimits& limits) {
  if (bytes <= memory_bytes_max) return {};
  return fail(
      Errc::invalid_argument,
      "Attention::create: limits of batch {}, tokens {}, context {} and parallelism {} need "
      "more than 2^56 bytes of {}, expected smaller ones",
      limits.batch, limits.tokens, limits.context, limits.parallelism, memory);
}

}  // namespace

const char* refuse(const AttentionProblem& problem, Device device) noexcept {
  if (device.kind != Device::Kind::cpu) return "device: folio is built without CUDA kernels";
  const Result<AttentionProblem> resolved = resolve(problem);
  if (!resolved) return "the problem is broken; Attention::create names the argument";
  const char* reason = "no kernel is built in";
  for (const Kernel& kernel : kernels()) {
    reason = refusal(kernel, *resolved, machine_isa());
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
  if (Status s = check_limits(*resolved, limits); !s.is_ok()) return s;
  if (kernel.empty() && forced_kernel() != nullptr) kernel = forced_kernel();
  const Result<const Kernel*> selected =
      select(*resolved, machine_isa(), machine_profile(), kernel);
  if (!selected) return selected.error();

  Attention attention;
  attention.problem_ = *resolved;
  attention.limits_ = limits;
  attention.kernel_ = *selected;
  const KernelGeometry geometry = attention.kernel_->geometry(attention.problem_);
  const ScheduleSize bounds = schedule_bounds(attention.problem_, limits, geometry);
  attention.plan_bytes_ = plan_parts(nullptr, limits.batch, bounds).bytes;
  attention.workspace_bytes_ = workspace_parts(nullptr, limits.parallelism, bounds, geometry).bytes;
  if (Status s = check_bytes("plan memory", attention.plan_bytes_, limits); !s.is_ok()) return s;
  if (Status s = check_bytes("workspace", attention.workspace_bytes_, limits); !s.is_ok()) return s;
  return attention;
}

std::string_view Attention::kernel() const noexcept {
  return kernel_ == nullptr ? std::string_view() : kernel_->name;
}

}  // namespace folio::inline v1
