// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/kernels.h: the entries of the AVX-512 kernels.
#pragma once

#include "kernel/support.h"
#include "kernel/task.h"

namespace folio::inline v1::avx512 {

/// Of both.
inline constexpr Features features =
    Features{Feature::value_plane,  Feature::value_in_key,      Feature::key_scales,
             Feature::key_granules, Feature::value_scales,      Feature::value_granules,
             Feature::window,       Feature::lookahead,         Feature::chunks,
             Feature::sink_tokens,  Feature::intervals,         Feature::tree,
             Feature::selection,    Feature::selection_per_head} |
    every_term;
inline constexpr DTypes byte_types = {DType::f8_e4m3, DType::f8_e5m2, DType::i8};
/// Accept head sizes that are multiples of 8, from 8 to 576.
KernelRefuse refuse;

/// attention_avx512_f32: everything in float32. q and out f32, bf16 or f16; K and V any stored
/// type, any scales.
inline constexpr Support supports_f32 = {.features = features,
                                         .q = activation_types,
                                         .key = activation_types | byte_types | block_types,
                                         .value = activation_types | byte_types | block_types,
                                         .out = activation_types};
KernelGeometryOf geometry_f32;
KernelRun run_f32;
KernelFinish finish_f32;

/// attention_avx512_bf16: products of bf16. q bf16; K and V bf16, 8-bit or blocks, any scales; all
/// of them f32 and f16, where they may be rounded; out f32, bf16 or f16.
inline constexpr Support supports_bf16 = {.features = features,
                                          .q = DType::bf16,
                                          .key = byte_types | block_types | DType::bf16,
                                          .value = byte_types | block_types | DType::bf16,
                                          .out = activation_types,
                                          .rounded = activation_types};
KernelGeometryOf geometry_bf16;
KernelRun run_bf16;
KernelFinish finish_bf16;

/// attention_avx512_int8: products of integers, where the problem lets q and weights be rounded to
/// 8 bits. K and V i8, with one scale per token and head at the most; head sizes that are multiples
/// of 64, up to 256.
inline constexpr Support supports_int8 = {
    .features =
        features.without({Feature::value_in_key, Feature::key_granules, Feature::value_granules}),
    .q = activation_types,
    .key = DType::i8,
    .value = DType::i8,
    .out = activation_types};
KernelRefuse refuse_int8;
KernelGeometryOf geometry_int8;
KernelRun run_int8;
KernelFinish finish_int8;

}  // namespace folio::inline v1::avx512
