// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/output.h: sums times the factor of their row, and the order of their columns; of
/// the AMX kernels, too.
///
/// ISA-safe: always-inline functions only.
#pragma once

#include "cpu/avx512/vectors.h"

namespace folio::inline v1::avx512 {

struct Output {
  /// output * factor, without negative zeros.
  FOLIO_ALWAYS_INLINE static __m512 scaled(__m512 output, float factor) {
    return _mm512_add_ps(_mm512_mul_ps(output, splat(factor)), _mm512_setzero_ps());
  }
  /// to [32] = from [32], scaled. Unpacks of V's rows, 16-bit words within 128-bit lanes, leave the
  /// columns 0-3, 8-11, 16-19 and 24-27 in the first half, and the others in the second.
  FOLIO_ALWAYS_INLINE static void unpacked(const float* from, float factor, float* to) {
    const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i high =
        _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    const __m512 a = scaled(_mm512_load_ps(from), factor),
                 b = scaled(_mm512_load_ps(from + 16), factor);
    _mm512_store_ps(to, _mm512_maskz_permutex2var_ps(all_lanes, a, low, b));
    _mm512_store_ps(to + 16, _mm512_maskz_permutex2var_ps(all_lanes, a, high, b));
  }
};

}  // namespace folio::inline v1::avx512
