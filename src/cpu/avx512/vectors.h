// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/vectors.h: the arithmetic that both AVX-512 kernels share: powers of two,
/// sixteen bits of a mask.
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

/// Coefficients of 2^r on [-1/2, 1/2] with 2^0 exactly 1, fitted to the least relative error.
template <int Degree>
struct Exp2Polynomial;
template <>
struct Exp2Polynomial<3> {  // 1.0e-4
  static constexpr float c[4] = {1.0f, 0.693282902f, 0.242210954f, 0.0550089292f};
};
template <>
struct Exp2Polynomial<5> {  // 9.2e-8
  static constexpr float c[6] = {1.0f,          0.693147004f,   0.240222424f,
                                 0.0555073358f, 0.00967151299f, 0.00132647273f};
};

/// 2^x in the lanes of a mask, for x above -1000; 0 beside it.
template <int Degree>
FOLIO_ALWAYS_INLINE __m512 scaled_polynomial(__m512 x, __mmask16 kept) {
  using P = Exp2Polynomial<Degree>;
  const __m512 n = _mm512_maskz_roundscale_ps(all_lanes, x, 0x08);
  const __m512 r = _mm512_sub_ps(x, n);
  __m512 p = splat(P::c[Degree]);
  for (int i = Degree - 1; i >= 0; --i) p = _mm512_fmadd_ps(p, r, splat(P::c[i]));
  return _mm512_maskz_scalef_ps(kept, p, n);
}

/// 2^x: exactly 1 at 0, 0 below -126 (so 0 at -inf), NaN for NaN.
template <int Degree>
FOLIO_ALWAYS_INLINE __m512 exp2(__m512 x) {
  return scaled_polynomial<Degree>(x, _mm512_cmp_ps_mask(x, splat(-126.0f), _CMP_NLT_UQ));
}
/// The same, but subnormal instead of 0 below -126, down to where 0 is nearest; without a mask.
template <int Degree>
FOLIO_ALWAYS_INLINE __m512 exp2_to_subnormal(__m512 x) {
  return scaled_polynomial<Degree>(max(splat(-160.0f), x), all_lanes);
}
FOLIO_ALWAYS_INLINE float exp2_one(float x) { return _mm512_cvtss_f32(exp2<5>(splat(x))); }

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
