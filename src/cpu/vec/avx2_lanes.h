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
};

}  // namespace folio::inline v1
