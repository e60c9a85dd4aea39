// SPDX-License-Identifier: Apache-2.0
/// src/sparse/kernel_list.h: every index kernel of this build, best first, and the selector.
#pragma once

#include <span>
#include <string_view>

#include "cpu/profile.h"
#include "folio/core/status.h"
#include "folio/sparse/index.h"
#include "kernel/index_kernel.h"

namespace folio::inline v1 {

[[nodiscard]] std::span<const IndexKernel> index_kernels() noexcept;

/// The first that this machine has the instructions for: there always is one.
[[nodiscard]] const IndexKernel& index_kernel_of_machine() noexcept;

/// Null if the kernel serves the resolved problem on a machine that offers `machine`, else the
/// reason, a string literal.
[[nodiscard]] const char* refusal(const IndexKernel& kernel, const IndexProblem& problem,
                                  Capabilities machine) noexcept;

/// The kernel called `name`, or without one the first that does not refuse; those whose arithmetic
/// is slow on the machine come last.
/// Errors: invalid_argument for an unknown name, unsupported with the reason
[[nodiscard]] Result<const IndexKernel*> select_index_kernel(const IndexProblem& problem,
                                                             Capabilities machine,
                                                             const MachineProfile& profile,
                                                             std::string_view name) noexcept;

}  // namespace folio::inline v1
