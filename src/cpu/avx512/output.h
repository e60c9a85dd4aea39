// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/output.h: f32 results to the type of the output, rounded to nearest even.
///
/// ISA-safe: always-inline functions only.
#pragma once

#include "cpu/avx512/widen.h"

namespace folio::inline v1::avx512 {

struct Output {
  /// output * factor, without negative zeros.
  FOLIO_ALWAYS_INLINE static __m512 scaled(__m512 output, float factor) {
    return _mm512_add_ps(_mm512_mul_ps(output, splat(factor)), _mm512_setzero_ps());
  }

  /// `n` floats, in whole vectors, to elements of f32, bf16 or f16; nothing behind them is written.
  FOLIO_ALWAYS_INLINE static void narrow_output(DType dtype, const float* from, std::byte* to,
                                                int n) {
    for (int i = 0; i < n; i += 16) {
      const __mmask16 count = n - i >= 16 ? all_lanes : static_cast<__mmask16>((1u << (n - i)) - 1);
      const __m512 x = _mm512_loadu_ps(from + i);
      switch (dtype) {
        case DType::f32: _mm512_mask_storeu_ps(to + int64_t{i} * 4, count, x); break;
        case DType::bf16: _mm256_mask_storeu_epi16(to + int64_t{i} * 2, count, to_bf16(x)); break;
        default:
          _mm256_mask_storeu_epi16(to + int64_t{i} * 2, count,
                                   _mm512_maskz_cvtps_ph(all_lanes, x, _MM_FROUND_TO_NEAREST_INT));
      }
    }
  }

 private:
  /// By integers: subnormals stay, NaN stays NaN.
  FOLIO_ALWAYS_INLINE static __m256i to_bf16(__m512 x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i upper = _mm512_maskz_srli_epi32(all_lanes, bits, 16);
    const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_maskz_srli_epi32(
        all_lanes, _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff)), 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512i words = _mm512_mask_or_epi32(rounded, nan, upper, _mm512_set1_epi32(0x40));
    return _mm512_maskz_cvtepi32_epi16(all_lanes, words);
  }
};

}  // namespace folio::inline v1::avx512
