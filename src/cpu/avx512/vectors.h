// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/vectors.h: what both AVX-512 kernels do with vectors: fill, turn, compare
/// them.
///
/// Intrinsics are used in their masked forms with a full mask where the plain ones make g++ 12 warn
/// about its own headers. ISA-safe: always-inline functions only.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "folio/core/host_device.h"

namespace folio::inline v1::avx512 {

inline constexpr __mmask16 all_lanes = 0xffff;
inline constexpr float minus_infinity = -__builtin_inff();
inline constexpr float log2_e = 1.44269504f;

FOLIO_ALWAYS_INLINE __m512 splat(float x) { return _mm512_set1_ps(x); }
/// The larger; `b` where one is NaN.
FOLIO_ALWAYS_INLINE __m512 max(__m512 a, __m512 b) { return _mm512_maskz_max_ps(all_lanes, a, b); }

FOLIO_ALWAYS_INLINE uint32_t load_word(const void* from) {
  uint32_t word;
  __builtin_memcpy(&word, from, sizeof word);
  return word;
}
/// A vector that two instructions use: of a plain load g++ 12 makes a copy on the stack for both.
FOLIO_ALWAYS_INLINE __m512i load_now(const void* from) {
  __m512i x;
  __asm__("vmovdqu64 %1, %0" : "=v"(x) : "m"(*static_cast<const __m512i_u*>(from)));
  return x;
}
/// Four bytes to all lanes.
FOLIO_ALWAYS_INLINE __m512i broadcast(const void* from) {
  return _mm512_set1_epi32(static_cast<int32_t>(load_word(from)));
}

/// Transposes the 4 x 4 words of each quarter.
FOLIO_ALWAYS_INLINE void turn_quarters(__m512 (&x)[4]) {
  const __m512d low01 = _mm512_castps_pd(_mm512_maskz_unpacklo_ps(all_lanes, x[0], x[1])),
                low23 = _mm512_castps_pd(_mm512_maskz_unpacklo_ps(all_lanes, x[2], x[3])),
                high01 = _mm512_castps_pd(_mm512_maskz_unpackhi_ps(all_lanes, x[0], x[1])),
                high23 = _mm512_castps_pd(_mm512_maskz_unpackhi_ps(all_lanes, x[2], x[3]));
  x[0] = _mm512_castpd_ps(_mm512_maskz_unpacklo_pd(0xff, low01, low23));
  x[1] = _mm512_castpd_ps(_mm512_maskz_unpackhi_pd(0xff, low01, low23));
  x[2] = _mm512_castpd_ps(_mm512_maskz_unpacklo_pd(0xff, high01, high23));
  x[3] = _mm512_castpd_ps(_mm512_maskz_unpackhi_pd(0xff, high01, high23));
}

}  // namespace folio::inline v1::avx512
