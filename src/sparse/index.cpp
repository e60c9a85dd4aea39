// SPDX-License-Identifier: Apache-2.0
/// src/sparse/index.cpp: selects the kernel of an indexer's problem and computes the memory that
/// its limits need.
#include "folio/sparse/index.h"

#include "attention/device.h"
#include "core/environment.h"
#include "cpu/features.h"
#include "sparse/check_index.h"
#include "sparse/kernel_list.h"
#include "sparse/schedule.h"

namespace folio::inline v1 {
namespace {

Status check_device(const char* function, Device device) {
  const Result<Capabilities> machine = capabilities_of(function, device);
  if (!machine) return machine.error();
  if (device.kind == Device::Kind::cpu) return {};
  return fail(Errc::unsupported,
              "{}: device is of CUDA, expected the CPU: no index kernel is "
              "built for devices",
              function);
}

}  // namespace

const char* refuse(const IndexProblem& problem, Device device) noexcept {
  if (device.kind != Device::Kind::cpu) return "device: no index kernel is built for devices";
  const Result<IndexProblem> resolved = resolve(problem);
  if (!resolved) return "the problem is broken; Index::create names the argument";
  const char* reason = "no kernel is built in";
  for (const IndexKernel& kernel : index_kernels()) {
    reason = refusal(kernel, *resolved, machine_capabilities());
    if (reason == nullptr) return nullptr;
  }
  return reason;
}

Result<Index> Index::create(const IndexProblem& problem, const IndexLimits& limits, Device device,
                            std::string_view kernel) noexcept {
  constexpr auto function = "Index::create";
  if (Status s = check_device(function, device); !s.is_ok()) return s;
  Result<IndexProblem> resolved = resolve(problem);
  if (!resolved) return resolved.error();
  if (kernel.empty() && forced_index_kernel() != nullptr) kernel = forced_index_kernel();
  const Result<const IndexKernel*> selected =
      select_index_kernel(*resolved, machine_capabilities(), machine_profile(), kernel);
  if (!selected) return selected.error();
  Index index;
  index.problem_ = *resolved;
  index.device_ = device;
  index.kernel_ = *selected;
  return sized(function, index, limits);
}

Result<Index> Index::with_limits(const IndexLimits& limits) const noexcept {
  if (Status s = check_made("Index::with_limits", *this); !s.is_ok()) return s;
  return sized("Index::with_limits", *this, limits);
}

Result<Index> Index::sized(const char* function, Index index, const IndexLimits& limits) noexcept {
  if (Status s = check_limits(function, index.problem_, limits); !s.is_ok()) return s;
  index.limits_ = limits;
  if (limits.parallelism == 0) {
    const Result<int32_t> concurrency = concurrency_of_device(function, index.device_);
    if (!concurrency) return concurrency.error();
    index.limits_.parallelism = *concurrency;
  }
  const IndexGeometry geometry = IndexInternals::kernel(index)->geometry(index.problem_);
  // at most 2^14 tasks of some 2^28 bytes each, and 2^32 entries of the work list
  index.workspace_bytes_ = index_workspace(nullptr, index.limits_, geometry).bytes;
  return index;
}

std::string_view Index::kernel() const noexcept {
  return kernel_ == nullptr ? std::string_view() : IndexInternals::kernel(*this)->name;
}

}  // namespace folio::inline v1
