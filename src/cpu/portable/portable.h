// SPDX-License-Identifier: Apache-2.0
/// src/cpu/portable/portable.h: the plain functions that each build of the portable kernel exports,
/// and what they share.
#pragma once

#include "kernel/support.h"
#include "kernel/task.h"

namespace folio::inline v1 {

namespace portable {
inline constexpr DTypes stored_types = {DType::f32,     DType::bf16,    DType::f16,
                                        DType::f8_e4m3, DType::f8_e5m2, DType::i8};
inline constexpr Support supports = {
    .features =
        Features{Feature::value_plane, Feature::value_in_key, Feature::key_scales,
                 Feature::key_granules, Feature::value_scales, Feature::value_granules,
                 Feature::window, Feature::lookahead, Feature::chunks, Feature::sink_tokens,
                 Feature::intervals, Feature::tree, Feature::selection, Feature::selection_per_head,
                 Feature::zero_points, Feature::key_turned, Feature::value_turned} |
        every_term,
    .q = activation_types,
    .key = stored_types | packed_types | block_types,
    .value = stored_types | packed_types | block_types,
    .out = activation_types};
/// Accepts head sizes that are multiples of 8, from 8 to 576.
KernelRefuse refuse;
KernelGeometryOf geometry;
}  // namespace portable

namespace baseline {
KernelRun run_portable;
KernelFinish finish_portable;
}  // namespace baseline

namespace x86_64_v3 {
KernelRun run_portable;
KernelFinish finish_portable;
}  // namespace x86_64_v3

namespace x86_64_v4 {
KernelRun run_portable;
KernelFinish finish_portable;
}  // namespace x86_64_v4

}  // namespace folio::inline v1
