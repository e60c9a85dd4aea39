// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/avx512_bytes_entries.h: tiles of the AVX-512 bf16 kernel over 8-bit rows as they are
/// stored, and over the same rows as bf16, behind functions that a baseline test may call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/core/dtype.h"

namespace folio::test {

/// 64 rows, `stride` bytes apart, of a type: bf16, or one of 8 bits.
struct StoredRows {
  DType dtype = DType::bf16;
  const void* data = nullptr;
  int64_t stride = 0;
};

/// Elements 4 i .. 4 i + 3 of 64 become words 2 i, 2 i + 1 of two bf16: of 64 elements of 8 bits.
void avx512_words_of_bytes(DType dtype, const void* elements, uint16_t* to);
/// to[64 keys][8] = scores of `rows` rows (1, 2, 4 or 8): q [head_size / 2][rows] pairs of bf16.
void avx512_scores_of_stored(const StoredRows& keys, int head_size, int rows, const uint32_t* q,
                             float* to);
/// output[row][head_size] += the weighted rows of 64 keys: weights [rows][32 pairs], `rows` 1,
/// 2, 4 or 8, head_size a multiple of 32.
void avx512_values_of_stored(const StoredRows& values, int head_size, int rows,
                             const uint32_t* weights, float* output);

}  // namespace folio::test
