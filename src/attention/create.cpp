// SPDX-License-Identifier: Apache-2.0
/// src/attention/create.cpp: selects the kernel of a problem and computes the memory that its
/// limits need.
#include <algorithm>

#include "attention/check.h"
#include "attention/device.h"
#include "attention/internals.h"
#include "attention/kernel_list.h"
#include "attention/plan_memory.h"
#include "core/checked.h"
#include "core/environment.h"
#include "cpu/features.h"
#include "cuda/attention_kernel.h"
#include "cuda/runtime/launch.h"
#include "folio/attention/plan.h"

namespace folio::inline v1 {
namespace {

Status empty(const char* function) {
  return fail(Errc::invalid_argument,
              "Attention::{}: attention is empty, expected one made by Attention::create",
              function);
}

/// Why there is no such device, for those who want a literal.
const char* no_device(Errc code) {
  if (code == Errc::unsupported) return "device: folio is built without CUDA kernels";
  if (code == Errc::invalid_argument) return "device: kind is neither cpu (0) nor cuda (1)";
  return "device: no such CUDA device; Attention::create says why";
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

struct Bytes {
  int64_t plan = 0;
  int64_t workspace = 0;
};

Bytes bytes_on_host(const Attention& attention, const Kernel& kernel) {
  const AttentionLimits& limits = attention.limits();
  const KernelGeometry geometry = geometry_of(kernel, attention.problem());
  const ScheduleSize bounds = schedule_bounds(attention.problem(), limits, geometry);
  return {plan_parts(nullptr, limits, bounds).bytes,
          workspace_parts(nullptr, limits.parallelism, bounds, geometry).bytes};
}

Bytes bytes_of(const Attention& attention) {
  const Kernel& kernel = *kernel_entry(attention);
  if (kernel.device != nullptr) {
    const DeviceLists lists =
        device_lists(attention.problem(), attention.limits(), kernel, many_rows_entry(attention));
    if (!lists.layout.fits) return {memory_bytes_max + 1, memory_bytes_max + 1};
    return {lists.layout.plan_bytes, lists.layout.workspace_bytes};
  }
  Bytes bytes = bytes_on_host(attention, kernel);
  if (few_rows_entry(attention) == nullptr) return bytes;
  const Bytes few = bytes_on_host(attention, *few_rows_entry(attention));
  return {std::max(bytes.plan, few.plan), std::max(bytes.workspace, few.workspace)};
}

}  // namespace

const char* refuse(const AttentionProblem& problem, Device device) noexcept {
  const Result<Capabilities> machine = capabilities_of("refuse", device);
  if (!machine) return no_device(machine.error().code());
  const Result<AttentionProblem> resolved = resolve(problem);
  if (!resolved) return "the problem is broken; Attention::create names the argument";
  const char* reason = "no kernel is built in";
  for (const Kernel& kernel : kernels()) {
    if (!is_of_kind(kernel, *machine)) continue;
    reason = refusal(kernel, *resolved, *machine);
    if (reason == nullptr) return nullptr;
  }
  return reason;
}

Result<Attention> Attention::create(const AttentionProblem& problem, const AttentionLimits& limits,
                                    Device device, std::string_view kernel) noexcept {
  constexpr auto function = "Attention::create";
  const Result<Capabilities> machine = capabilities_of(function, device);
  if (!machine) return machine.error();
  Result<AttentionProblem> resolved = resolve(problem);
  if (!resolved) return resolved.error();
  if (kernel.empty() && forced_kernel() != nullptr) kernel = forced_kernel();
  const Result<const Kernel*> selected = select(*resolved, *machine, machine_profile(), kernel);
  if (!selected) return selected.error();

  Attention attention;
  attention.problem_ = *resolved;
  attention.device_ = device;
  attention.kernel_ = *selected;
  if ((*selected)->device != nullptr) {
    if (kernel.empty()) attention.many_rows_kernel_ = select_many_rows(*resolved, *machine);
    if (Status s = cuda::load_kernels(function, device); !s.is_ok()) return s;
  } else if (kernel.empty()) {
    const FewRows few = select_few_rows(*resolved, *machine, machine_profile(), **selected);
    AttentionInternals::set_few_rows(attention, few.kernel, few.most);
  }
  return sized(function, attention, limits);
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
    const Result<int32_t> concurrency = concurrency_of_device(function, attention.device_);
    if (!concurrency) return concurrency.error();
    attention.limits_.parallelism = *concurrency;
  }
  const Bytes bytes = bytes_of(attention);
  attention.identity_ = next_number();
  attention.plan_bytes_ = bytes.plan;
  attention.workspace_bytes_ = bytes.workspace;
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
  const Result<Capabilities> machine = capabilities_of("Attention::with_mask", device_);
  if (!machine) return machine.error();
  Attention attention = *this;
  attention.problem_.mask = mask;
  attention.identity_ = next_number();
  const Kernel* const few = few_rows_entry(*this);
  if (few != nullptr && refusal(*few, attention.problem_, *machine) != nullptr)
    AttentionInternals::set_few_rows(attention, nullptr, 0);
  for (const Kernel* const entry : {kernel, many_rows_entry(*this)}) {
    if (entry == nullptr) continue;
    const char* const reason = refusal(*entry, attention.problem_, *machine);
    if (reason == nullptr) continue;
    return fail(Errc::unsupported, "Attention::with_mask: kernel {} refuses: {}{}", entry->name,
                reason, explain(entry->name, entry->supports, attention.problem_).text);
  }
  return attention;
}

std::string_view Attention::kernel() const noexcept {
  return kernel_ == nullptr ? std::string_view() : kernel_entry(*this)->name;
}

std::string_view Attention::few_rows_kernel() const noexcept {
  return few_rows_kernel_ == nullptr ? std::string_view() : few_rows_entry(*this)->name;
}

}  // namespace folio::inline v1
