// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/latent/latent.h: the plain functions of the AMX kernel for latent (MLA) heads.
#pragma once

#include "kernel/support.h"
#include "kernel/task.h"

namespace folio::inline v1 {

namespace latent {
/// value_in_key with bf16 queries; rows of bf16 where they lie, of 8 bits without scales and of
/// blocks converted; f32 and f16 where they may be rounded.
inline constexpr Support supports = {
    .features = Features{Feature::value_in_key, Feature::window, Feature::lookahead,
                         Feature::chunks, Feature::sink_tokens, Feature::intervals, Feature::tree,
                         Feature::selection, Feature::selection_per_head} |
                every_term,
    .q = DType::bf16,
    .key = block_types | DTypes{DType::bf16, DType::i8, DType::f8_e4m3, DType::f8_e5m2},
    .value = {},
    .out = activation_types,
    .rounded = activation_types};
/// Accepts rows of up to 96 dims of which up to 64 are V, or of 288 to 576 of which up to 512 are
/// V, in multiples of 8.
KernelRefuse refuse;
KernelGeometryOf geometry;
}  // namespace latent

namespace amx_bf16 {
KernelRun run_latent;
KernelFinish finish_latent;
}  // namespace amx_bf16

}  // namespace folio::inline v1
