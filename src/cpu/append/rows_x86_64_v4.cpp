// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/rows_x86_64_v4.cpp: rows of tokens for x86-64-v4.
#include <immintrin.h>

#include "cpu/append/any_instruction_set.h"
#include "cpu/append/rows.h"
#include "cpu/append/writer.h"
#include "cpu/vec/avx512_lanes.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : Avx512Lanes, rows::AnyInstructionSet {
  static constexpr bool has_fma = true;
  /// mask ? a : b, bit by bit
  template <class U>
  static U select(U mask, U a, U b) {
    return reinterpret_cast<U>(_mm512_ternarylogic_epi32(reinterpret_cast<__m512i>(a),
                                                         reinterpret_cast<__m512i>(mask),
                                                         reinterpret_cast<__m512i>(b), 0xe2));
  }
  /// Of x and y > 0, or of x and y >= 0, the one that is larger (smaller) in magnitude, with x's
  /// sign. No NaN.
  template <class F>
  static F larger_magnitude(F x, F y) {
    return _mm512_maskz_range_ps(every_lane, x, y, 0x3);
  }
  template <class F>
  static F smaller_magnitude(F x, F y) {
    return _mm512_maskz_range_ps(every_lane, x, y, 0x2);
  }
  template <class F>
  static bool has_nan(const F (&x)[4]) {
    return _mm512_kortestz(_mm512_cmp_ps_mask(x[0], x[1], _CMP_UNORD_Q),
                           _mm512_cmp_ps_mask(x[2], x[3], _CMP_UNORD_Q)) == 0;
  }
  template <class S, class F>
  static S to_integers(F x) {
    return reinterpret_cast<S>(_mm512_maskz_cvtps_epi32(every_lane, x));
  }
  /// The lanes of each register joined: i and i + 8 first, then i and i + 4, and so on. A tree: the
  /// registers halve at every step.
  template <class Eight, class Lanes, class Op>
  FOLIO_ALWAYS_INLINE static Eight each_of_eight(const Lanes (&all)[8], Op op) {
    const auto join = [op](__m512i a, __m512i b) {
      auto both = reinterpret_cast<Lanes>(a);
      op(both, reinterpret_cast<Lanes>(b));
      return reinterpret_cast<__m512i>(both);
    };
    __m512i x[8];
    for (int i = 0; i < 4; ++i) {
      const auto a = reinterpret_cast<__m512i>(all[2 * i]),
                 b = reinterpret_cast<__m512i>(all[2 * i + 1]);
      x[i] = join(_mm512_maskz_shuffle_i64x2(0xff, a, b, 0x44),
                  _mm512_maskz_shuffle_i64x2(0xff, a, b, 0xee));
    }
    for (int i = 0; i < 2; ++i)
      x[i] = join(_mm512_maskz_shuffle_i64x2(0xff, x[2 * i], x[2 * i + 1], 0x88),
                  _mm512_maskz_shuffle_i64x2(0xff, x[2 * i], x[2 * i + 1], 0xdd));
    x[0] = join(_mm512_maskz_unpacklo_epi32(every_lane, x[0], x[1]),
                _mm512_maskz_unpackhi_epi32(every_lane, x[0], x[1]));
    x[0] = join(x[0], _mm512_maskz_shuffle_epi32(every_lane, x[0], _MM_PERM_BADC));
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 0, 0, 0, 0, 0, 0, 0);
    return reinterpret_cast<Eight>(_mm512_maskz_extracti64x4_epi64(
        0xff, _mm512_maskz_permutexvar_epi32(every_lane, order, x[0]), 0));
  }
  /// Finite numbers within f16, to nearest even.
  template <class Eight>
  static void eight_to_f16(Eight x, uint16_t* to) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm256_maskz_cvtps_ph(0xff, reinterpret_cast<__m256>(x),
                                           _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  /// The lowest byte of each lane.
  template <class U>
  static void put_bytes(U lanes, std::byte* to) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm512_maskz_cvtepi32_epi8(every_lane, reinterpret_cast<__m512i>(lanes)));
  }
  /// The lowest byte of each word.
  template <class Words, class Bytes>
  static void low_bytes(const Words& words, Bytes& to) {
    to = reinterpret_cast<Bytes>(
        _mm512_maskz_cvtepi16_epi8(0xffffffffu, reinterpret_cast<__m512i>(words)));
  }
  /// Bit `Bit` of each of 32 bytes.
  template <int Bit, class Bytes>
  static uint32_t bits_of_bytes(const Bytes& bytes) {
    return static_cast<uint32_t>(
        _mm256_movemask_epi8(_mm256_slli_epi16(reinterpret_cast<__m256i>(bytes), 7 - Bit)));
  }
  /// The largest integers that are not above 2 a and 2 b, in the low and high half of each lane.
  template <class Words, class F>
  static Words floors_of_twice(const F& a, const F& b) {
    // 1.5 * 2^22: the last place of the sums is 1/2
    const __m512 rounder = _mm512_set1_ps(6291456.0f);
    constexpr int down = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
    const __m512 low = _mm512_maskz_add_round_ps(every_lane, reinterpret_cast<__m512>(a), rounder,
                                                 down),
                 high = _mm512_maskz_add_round_ps(every_lane, reinterpret_cast<__m512>(b), rounder,
                                                  down);
    return low_halves(reinterpret_cast<Words>(low), reinterpret_cast<Words>(high));
  }
  /// table[i] of each word, its low 5 bits alone.
  template <class Words>
  static Words pick32(const uint16_t* table, const Words& i) {
    return reinterpret_cast<Words>(_mm512_maskz_permutexvar_epi16(
        0xffffffffu, reinterpret_cast<__m512i>(i), _mm512_loadu_si512(table)));
  }
  template <class U>
  static void stream(std::byte* to, U x) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), reinterpret_cast<__m512i>(x));
  }

  /// Of each lane the low (high) half of a, then that of b: halves swapped, half of them taken.
  template <class U>
  static U low_halves(U a, U b) {
    return reinterpret_cast<U>(_mm512_mask_shuffle_epi8(reinterpret_cast<__m512i>(a),
                                                        0xccccccccccccccccu,
                                                        reinterpret_cast<__m512i>(b), swapped()));
  }
  template <class U>
  static U high_halves(U a, U b) {
    return reinterpret_cast<U>(_mm512_mask_shuffle_epi8(reinterpret_cast<__m512i>(b),
                                                        0x3333333333333333u,
                                                        reinterpret_cast<__m512i>(a), swapped()));
  }

  /// Lanes below 2^16, words below 2^8 (signed: that fit) side by side. The instructions pack
  /// within 16 bytes; a permutation puts the parts in order.
  template <class U>
  static U pack16(U a, U b) {
    return in_order<U>(_mm512_maskz_packus_epi32(0xffffffffu, reinterpret_cast<__m512i>(a),
                                                 reinterpret_cast<__m512i>(b)));
  }
  template <class U>
  static U pack8(U a, U b) {
    return in_order<U>(_mm512_maskz_packus_epi16(~__mmask64{0}, reinterpret_cast<__m512i>(a),
                                                 reinterpret_cast<__m512i>(b)));
  }
  template <class U>
  static U pack8_signed(U a, U b) {
    return in_order<U>(_mm512_maskz_packs_epi16(~__mmask64{0}, reinterpret_cast<__m512i>(a),
                                                reinterpret_cast<__m512i>(b)));
  }
  /// Four registers of signed integers as bytes, saturated: side by side once they are put in
  /// order.
  template <class U, class S>
  static U saturated_bytes(S a, S b, S c, S d) {
    const auto words = [](S low, S high) {
      return _mm512_maskz_packs_epi32(0xffffffffu, reinterpret_cast<__m512i>(low),
                                      reinterpret_cast<__m512i>(high));
    };
    return reinterpret_cast<U>(_mm512_maskz_packs_epi16(~__mmask64{0}, words(a, b), words(c, d)));
  }
  template <class U>
  static U in_byte_order(U x) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return reinterpret_cast<U>(
        _mm512_maskz_permutexvar_epi32(every_lane, order, reinterpret_cast<__m512i>(x)));
  }

 private:
  static __m512i swapped() {
    return _mm512_set4_epi32(0x0d0c0f0e, 0x09080b0a, 0x05040706, 0x01000302);
  }
  template <class U>
  static U in_order(__m512i packed) {
    return reinterpret_cast<U>(
        _mm512_maskz_permutexvar_epi64(0xff, _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), packed));
  }
};

using Writer = rows::Writer<InstructionSet>;

}  // namespace

constinit const rows::Kernel x86_64_v4::rows_kernel = {
    "rows_x86_64_v4", needs_x86_64_v4, Writer::write, rows::Move<InstructionSet>::bytes};

}  // namespace folio::inline v1
