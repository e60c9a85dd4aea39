// SPDX-License-Identifier: Apache-2.0
/// src/cpu/vec/avx2_lanes.h: what Simd and Rows ask of an instruction set, for AVX2 with FMA: the
/// base of each x86-64-v3 object's own type.
///
/// ISA-safe: always-inline functions only.
#pragma once

#include <immintrin.h>

#include "folio/core/host_device.h"

namespace folio::inline v1 {

struct Avx2Lanes {
  static constexpr int width = 8;          // floats per register
  static constexpr int score_vectors = 2;  // registers of keys (or dimensions) beside 4 rows

  template <class F>
  FOLIO_ALWAYS_INLINE static F fma(F a, F b, F c) {
    return _mm256_fmadd_ps(a, b, c);
  }
  /// Bit i: the sign of lane i.
  template <class S>
  FOLIO_ALWAYS_INLINE static int signs(S lanes) {
    return _mm256_movemask_ps(reinterpret_cast<__m256>(lanes));
  }
  /// `width` 16-bit words, or bytes, zero-extended.
  template <class U>
  FOLIO_ALWAYS_INLINE static U widen16(const void* from) {
    return reinterpret_cast<U>(
        _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(from))));
  }
  template <class U>
  FOLIO_ALWAYS_INLINE static U widen8(const void* from) {
    return reinterpret_cast<U>(
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(from))));
  }
  /// IEEE binary16 in the low half of each lane.
  template <class F, class U>
  FOLIO_ALWAYS_INLINE static F from_f16(U x) {
    const auto wide = reinterpret_cast<__m256i>(x);
    return reinterpret_cast<F>(_mm256_cvtph_ps(
        _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1))));
  }
  /// table[i] for the indices of each lane, 0 to 15.
  template <class F, class U>
  FOLIO_ALWAYS_INLINE static F pick16(const float* table, U i) {
    const auto index = reinterpret_cast<__m256i>(i);
    const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), index);
    const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), index);
    // bit 3 of the index chooses
    return reinterpret_cast<F>(
        _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(index, 28))));
  }
};

}  // namespace folio::inline v1
