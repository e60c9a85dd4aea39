// SPDX-License-Identifier: Apache-2.0
/// src/cpu/vec/avx512_bytes.h: what products of bytes ask of an instruction set, for AVX-512 with
/// VNNI.
///
/// ISA-safe: always-inline functions only.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "cpu/vec/avx512_lanes.h"
#include "folio/core/host_device.h"

namespace folio::inline v1 {

struct Avx512Bytes : Avx512Lanes {
  static constexpr int bytes = 64;  // per register
  using B = __m512i;
  using Words = int32_t __attribute__((vector_size(64)));

  FOLIO_ALWAYS_INLINE static B load(const void* from) { return _mm512_loadu_si512(from); }
  /// The first `n` bytes, a multiple of 16 below a register's; zeros behind.
  FOLIO_ALWAYS_INLINE static B load_some(const void* from, int n) {
    return _mm512_maskz_loadu_epi32(static_cast<__mmask16>((1u << (n / 4)) - 1), from);
  }
  FOLIO_ALWAYS_INLINE static void store(void* to, B x) { _mm512_storeu_si512(to, x); }

  /// A register of f16, side by side, as floats.
  template <class F>
  FOLIO_ALWAYS_INLINE static F widen_f16(const void* from) {
    return reinterpret_cast<F>(
        _mm512_maskz_cvtph_ps(every_lane, _mm256_loadu_si256(static_cast<const __m256i*>(from))));
  }

  // ---- Patterns of four bits

