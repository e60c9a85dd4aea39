// SPDX-License-Identifier: Apache-2.0
/// src/cpu/vec/avx512_lanes.h: what Simd and Rows ask of an instruction set, for AVX-512: the base
/// of each AVX-512 object's own type.
///
/// ISA-safe: always-inline functions only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "cpu/skeleton/mutant.h"
#include "folio/core/host_device.h"

namespace folio::inline v1 {

struct Avx512Lanes {
  static constexpr int width = 16;         // floats per register
  static constexpr int score_vectors = 4;  // registers of keys (or dimensions) beside 4 rows
  static constexpr Mutant mutant = Mutant::none;
  // the unmasked forms make g++ 12 warn about its own headers
  static constexpr __mmask16 every_lane = 0xffff;

  template <class F>
  FOLIO_ALWAYS_INLINE static F fma(F a, F b, F c) {
    return reinterpret_cast<F>(_mm512_maskz_fmadd_ps(every_lane, reinterpret_cast<__m512>(a),
                                                     reinterpret_cast<__m512>(b),
                                                     reinterpret_cast<__m512>(c)));
  }
  /// Bit i: the sign of lane i.
  template <class S>
  FOLIO_ALWAYS_INLINE static __mmask16 signs(S lanes) {
    return _mm512_movepi32_mask(reinterpret_cast<__m512i>(lanes));
  }
  /// `width` 16-bit words, or bytes, zero-extended.
  template <class U>
  FOLIO_ALWAYS_INLINE static U widen16(const void* from) {
    return reinterpret_cast<U>(_mm512_maskz_cvtepu16_epi32(
        every_lane, _mm256_loadu_si256(static_cast<const __m256i*>(from))));
  }
  template <class U>
  FOLIO_ALWAYS_INLINE static U widen8(const void* from) {
    return reinterpret_cast<U>(
        _mm512_maskz_cvtepu8_epi32(every_lane, _mm_loadu_si128(static_cast<const __m128i*>(from))));
  }
  /// `width` bytes, sign-extended.
  template <class S>
  FOLIO_ALWAYS_INLINE static S widen_signed8(const void* from) {
    return reinterpret_cast<S>(
        _mm512_maskz_cvtepi8_epi32(every_lane, _mm_loadu_si128(static_cast<const __m128i*>(from))));
  }
  /// The IEEE binary16 at `from`, in every lane.
  template <class F>
  FOLIO_ALWAYS_INLINE static F splat_f16(const void* from) {
    int16_t bits;
    __builtin_memcpy(&bits, from, sizeof bits);
    return reinterpret_cast<F>(_mm512_maskz_cvtph_ps(every_lane, _mm256_set1_epi16(bits)));
  }
  /// IEEE binary16 in the low half of each lane.
  template <class F, class U>
  FOLIO_ALWAYS_INLINE static F from_f16(U x) {
    const __m256i halves = _mm512_maskz_cvtepi32_epi16(every_lane, reinterpret_cast<__m512i>(x));
    return reinterpret_cast<F>(_mm512_maskz_cvtph_ps(every_lane, halves));
  }
  /// table[i] for the indices of each lane, 0 to 15.
  template <class F, class U>
  FOLIO_ALWAYS_INLINE static F pick16(const float* table, U i) {
    return reinterpret_cast<F>(_mm512_maskz_permutexvar_ps(every_lane, reinterpret_cast<__m512i>(i),
                                                           _mm512_loadu_ps(table)));
  }
  /// The same of a table in a register, for the low four bits of each lane.
  template <class F, class U>
  FOLIO_ALWAYS_INLINE static F pick_of(const F& table, const U& i) {
    return reinterpret_cast<F>(_mm512_maskz_permutexvar_ps(every_lane, reinterpret_cast<__m512i>(i),
                                                           reinterpret_cast<__m512>(table)));
  }
};

}  // namespace folio::inline v1
