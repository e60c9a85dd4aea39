// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/rows_x86_64_v3.cpp: rows of tokens for x86-64-v3.
#include <immintrin.h>

#include "cpu/append/any_instruction_set.h"
#include "cpu/append/rows.h"
#include "cpu/append/writer.h"
#include "cpu/skeleton/mutant.h"
#include "cpu/vec/avx2_lanes.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : Avx2Lanes, rows::AnyInstructionSet {
  static constexpr bool has_fma = true;
  static constexpr Mutant mutant = Mutant::none;
  /// Of x and y > 0, or of x and y >= 0, the one that is larger (smaller) in magnitude, with x's
  /// sign. No NaN.
  template <class F>
  static F larger_magnitude(F x, F y) {
    return reinterpret_cast<F>(_mm256_or_ps(_mm256_max_ps(magnitude(x), y), sign(x)));
  }
  template <class F>
  static F smaller_magnitude(F x, F y) {
    return reinterpret_cast<F>(_mm256_or_ps(_mm256_min_ps(magnitude(x), y), sign(x)));
  }
  template <class F>
  static bool has_nan(const F (&x)[4]) {
    const __m256 any = _mm256_or_ps(_mm256_cmp_ps(x[0], x[1], _CMP_UNORD_Q),
                                    _mm256_cmp_ps(x[2], x[3], _CMP_UNORD_Q));
    return _mm256_movemask_ps(any) != 0;
  }
  template <class S, class F>
  static S to_integers(F x) {
    return reinterpret_cast<S>(_mm256_cvtps_epi32(x));
  }
  /// Bit `Bit` of each of 32 bytes.
  template <int Bit, class Bytes>
  static uint32_t bits_of_bytes(const Bytes& bytes) {
    return static_cast<uint32_t>(
        _mm256_movemask_epi8(_mm256_slli_epi16(reinterpret_cast<__m256i>(bytes), 7 - Bit)));
  }
  template <class U>
  static void stream(std::byte* to, U x) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<__m256i>(x));
  }

  /// Lanes below 2^16, words below 2^8 (signed: that fit) side by side. The instructions pack
  /// within 16 bytes; a permutation puts the parts in order.
  template <class U>
  static U pack16(U a, U b) {
    return in_order<U>(
        _mm256_packus_epi32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
  }
  template <class U>
  static U pack8(U a, U b) {
    return in_order<U>(
        _mm256_packus_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
  }
  template <class U>
  static U pack8_signed(U a, U b) {
    return in_order<U>(
        _mm256_packs_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
  }
  /// Four registers of signed integers as bytes, saturated: side by side once they are put in
  /// order.
  template <class U, class S>
  static U saturated_bytes(S a, S b, S c, S d) {
    const __m256i low = _mm256_packs_epi32(reinterpret_cast<__m256i>(a),
                                           reinterpret_cast<__m256i>(b)),
                  high = _mm256_packs_epi32(reinterpret_cast<__m256i>(c),
                                            reinterpret_cast<__m256i>(d));
    return reinterpret_cast<U>(_mm256_packs_epi16(low, high));
  }
  template <class U>
  static U in_byte_order(U x) {
    return reinterpret_cast<U>(_mm256_permutevar8x32_epi32(
        reinterpret_cast<__m256i>(x), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
  }
  /// The lanes of each register joined: i and i + 4 first, then i and i + 2, and so on. A tree: the
  /// registers halve at every step.
  template <class Eight, class Lanes, class Op>
  FOLIO_ALWAYS_INLINE static Eight each_of_eight(const Lanes (&all)[8], Op op) {
    const auto join = [op](__m256 a, __m256 b) {
      auto both = reinterpret_cast<Lanes>(a);
      op(both, reinterpret_cast<Lanes>(b));
      return reinterpret_cast<__m256>(both);
    };
    __m256 x[4];
    for (int i = 0; i < 4; ++i) {
      const auto a = reinterpret_cast<__m256>(all[2 * i]),
                 b = reinterpret_cast<__m256>(all[2 * i + 1]);
      x[i] = join(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
    }
    for (int i = 0; i < 2; ++i) {
      const auto a = reinterpret_cast<__m256d>(x[2 * i]),
                 b = reinterpret_cast<__m256d>(x[2 * i + 1]);
      x[i] = join(reinterpret_cast<__m256>(_mm256_unpacklo_pd(a, b)),
                  reinterpret_cast<__m256>(_mm256_unpackhi_pd(a, b)));
    }
    x[0] = join(_mm256_shuffle_ps(x[0], x[1], 0x88), _mm256_shuffle_ps(x[0], x[1], 0xdd));
    return reinterpret_cast<Eight>(
        _mm256_permutevar8x32_ps(x[0], _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
  }

 private:
  static __m256 sign(__m256 x) { return _mm256_and_ps(x, _mm256_set1_ps(-0.0f)); }
  static __m256 magnitude(__m256 x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }
  template <class U>
  static U in_order(__m256i packed) {
    return reinterpret_cast<U>(_mm256_permute4x64_epi64(packed, 0xd8));
  }
};

using Writer = rows::Writer<InstructionSet>;

}  // namespace

constinit const rows::Kernel x86_64_v3::rows_kernel = {
    "rows_x86_64_v3", needs_x86_64_v3, Writer::write, rows::Move<InstructionSet>::bytes};

}  // namespace folio::inline v1
