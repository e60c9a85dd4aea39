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
