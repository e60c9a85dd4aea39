// SPDX-License-Identifier: Apache-2.0
/// src/cpu/neon/kernels.h: the entries of the kernels for Arm's matrix instructions.
#pragma once

#include "cpu/portable/portable.h"

namespace folio::inline v1 {

namespace neon {
/// attention_neon_bf16: products of bf16. q bf16; K and V bf16, 8-bit or blocks, any scales; all of
/// them f32 and f16, where they may be rounded; out f32, bf16 or f16.
inline constexpr Support supports_bf16 = {
    .features = portable::supports.features,
    .q = DType::bf16,
    .key = block_types | DType::bf16 | DType::f8_e4m3 | DType::f8_e5m2 | DType::i8,
    .value = block_types | DType::bf16 | DType::f8_e4m3 | DType::f8_e5m2 | DType::i8,
    .out = activation_types,
    .rounded = activation_types};
KernelGeometryOf geometry_bf16;
}  // namespace neon

namespace arm_bf16 {
KernelRun run_portable;
KernelFinish finish_portable;
}  // namespace arm_bf16

}  // namespace folio::inline v1
