// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/widen.h: sixteen stored elements to f32, exactly, for every type and pattern.
///
/// vcvtph2ps takes subnormals at full value whatever the host's flush modes are, so the 8-bit
/// floats go through it: e5m2 is f16's upper byte, e4m3 its bits one place lower and 2^8 smaller.
/// ISA-safe: always-inline functions only.
#pragma once

#include "cpu/avx512/vectors.h"
#include "folio/core/dtype.h"

namespace folio::inline v1::avx512 {

/// The first `count` (all lanes whose bit is set) of 16 elements; the others are not read and come
/// out as zero.
template <DType D>
FOLIO_ALWAYS_INLINE __m512 widen(const std::byte* from, __mmask16 count) {
  if constexpr (D == DType::f32) {
    return _mm512_maskz_loadu_ps(count, from);
  } else if constexpr (D == DType::bf16 || D == DType::f16) {
    const __m256i words = _mm256_maskz_loadu_epi16(count, from);
    if constexpr (D == DType::f16) return _mm512_maskz_cvtph_ps(all_lanes, words);
    return _mm512_castsi512_ps(
        _mm512_maskz_slli_epi32(all_lanes, _mm512_maskz_cvtepu16_epi32(all_lanes, words), 16));
  } else {
    const __m128i bytes = _mm_maskz_loadu_epi8(count, from);
    if constexpr (D == DType::i8)
      return _mm512_maskz_cvtepi32_ps(all_lanes, _mm512_maskz_cvtepi8_epi32(all_lanes, bytes));
    const __m256i words = _mm256_maskz_cvtepu8_epi16(all_lanes, bytes);
    if constexpr (D == DType::f8_e5m2)
      return _mm512_maskz_cvtph_ps(all_lanes, _mm256_slli_epi16(words, 8));
    const __m256i magnitude = _mm256_and_si256(words, _mm256_set1_epi16(0x7f));
    const __m256i sign = _mm256_slli_epi16(_mm256_and_si256(words, _mm256_set1_epi16(0x80)), 8);
    const __mmask16 nan = _mm256_cmpeq_epi16_mask(magnitude, _mm256_set1_epi16(0x7f));
    const __m256i halves = _mm256_or_si256(_mm256_slli_epi16(magnitude, 7), sign);
    const __m512 value = _mm512_mul_ps(_mm512_maskz_cvtph_ps(all_lanes, halves), splat(256.0f));
    return _mm512_mask_mov_ps(value, nan, splat(__builtin_nanf("")));
  }
}

/// `n` elements to floats; whole vectors are written, zeros behind the last element.
template <DType D>
FOLIO_ALWAYS_INLINE void widen_row(const std::byte* from, float* to, int n) {
  constexpr int bytes = bit_width(D) / 8;
  for (int i = 0; i < n; i += 16) {
    const __mmask16 count = n - i >= 16 ? all_lanes : static_cast<__mmask16>((1u << (n - i)) - 1);
    _mm512_storeu_ps(to + i, widen<D>(from + static_cast<int64_t>(i) * bytes, count));
  }
}

}  // namespace folio::inline v1::avx512
