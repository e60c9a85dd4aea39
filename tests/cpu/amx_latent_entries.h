// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/amx_latent_entries.h: the AMX kernel for latent heads on emulated tiles, for any machine with AVX512-BF16.
#pragma once

#include "cpu/kernel.h"

namespace folio::test {

void run_latent_emulated(const KernelCall& call, const Task& task, void* scratch, std::byte* partials) noexcept;
void finish_latent_emulated(const KernelCall& call, const Task& task, void* scratch, const std::byte* partials) noexcept;

}  // namespace folio::test
