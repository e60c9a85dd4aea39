// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/quantised_case.h: decode over 8-bit K and V on an AttentionCase, in the emulator, by
/// the instance that the problem asks for.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "cuda/decode/quantised.h"
#include "cuda/decode_run.h"

namespace folio::test {

inline constexpr ScaleOptions no_scales = {};
inline constexpr ScaleOptions per_token = {ScaleKind::token_and_head, DType::f32, 16, false};

/// Scales of `granularity` elements each, written by append.
constexpr ScaleOptions granules_of(int32_t granularity, DType dtype = DType::f32) {
  return {ScaleKind::granule, dtype, granularity, false};
}

/// 8 q heads, 2 KV heads, bf16 queries and outputs.
CaseOptions byte_case(std::vector<SequenceShape> sequences, DType stored = DType::f8_e4m3,
                      const ScaleOptions& scales = per_token, int32_t head_size = 128);

/// No rule is broken, each visible row is fetched once for each tile of query rows, no bank is met
/// twice, and the output is right.
::testing::AssertionResult is_right(AttentionCase& c, const DecodeOptions& how = {});
::testing::AssertionResult is_right(const CaseOptions& options, const DecodeOptions& how = {});
/// The same where all scales of each row are one: within the bounds of elements that are not
/// rounded.
::testing::AssertionResult is_right_unrounded(AttentionCase& c);

}  // namespace folio::test
