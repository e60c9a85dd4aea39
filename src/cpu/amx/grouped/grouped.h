// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped/grouped.h: the plain functions of the AMX kernel for grouped heads.
#pragma once

#include "kernel/support.h"
#include "kernel/task.h"

namespace folio::inline v1 {

namespace grouped {
/// bf16 queries; K and V of bf16, i8, f8_e4m3 or f8_e5m2 with one scale per token and head at the
/// most, or of blocks; f32 and f16 where they may be rounded.
inline constexpr DTypes stored_types = {DType::bf16, DType::i8, DType::f8_e4m3, DType::f8_e5m2};
inline constexpr Support supports = {
    .features = Features{Feature::value_plane, Feature::value_in_key, Feature::key_scales,
                         Feature::value_scales, Feature::window, Feature::lookahead,
                         Feature::chunks, Feature::sink_tokens, Feature::intervals, Feature::tree,
                         Feature::selection, Feature::selection_per_head} |
                every_term,
    .q = DType::bf16,
    .key = stored_types | block_types,
    .value = stored_types | block_types,
    .out = activation_types,
    .rounded = activation_types};
/// Accepts heads of up to 512 dims, in multiples of 8.
KernelRefuse refuse;
KernelGeometryOf geometry;
}  // namespace grouped

namespace amx_bf16 {
KernelRun run_grouped;
KernelFinish finish_grouped;

/// Its pieces: depths of up to 128, and those above.
KernelRun run_grouped_narrow;
KernelRun run_grouped_wide;
KernelFinish finish_grouped_narrow;
KernelFinish finish_grouped_wide;
}  // namespace amx_bf16

}  // namespace folio::inline v1
