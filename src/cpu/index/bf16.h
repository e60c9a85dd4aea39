// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/bf16.h: the plain functions of the index kernels that multiply pairs of bf16.
#pragma once

#include "cpu/amx/grouped/grouped.h"
#include "kernel/index_kernel.h"

namespace folio::inline v1 {

namespace indexer {
/// q bf16; K of bf16, i8, f8_e4m3 or f8_e5m2 with one scale per token and head at the most, or of
/// blocks; f32 and f16 where they may be rounded.
inline constexpr Support supports_bf16 = {
    .features = Features{Feature::value_in_key, Feature::key_scales, Feature::key_turned,
                         Feature::value_turned, Feature::window, Feature::lookahead,
                         Feature::chunks, Feature::sink_tokens, Feature::intervals},
    .q = DType::bf16,
    .key = grouped::stored_types | block_types,
    .out = activation_types,
    .rounded = activation_types};
/// Accepts head sizes that are multiples of 8, up to 512, and lists of queries.
IndexRefuse refuse_bf16;
IndexGeometryOf geometry_bf16;
}  // namespace indexer

namespace avx512_bf16 {
ScoreTask score_index;
SelectTask select_index;
CollectScores collect_scores;
}  // namespace avx512_bf16

namespace amx_bf16 {
ScoreTask score_index;
SelectTask select_index;
CollectScores collect_scores;
}  // namespace amx_bf16

}  // namespace folio::inline v1
