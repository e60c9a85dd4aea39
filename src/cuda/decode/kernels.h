// SPDX-License-Identifier: Apache-2.0
/// src/cuda/decode/kernels.h: what the decode kernel serves, and which of its instances: K and V of
/// 16 bits in planes of their own, head sizes 64, 128 and 256, every mask and term, any number of
/// rows.
///
/// Plain C++: host code of the kernel list.
#pragma once

#include "cuda/attention/instances.h"
#include "cuda/attention_kernel.h"
#include "folio/attention/problem.h"
#include "kernel/support.h"

namespace folio::cuda {

inline constexpr Support supports_decode = supports_planes;

/// Rows do not influence one another, and spans begin at absolute multiples.
inline constexpr Reproducible decode_promises = Reproducible::per_query;

/// Null if the kernel has an instance of these shapes and types, else why not. Takes problems that
/// `supports_decode` holds.
[[nodiscard]] const char* refuse_decode(const AttentionProblem& problem) noexcept;

extern const DeviceKernel decode_kernel;

/// By tensor maps: masks without sink tokens, and sink logits; page sizes that divide 16 or that 16
/// divides.
inline constexpr Support supports_decode_tiles = {
    .features = {Feature::value_plane, Feature::window, Feature::lookahead, Feature::chunks,
                 Feature::sink_logits},
    .q = {DType::bf16, DType::f16},
    .key = {DType::bf16, DType::f16},
    .value = {DType::bf16, DType::f16},
    .out = {DType::f32, DType::bf16, DType::f16},
    .plane_alignment = 16};

[[nodiscard]] const char* refuse_decode_tiles(const AttentionProblem& problem) noexcept;

extern const DeviceKernel decode_tiles_kernel;

}  // namespace folio::cuda
