// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/stored.h: how the rows of a tile lie in memory, and how they become words in
/// registers.
///
/// Words<I>: as the products multiply them. Bytes<I, D>: 8-bit elements, each of which is a bf16
/// exactly, looked up by magnitude:
///
///     index      e4m3, e5m2: the low 7 bits; i8: |x|, whose 128 falls on the entry of 0, which is
///                zeroed apart
///     low, high  two tables of 128 bytes, the halves of a bf16, the sign put into the high one
///     words      a permutation of both for each register that rows of bf16 would have filled
///
/// A word that a product sees is the same either way, so bits are too. The products' tiles take one
/// of these types; it holds its tables in registers. ISA-safe: templates on a tag type.
#pragma once

#include "cpu/avx512/vectors.h"
#include "folio/core/element.h"

namespace folio::inline v1::avx512 {

template <class I>
struct Words {
  static constexpr bool is_widened = false;
  static constexpr int words_each = 1;                   // that 4 bytes of a row make
  static constexpr int vector_bytes = 64 / I::per_word;  // 16 columns of a row

  FOLIO_ALWAYS_INLINE void words(__m512i four_bytes, __m512i (&to)[words_each]) const {
    to[0] = four_bytes;
  }
  template <int Vectors>
  FOLIO_ALWAYS_INLINE void load_values(const std::byte* row, int64_t stride,
                                       __m512i (&to)[Vectors]) const {
    I::template load_values<Vectors>(row, stride, to);
  }
};

template <class I, DType D>
class Bytes {
  static_assert(I::per_word == 2 && bit_width(D) == 8);

 public:
  static constexpr bool is_widened = true;
  static constexpr int words_each = 2;
  static constexpr int vector_bytes = 16;

  /// Elements 0, 1 and elements 2, 3 of each four.
  FOLIO_ALWAYS_INLINE void words(__m512i four_bytes, __m512i (&to)[words_each]) const {
    const Halves x = look_up(four_bytes);
    to[0] = joined(x, word_order.byte[0]);
    to[1] = joined(x, word_order.byte[1]);
  }
  /// Two rows of V in the order that Bf16Target::load_values gives them.
  template <int Vectors>
  FOLIO_ALWAYS_INLINE void load_values(const std::byte* row, int64_t stride,
                                       __m512i (&to)[Vectors]) const {
    for (int v = 0; v < Vectors; v += 2) {
      const __m512i even = _mm512_maskz_broadcast_i64x4(0xff, load(row + v * vector_bytes));
      const Halves x =
          look_up(_mm512_maskz_inserti64x4(0xff, even, load(row + stride + v * vector_bytes), 1));
      to[v] = joined(x, value_order.byte[0]);
      to[v + 1] = joined(x, value_order.byte[1]);
    }
  }

 private:
  struct Halves {
    __m512i low, high;
  };
  struct alignas(64) Table {
    uint8_t low[128] = {}, high[128] = {};
  };
  struct alignas(64) Order {
    uint8_t byte[2][64] = {};
  };

  static constexpr Table make_magnitudes() {
    Table t;
    for (int i = 0; i < 128; ++i) {
      const auto bits = static_cast<uint8_t>(i);
      float x = 0.0f;
      if constexpr (D == DType::i8) x = i == 0 ? 128.0f : static_cast<float>(i);
      if constexpr (D == DType::f8_e4m3) x = to_float(f8_e4m3{bits});
      if constexpr (D == DType::f8_e5m2) x = to_float(f8_e5m2{bits});
      const uint32_t word = __builtin_bit_cast(uint32_t, x) >> 16;
      t.low[i] = static_cast<uint8_t>(word);
      t.high[i] = static_cast<uint8_t>(word >> 8);
    }
    return t;
  }
  /// Byte i of the halves is i of the low ones, 64 + i of the high ones.
  static constexpr Order make_word_order() {
    Order o;
    for (int word = 0; word < 2; ++word)
      for (int i = 0; i < 64; ++i)
        o.byte[word][i] = static_cast<uint8_t>(i / 4 * 4 + word * 2 + i % 4 / 2 + i % 2 * 64);
    return o;
  }
  /// Quarter l of vector v: columns 8 l + 4 v and on of the row in the lower half, each beside that
  /// of the row in the upper.
  static constexpr Order make_value_order() {
    Order o;
    for (int v = 0; v < 2; ++v)
      for (int i = 0; i < 64; ++i)
        o.byte[v][i] =
            static_cast<uint8_t>(i / 16 * 8 + v * 4 + i % 16 / 4 + i % 4 / 2 * 32 + i % 2 * 64);
    return o;
  }
  static constexpr Table magnitudes = make_magnitudes();
  static constexpr Order word_order = make_word_order(), value_order = make_value_order();

  FOLIO_ALWAYS_INLINE static __m256i load(const std::byte* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  FOLIO_ALWAYS_INLINE static Halves look_up(__m512i x) {
    const __m512i low = _mm512_load_si512(magnitudes.low),
                  low_end = _mm512_load_si512(magnitudes.low + 64),
                  high = _mm512_load_si512(magnitudes.high),
                  high_end = _mm512_load_si512(magnitudes.high + 64);
    __m512i index = x;
    __mmask64 counts = ~__mmask64{0};
    if constexpr (D == DType::i8) {
      index = _mm512_maskz_abs_epi8(counts, x);
      counts = _mm512_test_epi8_mask(x, x);
    }
    const __m512i magnitude = D == DType::i8
                                  ? _mm512_maskz_permutex2var_epi8(counts, high, index, high_end)
                                  : _mm512_permutex2var_epi8(high, index, high_end);
    constexpr int a_or_b_and_c = 0xf8;
    return {_mm512_permutex2var_epi8(low, index, low_end),
            _mm512_ternarylogic_epi32(magnitude, x, _mm512_set1_epi8(INT8_MIN), a_or_b_and_c)};
  }
  FOLIO_ALWAYS_INLINE static __m512i joined(const Halves& x, const uint8_t* order) {
    return _mm512_permutex2var_epi8(x.low, _mm512_load_si512(order), x.high);
  }
};

}  // namespace folio::inline v1::avx512
