// SPDX-License-Identifier: Apache-2.0
/// tests/attention/amx_emulated_kernels.h: the AMX kernels on emulated tiles: their own source, for
/// any machine with AVX512-BF16.
#pragma once

#include "cpu/amx/grouped/grouped.h"
#include "kernel/kernel.h"

namespace folio::test {

KernelRun run_grouped_emulated;
KernelFinish finish_grouped_emulated;

/// Those for depths above 128, compiled apart.
KernelRun run_grouped_emulated_wide;
KernelFinish finish_grouped_emulated_wide;

inline constexpr Kernel emulated_grouped{.name = "attention_grouped_amx_emulated",
                                         .needs = needs_avx512_bf16,
                                         .promises = Reproducible::per_query,
                                         .supports = grouped::supports,
                                         .refuse = grouped::refuse,
                                         .geometry = grouped::geometry,
                                         .run = run_grouped_emulated,
                                         .finish = finish_grouped_emulated,
                                         .arithmetic = Arithmetic::amx,
                                         .weights = DType::bf16,
                                         .operands = DType::bf16};

}  // namespace folio::test
