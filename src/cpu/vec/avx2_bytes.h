// SPDX-License-Identifier: Apache-2.0
/// src/cpu/vec/avx2_bytes.h: what products of bytes ask of an instruction set, for AVX2.
///
/// ISA-safe: always-inline functions only.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "cpu/vec/avx2_lanes.h"
#include "folio/core/host_device.h"

namespace folio::inline v1 {

struct Avx2Bytes : Avx2Lanes {
  static constexpr int bytes = 32;  // per register
  using B = __m256i;
  using Words = int32_t __attribute__((vector_size(32)));

  FOLIO_ALWAYS_INLINE static B load(const void* from) {
    return _mm256_loadu_si256(static_cast<const B*>(from));
  }
  /// The first `n` bytes, a multiple of 16 below a register's; zeros behind.
  FOLIO_ALWAYS_INLINE static B load_some(const void* from, int n) {
    return n == 0 ? B{}
                  : _mm256_zextsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(from)));
  }
  FOLIO_ALWAYS_INLINE static void store(void* to, B x) {
    _mm256_storeu_si256(static_cast<B*>(to), x);
  }

  /// A register of f16, side by side, as floats.
  template <class F>
  FOLIO_ALWAYS_INLINE static F widen_f16(const void* from) {
    return reinterpret_cast<F>(_mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(from))));
  }

  // ---- Patterns of four bits

  FOLIO_ALWAYS_INLINE static B low_patterns(B x) {
    return _mm256_and_si256(x, _mm256_set1_epi8(15));
  }
  FOLIO_ALWAYS_INLINE static B high_patterns(B x) { return low_patterns(_mm256_srli_epi16(x, 4)); }
  /// Of 16 bytes.
  FOLIO_ALWAYS_INLINE static B table(const int8_t* codes) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
  }
  FOLIO_ALWAYS_INLINE static B look_up(B table, B patterns) {
    return _mm256_shuffle_epi8(table, patterns);
  }

  // ---- Products. Neighbours are added in 16 bits, which saturate.

  /// i8 is multiplied as it is.
  static constexpr int signed_bias = 0;
  /// The greatest of the bytes that elements of i8 are multiplied by.
  static constexpr int signed_factor_max = 127;

  /// sum + (a - signed_bias) . b, of i8: b not -128.
  FOLIO_ALWAYS_INLINE static Words dot_signed(Words sum, B a, B b) {
    return whole(sum, _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(b, a)));
  }
  /// Sums that are not whole yet: 16 bits each, with room for so many products of bytes with codes
  /// of four bits; for one with i8 times signed_factor_max.
  using Partial = B;
  static constexpr int partial_max = 4;
  /// sum + a . b: a of u8, b of i8.
  FOLIO_ALWAYS_INLINE static Partial add_products(Partial sum, B a, B b) {
    return _mm256_add_epi16(sum, _mm256_maddubs_epi16(a, b));
  }
  /// The words of both.
  FOLIO_ALWAYS_INLINE static Words whole(Words sum, Partial partial) {
    return sum + words(_mm256_madd_epi16(partial, _mm256_set1_epi16(1)));
  }

  // ---- Order

  /// Bytes of four registers side by side, in each 16 bytes: register j gets the bytes 4 j to 4 j +
  /// 3 of all, those of one place in a word.
  FOLIO_ALWAYS_INLINE static void interleave(B (&x)[4]) {
    const B a = _mm256_unpacklo_epi8(x[0], x[1]), b = _mm256_unpackhi_epi8(x[0], x[1]);
    const B c = _mm256_unpacklo_epi8(x[2], x[3]), d = _mm256_unpackhi_epi8(x[2], x[3]);
    x[0] = _mm256_unpacklo_epi16(a, c);
    x[1] = _mm256_unpackhi_epi16(a, c);
    x[2] = _mm256_unpacklo_epi16(b, d);
    x[3] = _mm256_unpackhi_epi16(b, d);
  }
  /// Words of four registers side by side, in each 16 bytes: register j gets word j of all.
  FOLIO_ALWAYS_INLINE static void interleave_words(B (&x)[4]) {
    const B a = _mm256_unpacklo_epi32(x[0], x[1]), b = _mm256_unpackhi_epi32(x[0], x[1]);
    const B c = _mm256_unpacklo_epi32(x[2], x[3]), d = _mm256_unpackhi_epi32(x[2], x[3]);
    x[0] = _mm256_unpacklo_epi64(a, c);
    x[1] = _mm256_unpackhi_epi64(a, c);
    x[2] = _mm256_unpacklo_epi64(b, d);
    x[3] = _mm256_unpackhi_epi64(b, d);
  }
  /// Word i of an array for each 16 bytes, four times.
  FOLIO_ALWAYS_INLINE static B spread(const uint32_t* const (&of)[2], int i) {
    return _mm256_blend_epi32(_mm256_set1_epi32(static_cast<int>(of[0][i])),
                              _mm256_set1_epi32(static_cast<int>(of[1][i])), 0xf0);
  }
  /// Of two registers the sums of their 16 byte lanes, side by side.
  template <class F>
  FOLIO_ALWAYS_INLINE static void store_lane_sums(float* to, const F (&x)[2]) {
    const auto a = reinterpret_cast<__m256>(x[0]), b = reinterpret_cast<__m256>(x[1]);
    _mm256_storeu_ps(
        to, _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31)));
  }
  /// Numbers of 0 to 255 as bytes.
  template <class U>
  FOLIO_ALWAYS_INLINE static void store_bytes(void* to, const U (&x)[4]) {
    const auto pair = [&x](int i) {
      return _mm256_packus_epi32(reinterpret_cast<B>(x[i]), reinterpret_cast<B>(x[i + 1]));
    };
    store(to, _mm256_permutevar8x32_epi32(_mm256_packus_epi16(pair(0), pair(2)),
                                          _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
  }

 private:
  FOLIO_ALWAYS_INLINE static Words words(B x) { return reinterpret_cast<Words>(x); }
};

}  // namespace folio::inline v1
