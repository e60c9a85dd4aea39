// SPDX-License-Identifier: Apache-2.0
/// src/cuda/decode/quantised_kernels.h: what the decode kernel over 8-bit K and V serves, and which
/// of its instances: head sizes 64, 128 and 256, scales of any granularity or none, every mask and
/// term, any number of rows.
///
/// Plain C++: host code of the kernel list.
#pragma once

#include "cuda/attention_kernel.h"
#include "folio/attention/problem.h"
#include "kernel/support.h"

namespace folio::cuda {

inline constexpr Support supports_quantised_decode = {
    .features = {Feature::value_plane, Feature::key_scales, Feature::key_granules,
                 Feature::value_scales, Feature::value_granules, Feature::window,
                 Feature::lookahead, Feature::chunks, Feature::sink_tokens, Feature::intervals,
                 Feature::tree, Feature::softcap, Feature::sink_logits, Feature::alibi,
                 Feature::bias},
    .q = {DType::bf16, DType::f16},
    .key = {DType::f8_e4m3, DType::f8_e5m2, DType::i8},
    .value = {DType::f8_e4m3, DType::f8_e5m2, DType::i8},
    .out = {DType::f32, DType::bf16, DType::f16},
    .plane_alignment = 16};

/// Rows do not influence one another, and spans begin at absolute multiples.
inline constexpr Reproducible quantised_decode_promises = Reproducible::per_query;

/// Softmax weights, times the scale of V's row, are rounded to this; so are elements where scales
/// vary along a head. Kernel::weights and Kernel::operands.
inline constexpr DType quantised_decode_rounding = DType::bf16;

/// Null if the kernel has an instance of these shapes and types, else why not. Takes problems that
/// `supports_quantised_decode` holds.
[[nodiscard]] const char* refuse_quantised_decode(const AttentionProblem& problem) noexcept;

extern const DeviceKernel quantised_decode_kernel;

}  // namespace folio::cuda
