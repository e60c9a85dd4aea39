// SPDX-License-Identifier: Apache-2.0
/// tests/attention/amx_emulated_kernels.h: the AMX kernels on emulated tiles: their own source, for any machine with AVX512-BF16.
#pragma once

#include "cpu/kernel.h"

namespace folio::test {

void run_grouped_emulated(const KernelCall& call, const Task& task, void* scratch, std::byte* partials) noexcept;
void finish_grouped_emulated(const KernelCall& call, const Task& task, void* scratch, const std::byte* partials) noexcept;

}  // namespace folio::test