  FOLIO_ALWAYS_INLINE static B low_patterns(B x) {
    return _mm512_and_si512(x, _mm512_set1_epi8(15));
  }
  FOLIO_ALWAYS_INLINE static B high_patterns(B x) {
    return low_patterns(_mm512_maskz_srli_epi32(every_lane, x, 4));
  }
  /// Of 16 bytes.
  FOLIO_ALWAYS_INLINE static B table(const int8_t* codes) {
    return _mm512_maskz_broadcast_i32x4(every_lane,
                                        _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
  }
  FOLIO_ALWAYS_INLINE static B look_up(B table, B patterns) {
    return _mm512_maskz_shuffle_epi8(every_byte, table, patterns);
  }

  // ---- Products, exact

  /// i8 is multiplied as u8, 128 above it.
  static constexpr int signed_bias = 128;
  /// The greatest of the bytes that elements of i8 are multiplied by.
  static constexpr int signed_factor_max = 255;

  /// sum + (a - signed_bias) . b, of i8: b not -128.
  FOLIO_ALWAYS_INLINE static Words dot_signed(Words sum, B a, B b) {
    return dot(sum, _mm512_xor_si512(a, _mm512_set1_epi8(-128)), b);
  }
  /// Sums of any number of products.
  using Partial = Words;
  static constexpr int partial_max = 16;
  /// sum + a . b: a of u8, b of i8.
  FOLIO_ALWAYS_INLINE static Partial add_products(Partial sum, B a, B b) { return dot(sum, a, b); }
  /// The words of both.
  FOLIO_ALWAYS_INLINE static Words whole(Words sum, Partial partial) { return sum + partial; }

  // ---- Order

  /// Bytes of four registers side by side, in each 16 bytes: register j gets the bytes 4 j to 4 j +
  /// 3 of all, those of one place in a word.
  FOLIO_ALWAYS_INLINE static void interleave(B (&x)[4]) {
    const B a = low8(x[0], x[1]), b = high8(x[0], x[1]);
    const B c = low8(x[2], x[3]), d = high8(x[2], x[3]);
    x[0] = low16(a, c);
    x[1] = high16(a, c);
    x[2] = low16(b, d);
    x[3] = high16(b, d);
  }
  /// Words of four registers side by side, in each 16 bytes: register j gets word j of all.
  FOLIO_ALWAYS_INLINE static void interleave_words(B (&x)[4]) {
    const B a = low32(x[0], x[1]), b = high32(x[0], x[1]);
    const B c = low32(x[2], x[3]), d = high32(x[2], x[3]);
    x[0] = low64(a, c);
    x[1] = high64(a, c);
    x[2] = low64(b, d);
    x[3] = high64(b, d);
  }
  /// Word i of an array for each 16 bytes, four times.
  FOLIO_ALWAYS_INLINE static B spread(const uint32_t* const (&of)[4], int i) {
    B words = _mm512_set1_epi32(static_cast<int>(of[0][i]));
    for (int lane = 1; lane < 4; ++lane)
      words = _mm512_mask_set1_epi32(words, static_cast<__mmask16>(0xf << 4 * lane),
                                     static_cast<int>(of[lane][i]));
    return words;
  }
  /// Of two registers the sums of their 16 byte lanes, side by side.
  template <class F>
  FOLIO_ALWAYS_INLINE static void store_lane_sums(float* to, const F (&x)[2]) {
    const auto a = reinterpret_cast<__m512>(x[0]), b = reinterpret_cast<__m512>(x[1]);
    const __m512 halves = _mm512_add_ps(shuffle_lanes<0x44>(a, b), shuffle_lanes<0xee>(a, b));
    const __m512 sums = _mm512_add_ps(halves, shuffle_lanes<0xb1>(halves, halves));
    _mm256_storeu_ps(to,
                     _mm512_maskz_extractf32x8_ps(every_pair, shuffle_lanes<0x08>(sums, sums), 0));
  }
  /// Numbers of 0 to 255 as bytes.
  template <class U>
  FOLIO_ALWAYS_INLINE static void store_bytes(void* to, const U (&x)[4]) {
    for (int i = 0; i < 4; ++i)
      _mm_storeu_si128(static_cast<__m128i*>(to) + i,
                       _mm512_maskz_cvtepi32_epi8(every_lane, reinterpret_cast<__m512i>(x[i])));
  }

 private:
  FOLIO_ALWAYS_INLINE static Words dot(Words sum, B a, B b) {
    return reinterpret_cast<Words>(_mm512_dpbusd_epi32(reinterpret_cast<B>(sum), a, b));
  }

  static constexpr __mmask64 every_byte = ~__mmask64{0};
  static constexpr __mmask8 every_pair = 0xff;

  template <int Lanes>
  FOLIO_ALWAYS_INLINE static __m512 shuffle_lanes(__m512 a, __m512 b) {
    return _mm512_maskz_shuffle_f32x4(every_lane, a, b, Lanes);
  }
  FOLIO_ALWAYS_INLINE static B low32(B a, B b) {
    return _mm512_maskz_unpacklo_epi32(every_lane, a, b);
  }
  FOLIO_ALWAYS_INLINE static B high32(B a, B b) {
    return _mm512_maskz_unpackhi_epi32(every_lane, a, b);
  }
  FOLIO_ALWAYS_INLINE static B low64(B a, B b) {
    return _mm512_maskz_unpacklo_epi64(every_pair, a, b);
  }
  FOLIO_ALWAYS_INLINE static B high64(B a, B b) {
    return _mm512_maskz_unpackhi_epi64(every_pair, a, b);
  }
  FOLIO_ALWAYS_INLINE static B low8(B a, B b) {
    return _mm512_maskz_unpacklo_epi8(every_byte, a, b);
  }
  FOLIO_ALWAYS_INLINE static B high8(B a, B b) {
    return _mm512_maskz_unpackhi_epi8(every_byte, a, b);
  }
  FOLIO_ALWAYS_INLINE static B low16(B a, B b) {
    return _mm512_maskz_unpacklo_epi16(~__mmask32{0}, a, b);
  }
  FOLIO_ALWAYS_INLINE static B high16(B a, B b) {
    return _mm512_maskz_unpackhi_epi16(~__mmask32{0}, a, b);
  }
};

}  // namespace folio::inline v1
