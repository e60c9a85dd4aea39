// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/index.h: the plain functions that each build of the portable index kernel exports,
/// and what they share.
#pragma once

#include "cpu/portable/portable.h"
#include "kernel/index_kernel.h"

namespace folio::inline v1 {

namespace indexer {
/// Of K, as the portable attention kernel reads it; a plane is its own V here.
inline constexpr Support supports = {
    .features =
        Features{Feature::value_in_key, Feature::key_scales, Feature::key_granules,
                 Feature::zero_points, Feature::key_turned, Feature::value_turned, Feature::window,
                 Feature::lookahead, Feature::chunks, Feature::sink_tokens, Feature::intervals},
    .q = activation_types,
    .key = portable::stored_types | packed_types | block_types,
    .out = activation_types};
/// Accepts head sizes that are multiples of 8, from 8 to 576, and lists of queries.
IndexRefuse refuse;
IndexGeometryOf geometry;
}  // namespace indexer

namespace baseline {
ScoreTask score_index;
SelectTask select_index;
CollectScores collect_scores;
}  // namespace baseline

namespace x86_64_v3 {
ScoreTask score_index;
SelectTask select_index;
CollectScores collect_scores;
}  // namespace x86_64_v3

namespace x86_64_v4 {
ScoreTask score_index;
SelectTask select_index;
CollectScores collect_scores;
}  // namespace x86_64_v4

}  // namespace folio::inline v1
