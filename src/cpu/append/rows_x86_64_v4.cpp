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
    return reinterpret_cast<U>(_mm512_ternarylogic_epi32(reinterpret_cast<__m512i>(mask),
                                                         reinterpret_cast<__m512i>(a),
                                                         reinterpret_cast<__m512i>(b), 0xca));
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
  template <class U>
  static uint32_t largest_lane(U x) {
    const auto whole = reinterpret_cast<__m512i>(x);
    const __m256i eight = _mm256_max_epu32(_mm512_maskz_extracti64x4_epi64(0xff, whole, 0),
                                           _mm512_maskz_extracti64x4_epi64(0xff, whole, 1));
    __m128i four = _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4e));
    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0xb1));
    return static_cast<uint32_t>(_mm_cvtsi128_si32(four));
  }
  template <class U>
  static void stream(std::byte* to, U x) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), reinterpret_cast<__m512i>(x));
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

 private:
  template <class U>
  static U in_order(__m512i packed) {
    return reinterpret_cast<U>(
        _mm512_maskz_permutexvar_epi64(0xff, _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), packed));
  }
};

using Writer = rows::Writer<InstructionSet>;

}  // namespace

constinit const rows::Kernel x86_64_v4::rows_kernel = {"rows_x86_64_v4", needs_x86_64_v4,
                                                       Writer::write, Writer::move};

}  // namespace folio::inline v1
