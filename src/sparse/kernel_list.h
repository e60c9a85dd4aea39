// SPDX-License-Identifier: Apache-2.0
/// src/sparse/kernel_list.h: every index kernel of this build, best first.
#pragma once

#include <span>

#include "kernel/index_kernel.h"

namespace folio::inline v1 {

[[nodiscard]] std::span<const IndexKernel> index_kernels() noexcept;

/// The first that this machine has the instructions for: there always is one.
[[nodiscard]] const IndexKernel& index_kernel_of_machine() noexcept;

}  // namespace folio::inline v1
