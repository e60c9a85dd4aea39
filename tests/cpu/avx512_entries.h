// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/avx512_entries.h: parts of the AVX-512 kernels, behind functions that a baseline test
/// may call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/core/dtype.h"

namespace folio::test {

/// 2^x of 16 numbers, looked up or by the polynomial.
void avx512_exp2(bool looked_up, const float* x, float* to);
/// 16 stored elements to f32.
void avx512_widen(DType dtype, const void* from, float* to);
/// scores [16 keys][16 rows] of f32, with 1 to 3 vectors of rows per tile: q [steps][64], keys
/// [16][steps].
void avx512_scores(int vectors, const float* q, const float* keys, int steps, float* to);
/// The same of 48 keys for the first `rows` rows, at most 8, by the tile whose lanes are keys.
void avx512_scores_of_few(int rows, const float* q, const float* keys, int steps, float* to);

}  // namespace folio::test
