// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/amx_latent_entries.h: the AMX kernel for latent heads on emulated tiles, for any
/// machine with AVX512-BF16.
#pragma once

#include "cpu/amx/latent/latent.h"
#include "kernel/kernel.h"

namespace folio::test {

KernelRun run_latent_emulated;
KernelFinish finish_latent_emulated;

inline constexpr Kernel emulated_latent{.name = "attention_latent_amx_emulated",
                                        .needs = needs_avx512_bf16,
                                        .promises = Reproducible::per_query,
                                        .supports = latent::supports,
                                        .refuse = latent::refuse,
                                        .geometry = latent::geometry,
                                        .run = run_latent_emulated,
                                        .finish = finish_latent_emulated,
                                        .arithmetic = Arithmetic::amx,
                                        .weights = DType::bf16,
                                        .operands = DType::bf16};

}  // namespace folio::test
