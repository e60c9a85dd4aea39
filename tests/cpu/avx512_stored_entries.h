// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/avx512_stored_entries.h: tiles of both AVX-512 kernels over rows of 8 and 16 bits that
/// they widen, and over the same rows as words, behind functions that a baseline test may call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/core/dtype.h"

namespace folio::test {

/// 64 rows. The type of an operand says which kernel: f32 or bf16.
struct StoredRows {
  DType operand = DType::f32;
  DType stored = DType::f16;  ///< the operand itself: rows are words
  const void* data = nullptr;
  int64_t stride = 0;  ///< bytes between the rows
};

/// The operands that the elements of 64 bytes become, in their order.
void avx512_words_of_stored(DType operand, DType stored, const void* elements, void* to);
/// to[64 keys][8] = scores of `rows` rows (1, 2, 4 or 8): q [words of a row][rows].
void avx512_scores_of_stored(const StoredRows& keys, int head_size, int rows, const uint32_t* q,
                             float* to);
/// output[row][head_size] += the weighted rows of 64 keys: weights [rows][words of 64 keys], `rows`
/// 1, 2, 4 or 8, head_size a multiple of 32.
void avx512_values_of_stored(const StoredRows& values, int head_size, int rows,
                             const uint32_t* weights, float* output);

}  // namespace folio::test
