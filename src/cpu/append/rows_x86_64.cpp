// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/rows_x86_64.cpp: rows of tokens for x86-64.
#include <emmintrin.h>

#include "cpu/append/any_instruction_set.h"
#include "cpu/append/rows.h"
#include "cpu/append/writer.h"
#include "cpu/skeleton/mutant.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : rows::AnyInstructionSet {
  static constexpr int width = 4;
  static constexpr bool has_fma = false;
  static constexpr Mutant mutant = Mutant::none;
  template <class F>
  static F fma(F a, F b, F c) {
    return a * b + c;  // only where the product is exact
  }
  template <class U>
  static U widen16(const void* from) {
    return reinterpret_cast<U>(_mm_unpacklo_epi16(
        _mm_loadl_epi64(static_cast<const __m128i*>(from)), _mm_setzero_si128()));
  }
  template <class U>
  static U widen8(const void* from) {
    int32_t bytes = 0;
    __builtin_memcpy(&bytes, from, sizeof bytes);
    const __m128i words = _mm_unpacklo_epi8(_mm_cvtsi32_si128(bytes), _mm_setzero_si128());
    return reinterpret_cast<U>(_mm_unpacklo_epi16(words, _mm_setzero_si128()));
  }
  /// Bit i: the sign of lane i.
  template <class S>
  static int signs(S lanes) {
    return _mm_movemask_ps(reinterpret_cast<__m128>(lanes));
  }
  /// table[i] for the indices of each lane, 0 to 15.
  template <class F, class U>
  static F pick16(const float* table, U i) {
    return F{table[i[0]], table[i[1]], table[i[2]], table[i[3]]};
  }
  /// Of x and y > 0, or of x and y >= 0, the one that is larger (smaller) in magnitude, with x's
  /// sign. No NaN.
  template <class F>
  static F larger_magnitude(F x, F y) {
    return reinterpret_cast<F>(_mm_or_ps(_mm_max_ps(magnitude(x), y), sign(x)));
  }
  template <class F>
  static F smaller_magnitude(F x, F y) {
    return reinterpret_cast<F>(_mm_or_ps(_mm_min_ps(magnitude(x), y), sign(x)));
  }
  template <class F>
  static bool has_nan(const F (&x)[4]) {
    return _mm_movemask_ps(_mm_or_ps(_mm_cmpunord_ps(x[0], x[1]), _mm_cmpunord_ps(x[2], x[3]))) !=
           0;
  }
  template <class S, class F>
  static S to_integers(F x) {
    return reinterpret_cast<S>(_mm_cvtps_epi32(x));
  }
  template <class U>
  static void stream(std::byte* to, U x) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), reinterpret_cast<__m128i>(x));
  }

  /// Lanes below 2^16, words below 2^8 (signed: that fit) side by side. The first instruction
  /// saturates to signed words, so the words go through it with their sign.
  template <class U>
  static U pack16(U a, U b) {
    const __m128i low = _mm_srai_epi32(_mm_slli_epi32(reinterpret_cast<__m128i>(a), 16), 16);
    const __m128i high = _mm_srai_epi32(_mm_slli_epi32(reinterpret_cast<__m128i>(b), 16), 16);
    return reinterpret_cast<U>(_mm_packs_epi32(low, high));
  }
  template <class U>
  static U pack8(U a, U b) {
    return reinterpret_cast<U>(
        _mm_packus_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
  }
  template <class U>
  static U pack8_signed(U a, U b) {
    return reinterpret_cast<U>(
        _mm_packs_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
  }
  /// Four registers of signed integers as bytes, saturated: side by side once they are put in
  /// order.
  template <class U, class S>
  static U saturated_bytes(S a, S b, S c, S d) {
    const __m128i low = _mm_packs_epi32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)),
                  high =
                      _mm_packs_epi32(reinterpret_cast<__m128i>(c), reinterpret_cast<__m128i>(d));
    return reinterpret_cast<U>(_mm_packs_epi16(low, high));
  }
  template <class U>
  static U in_byte_order(U x) {
    return x;
  }

 private:
  static __m128 sign(__m128 x) { return _mm_and_ps(x, _mm_set1_ps(-0.0f)); }
  static __m128 magnitude(__m128 x) { return _mm_andnot_ps(_mm_set1_ps(-0.0f), x); }
};

using Writer = rows::Writer<InstructionSet>;

}  // namespace

constinit const rows::Kernel x86_64::rows_kernel = {"rows_x86_64", needs_cpu, Writer::write,
                                                    rows::Move<InstructionSet>::bytes};

}  // namespace folio::inline v1
