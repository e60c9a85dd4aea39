// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/target_bf16.h: what the AVX-512 engine asks of a kernel's target: pairs of bf16,
/// by vdpbf16ps.
///
/// ISA-safe: templates on a tag type.
#pragma once

#include "cpu/avx512/exp2.h"
#include "cpu/avx512/layout.h"
#include "cpu/avx512/output.h"
#include "cpu/convert/byte_rows.h"
#include "cpu/vec/avx512_lanes.h"

namespace folio::inline v1::avx512 {

template <class Tag>
struct Bf16Target : Avx512Lanes, ByteRows<Tag>, Output {
  static constexpr int per_word = 2;
  using Exp2 = Exp2Table;  // of weights
  static constexpr uint32_t sign_bits = 0x80008000u;

  FOLIO_ALWAYS_INLINE static __m512 multiply_add(__m512i a, __m512i b, __m512 sum) {
#ifdef __clang__  // the optimiser of clang 16 recurses without end over the intrinsic
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "vm"(b));
    return sum;
#else
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
#endif
  }
  /// Two rows of V, interleaved within 128-bit lanes: vectors 2 i and 2 i + 1 hold 32 dims in the
  /// order of `natural_order`.
  template <int Vectors>
  FOLIO_ALWAYS_INLINE static void load_values(const std::byte* row, int64_t stride,
                                              __m512i (&to)[Vectors]) {
#pragma GCC unroll 16
    for (int v = 0; v < Vectors; v += 2)
      interleave(load_now(row + v * 32), load_now(row + stride + v * 32), to[v], to[v + 1]);
  }
  /// 32 columns of both rows.
  FOLIO_ALWAYS_INLINE static void interleave(__m512i even, __m512i odd, __m512i& low,
                                             __m512i& high) {
    low = _mm512_maskz_unpacklo_epi16(~__mmask32{0}, even, odd);
    high = _mm512_maskz_unpackhi_epi16(~__mmask32{0}, even, odd);
  }
  /// 32 floats, to nearest even; subnormals become 0.
  FOLIO_ALWAYS_INLINE static __m512i rounded(__m512 low, __m512 high) {
    return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
  }
  /// Two pairs of keys.
  FOLIO_ALWAYS_INLINE static void store_weights(const __m512 (&w)[4], uint32_t* to) {
    store_two(w[0], w[1], to);
    store_two(w[2], w[3], to + Layout<2>::row_block);
  }
  /// A pair of keys.
  FOLIO_ALWAYS_INLINE static void store_two(__m512 even, __m512 odd, uint32_t* to) {
    _mm512_store_si512(to, pairs(even, odd));
  }
  /// Sixteen keys of one row.
  FOLIO_ALWAYS_INLINE static void store_row_weights(__m512 w, uint32_t* to) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(to),
                       reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(w)));
  }
  /// Subnormals become 0.
  template <class F>
  FOLIO_ALWAYS_INLINE static __m512i rounded_floats(const F& low, const F& high) {
    return rounded(reinterpret_cast<__m512>(low), reinterpret_cast<__m512>(high));
  }
  template <class U16, class F>
  FOLIO_ALWAYS_INLINE static U16 operands_of(const F& x) {
    return reinterpret_cast<U16>(_mm512_cvtneps_pbh(reinterpret_cast<__m512>(x)));
  }
  FOLIO_ALWAYS_INLINE static void natural_order(const float* output, float factor, float* to,
                                                int width) {
    for (int d = 0; d < width; d += 32) unpacked(output + d, factor, to + d);
  }
  /// The same as bf16, of `width` columns, a multiple of 32. False: one is subnormal, for which
  /// this conversion writes 0.
  FOLIO_ALWAYS_INLINE static bool natural_bf16(const float* output, float factor, std::byte* to,
                                               int width) {
    const __m512i order =
        _mm512_set_epi16(31, 30, 29, 28, 15, 14, 13, 12, 27, 26, 25, 24, 11, 10, 9, 8, 23, 22, 21,
                         20, 7, 6, 5, 4, 19, 18, 17, 16, 3, 2, 1, 0);
    __mmask16 subnormal = 0;
    for (int d = 0; d < width; d += 32) {
      const __m512 a = scaled(_mm512_load_ps(output + d), factor),
                   b = scaled(_mm512_load_ps(output + d + 16), factor);
      subnormal = _mm512_kor(subnormal, _mm512_kor(is_subnormal(a), is_subnormal(b)));
      _mm512_storeu_si512(to + d * 2,
                          _mm512_maskz_permutexvar_epi16(~__mmask32{0}, order, rounded(a, b)));
    }
    return subnormal == 0;
  }

 private:
  /// Whatever the host's flush modes.
  FOLIO_ALWAYS_INLINE static __mmask16 is_subnormal(__m512 x) {
    const __m512i bits = reinterpret_cast<__m512i>(x), one = _mm512_set1_epi32(1);
    const __m512i magnitude = _mm512_add_epi32(bits, bits);
    return _mm512_cmplt_epu32_mask(_mm512_sub_epi32(magnitude, one), _mm512_set1_epi32(0x00ffffff));
  }
  FOLIO_ALWAYS_INLINE static __m512i pairs(__m512 even, __m512 odd) {
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_maskz_permutexvar_epi16(~__mmask32{0}, order, rounded(even, odd));
  }
};

}  // namespace folio::inline v1::avx512
