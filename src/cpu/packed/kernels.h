// SPDX-License-Identifier: Apache-2.0
/// src/cpu/packed/kernels.h: the entries of the kernels that multiply codes.
#pragma once

#include "kernel/support.h"
#include "kernel/task.h"

namespace folio::inline v1 {

namespace packed {
/// attention_packed_*: products of integers, where the problem lets q and weights be rounded to 8
/// bits. K and V of four bits or i8, each by itself, turned or not; granules of whole 16 elements,
/// of `halves` 32; head sizes that are multiples of 32, up to 256.
inline constexpr Support supports = {
    .features =
        Features{Feature::value_plane, Feature::key_scales, Feature::key_granules,
                 Feature::value_scales, Feature::value_granules, Feature::zero_points,
                 Feature::key_turned, Feature::value_turned, Feature::window, Feature::lookahead,
                 Feature::chunks, Feature::sink_tokens, Feature::intervals, Feature::tree,
                 Feature::selection, Feature::selection_per_head} |
        every_term,
    .q = activation_types,
    .key = packed_types | DType::i8,
    .value = packed_types | DType::i8,
    .out = activation_types};
KernelRefuse refuse;
}  // namespace packed

namespace x86_64_v3 {
KernelGeometryOf geometry_packed;
KernelRun run_packed;
KernelFinish finish_packed;
}  // namespace x86_64_v3

namespace avx512 {
KernelGeometryOf geometry_packed;
KernelRun run_packed;
KernelFinish finish_packed;
}  // namespace avx512

}  // namespace folio::inline v1
