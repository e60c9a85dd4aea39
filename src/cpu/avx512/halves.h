// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/halves.h: rows of 16 bits that the products cannot multiply as they lie, made
/// words in registers (stored.h).
///
///     f32 kernel   f16, bf16: two words of each 4 bytes, exactly
///     bf16 kernel  f16, where it may be rounded: a pair of bf16, to nearest even
///
/// They are the words that staging makes, in the same chains, so bits do not depend on the way, nor
/// on the host's flush modes. ISA-safe: templates on a tag type.
#pragma once

#include "cpu/avx512/vectors.h"
#include "folio/core/dtype.h"

namespace folio::inline v1::avx512 {

template <class I, DType D>
class Halves {
  static_assert(D == DType::f16 || (D == DType::bf16 && I::per_word == 1));

 public:
  static constexpr bool is_widened = true;
  static constexpr int words_each = 2 / I::per_word;
  static constexpr int vector_bytes = 32;

  FOLIO_ALWAYS_INLINE void words(__m512i four_bytes, __m512i (&to)[words_each]) const {
    if constexpr (I::per_word == 2) {
      to[0] = I::rounded(widened(lower(four_bytes)), widened(upper(four_bytes)));
    } else if constexpr (D == DType::bf16) {
      to[0] = _mm512_maskz_slli_epi32(all_lanes, four_bytes, 16);
      to[1] = _mm512_and_si512(four_bytes, _mm512_set1_epi32(static_cast<int32_t>(0xffff0000u)));
    } else {
      const __m512i apart = _mm512_maskz_permutexvar_epi16(
          ~__mmask32{0}, _mm512_load_si512(even_then_odd.index), four_bytes);
      to[0] = _mm512_castps_si512(widened(lower(apart)));
      to[1] = _mm512_castps_si512(widened(upper(apart)));
    }
  }

  /// One row of V; or two, in the order that Bf16Target::load_values gives them.
  template <int Vectors>
  FOLIO_ALWAYS_INLINE void load_values(const std::byte* row, int64_t stride,
                                       __m512i (&to)[Vectors]) const {
    if constexpr (I::per_word == 2) {
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; v += 2) {
        const std::byte* const at = row + v * vector_bytes;
        I::interleave(pair(at), pair(at + stride), to[v], to[v + 1]);
      }
    } else {
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v)
        to[v] = _mm512_castps_si512(widened(load(row + v * vector_bytes)));
    }
  }

 private:
  struct alignas(64) Order {
    uint16_t index[32] = {};
  };
  static constexpr Order make_order() {
    Order o;
    for (int i = 0; i < 32; ++i) o.index[i] = static_cast<uint16_t>(i % 16 * 2 + i / 16);
    return o;
  }
  static constexpr Order even_then_odd = make_order();

  FOLIO_ALWAYS_INLINE static __m256i load(const std::byte* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  FOLIO_ALWAYS_INLINE static __m256i lower(__m512i x) {
    return __builtin_shufflevector(x, x, 0, 1, 2, 3);
  }
  FOLIO_ALWAYS_INLINE static __m256i upper(__m512i x) {
    return __builtin_shufflevector(x, x, 4, 5, 6, 7);
  }
  FOLIO_ALWAYS_INLINE static __m512 widened(__m256i x) {
    if constexpr (D == DType::bf16)
      return _mm512_castsi512_ps(
          _mm512_maskz_slli_epi32(all_lanes, _mm512_maskz_cvtepu16_epi32(all_lanes, x), 16));
    else
      return _mm512_maskz_cvtph_ps(all_lanes, x);
  }
  /// 32 columns as bf16.
  FOLIO_ALWAYS_INLINE static __m512i pair(const std::byte* from) {
    return I::rounded(widened(load(from)), widened(load(from + vector_bytes)));
  }
};

}  // namespace folio::inline v1::avx512
