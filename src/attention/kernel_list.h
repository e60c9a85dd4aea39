// SPDX-License-Identifier: Apache-2.0
/// src/attention/kernel_list.h: every attention kernel, best first. The selector, tests, benches
/// and docs iterate this list.
#pragma once

#include <span>
#include <string_view>

#include "cpu/profile.h"
#include "folio/core/status.h"
#include "kernel/kernel.h"

namespace folio::inline v1 {

[[nodiscard]] std::span<const Kernel> kernels() noexcept;

/// Null if the kernel runs on such a machine and accepts the problem, else the reason.
[[nodiscard]] const char* refusal(const Kernel& kernel, const AttentionProblem& problem,
                                  Capabilities machine) noexcept;

/// Whether the kernel runs on such a kind of device at all: on the host, or on CUDA devices.
[[nodiscard]] bool is_of_kind(const Kernel& kernel, Capabilities machine) noexcept;

/// The first kernel that does not refuse and whose unit is not slow on such a machine; if there is
/// none, the first that does not refuse. Or the one called `name` if that is not empty. Kernels for
/// many rows alone are chosen by name only.
/// Errors: invalid_argument for an unknown name; unsupported with the reason.
[[nodiscard]] Result<const Kernel*> select(const AttentionProblem& problem, Capabilities machine,
                                           const MachineProfile& profile,
                                           std::string_view name) noexcept;

/// The first kernel for sequences of many rows that does not refuse; null: there is none, or the
/// problem asks for bits that do not depend on how many rows there are.
[[nodiscard]] const Kernel* select_many_rows(const AttentionProblem& problem,
                                             Capabilities machine) noexcept;

/// The kernel that takes steps of few rows of a head off `kernel`, which multiplies tiles, and the
/// most rows for which it is faster on such a machine. Null and 0: none is, or the problem asks for
/// bits that do not depend on how many rows there are.
struct FewRows {
  const Kernel* kernel = nullptr;
  int32_t most = 0;
};
[[nodiscard]] FewRows select_few_rows(const AttentionProblem& problem, Capabilities machine,
                                      const MachineProfile& profile, const Kernel& kernel) noexcept;

}  // namespace folio::inline v1
