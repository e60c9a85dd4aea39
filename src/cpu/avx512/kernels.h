// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/kernels.h: the entries of the AVX-512 kernels.
#pragma once

#include "kernel/kernel.h"

namespace folio::inline v1::avx512 {

/// attention_avx512_f32: everything in float32. q and out f32, bf16 or f16; K and V any stored
/// type, any scales.
KernelRefuse refuse_f32;
KernelGeometryOf geometry_f32;
KernelRun run_f32;
KernelFinish finish_f32;

/// attention_avx512_bf16: products of bf16. q bf16; K and V bf16 or 8-bit, any scales; out f32,
/// bf16 or f16.
KernelRefuse refuse_bf16;
KernelGeometryOf geometry_bf16;
KernelRun run_bf16;
KernelFinish finish_bf16;

}  // namespace folio::inline v1::avx512
