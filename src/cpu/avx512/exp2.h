// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/exp2.h: powers of two of sixteen lanes, in two accuracies.
///
/// 2^x is 2^n times what a method gives for the rest, x - n. Beside products of bf16 only
/// multiply-adds cost anything (docs/records/avx512_zen5.md), so the method of weights that become
/// bf16 has one of them and looks the rest up. ISA-safe: always-inline functions only.
#pragma once

#include "cpu/avx512/vectors.h"

namespace folio::inline v1::avx512 {

/// About the nearest integer, a polynomial with 2^0 exactly 1, fitted to the least relative error:
/// 9.2e-8.
struct Exp2Polynomial {
  static constexpr int degree = 5;
  static constexpr float c[degree + 1] = {1.0f,          0.693147004f,   0.240222424f,
                                          0.0555073358f, 0.00967151299f, 0.00132647273f};

  FOLIO_ALWAYS_INLINE static __m512 nearest(__m512 x) {
    return _mm512_maskz_roundscale_ps(all_lanes, x, 0x08);
  }
  /// 2^(x - n), n from `nearest`
  FOLIO_ALWAYS_INLINE static __m512 rest(__m512 x, __m512 n) {
    const __m512 r = _mm512_sub_ps(x, n);
    __m512 p = splat(c[degree]);
    for (int i = degree - 1; i >= 0; --i) p = _mm512_fmadd_ps(p, r, splat(c[i]));
    return p;
  }
};

/// About the nearest multiple n of 1 / 32, the tangent: relative error 5.9e-5, for weights that
/// are rounded to 8 bits.
struct Exp2Table {
  static constexpr int points = 32;
  /// 2^(i / 32) and the slope there.
  alignas(64) static constexpr float value[points] = {
      1.0f,        1.0218972f,  1.04427373f, 1.06714046f, 1.09050775f, 1.1143868f,  1.13878858f,
      1.1637249f,  1.18920708f, 1.21524739f, 1.24185777f, 1.26905096f, 1.29683959f, 1.32523668f,
      1.35425556f, 1.38390994f, 1.41421354f, 1.44518077f, 1.47682619f, 1.50916445f, 1.54221082f,
      1.5759809f,  1.61049032f, 1.64575553f, 1.68179286f, 1.71861935f, 1.75625217f, 1.79470909f,
      1.8340081f,  1.87416768f, 1.91520655f, 1.95714414f};
  alignas(64) static constexpr float slope[points] = {
      0.693147182f, 0.708325148f, 0.723835409f, 0.739685357f, 0.755882382f, 0.772434056f,
      0.789348125f, 0.806632578f, 0.82429558f,  0.842345297f, 0.860790253f, 0.879639089f,
      0.898900688f, 0.918584049f, 0.938698411f, 0.959253252f, 0.980258167f, 1.00172305f,
      1.02365792f,  1.04607308f,  1.06897914f,  1.09238672f,  1.11630678f,  1.14075077f,
      1.16573f,     1.19125617f,  1.21734118f,  1.24399757f,  1.27123749f,  1.29907405f,
      1.32752001f,  1.35658896f};

  FOLIO_ALWAYS_INLINE static __m512 nearest(__m512 x) {
    return _mm512_maskz_roundscale_ps(all_lanes, x, 0x58);
  }
  /// 2^(x - floor(n)), n from `nearest`
  FOLIO_ALWAYS_INLINE static __m512 rest(__m512 x, __m512 n) {
    // 32 n, of which a look-up uses the five lowest bits
    const __m512i i = reinterpret_cast<__m512i>(_mm512_add_ps(n, splat(0x1.8p18f)));
    return _mm512_fmadd_ps(look_up(slope, i), _mm512_sub_ps(x, n), look_up(value, i));
  }

 private:
  FOLIO_ALWAYS_INLINE static __m512 look_up(const float* table, __m512i i) {
    return _mm512_permutex2var_ps(_mm512_load_ps(table), i, _mm512_load_ps(table + 16));
  }
};

/// 2^x in the lanes of a mask, for x above -1000; 0 beside it.
template <class Method>
FOLIO_ALWAYS_INLINE __m512 exp2_masked(__m512 x, __mmask16 kept) {
  const __m512 n = Method::nearest(x);
  return _mm512_maskz_scalef_ps(kept, Method::rest(x, n), n);  // which takes the floor of n
}

/// 2^x: exactly 1 at 0, 0 below -126 (so 0 at -inf), NaN for NaN.
template <class Method>
FOLIO_ALWAYS_INLINE __m512 exp2(__m512 x) {
  return exp2_masked<Method>(x, _mm512_cmp_ps_mask(x, splat(-126.0f), _CMP_NLT_UQ));
}
/// The same, but subnormal instead of 0 below -126, down to where 0 is nearest; without a mask.
template <class Method>
FOLIO_ALWAYS_INLINE __m512 exp2_to_subnormal(__m512 x) {
  return exp2_masked<Method>(max(splat(-160.0f), x), all_lanes);
}
FOLIO_ALWAYS_INLINE float exp2_one(float x) {
  return _mm512_cvtss_f32(exp2<Exp2Polynomial>(splat(x)));
}

}  // namespace folio::inline v1::avx512
