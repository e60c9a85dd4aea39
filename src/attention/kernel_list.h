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

/// The first kernel that does not refuse and whose unit is not slow on such a machine; if there is
/// none, the first that does not refuse. Or the one called `name` if that is not empty.
/// Errors: invalid_argument for an unknown name; unsupported with the reason.
[[nodiscard]] Result<const Kernel*> select(const AttentionProblem& problem, Capabilities machine,
                                           const MachineProfile& profile,
                                           std::string_view name) noexcept;

}  // namespace folio::inline v1
