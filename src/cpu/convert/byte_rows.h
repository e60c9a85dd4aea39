// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/byte_rows.h: elements of 8 bits as bf16, looked up in registers by processors
/// that permute bytes (AVX512-VBMI).
///
/// bf16 has 8 significant bits and a wide exponent, so i8, e4m3 and e5m2 are exact in it,
/// subnormals, infinities and NaN included. The low 7 bits (of |x| for i8) choose from 128 entries,
/// one vpermi2b for each byte of the result; the sign is put in after that. ISA-safe: templates on
/// a tag type.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "folio/core/dtype.h"
#include "folio/core/element.h"
#include "folio/core/host_device.h"

namespace folio::inline v1 {

/// Low and high bytes of the bf16 of each 7-bit pattern.
struct alignas(64) Bf16Bytes {
  uint8_t low[128] = {};
  uint8_t high[128] = {};
};

/// Every entry is exact: from_float<bf16> rounds nothing here.
template <class Element>
consteval Bf16Bytes bf16_bytes() {
  Bf16Bytes table;
  for (int i = 0; i < 128; ++i) {
    float value = static_cast<float>(i);
    if constexpr (!std::is_same_v<Element, int8_t>)
      value = to_float(Element{static_cast<uint8_t>(i)});
    const uint16_t bits = from_float<bf16>(value).bits;
    table.low[i] = static_cast<uint8_t>(bits & 0xff);
    table.high[i] = static_cast<uint8_t>(bits >> 8);
  }
  return table;
}

template <class I, DType D>
class BytesAsBf16 {
 public:
  /// The lookup tables in registers.
  FOLIO_ALWAYS_INLINE BytesAsBf16()
      : low0_(_mm512_load_si512(table.low)),
        low1_(_mm512_load_si512(table.low + 64)),
        high0_(_mm512_load_si512(table.high)),
        high1_(_mm512_load_si512(table.high + 64)) {}

  /// Low and high bytes of 64 elements as bf16.
  FOLIO_ALWAYS_INLINE void widen(__m512i x, __m512i& low, __m512i& high) const {
    const __m512i sign = _mm512_set1_epi8(-128);
    const __m512i index = D == DType::i8 ? _mm512_maskz_abs_epi8(every_byte, x) : x;
    low = _mm512_maskz_permutex2var_epi8(every_byte, low0_, index, low1_);
    high = _mm512_maskz_permutex2var_epi8(every_byte, high0_, index, high1_);
    if (D == DType::i8)  // |-128| has the pattern of 0 in its low bits: 128 is 0x4300
      high = _mm512_mask_mov_epi8(high, _mm512_movepi8_mask(index), _mm512_set1_epi8(0x43));
    high = _mm512_maskz_ternarylogic_epi32(0xffff, high, x, sign, 0xf8);  // high | (x & sign)
  }

  /// 64 elements as floats, in their order.
  template <class F>
  FOLIO_ALWAYS_INLINE void floats(const std::byte* from, F (&to)[4]) const {
    // so that unpacking within lanes, twice, gives elements in their order
    const __m512i fours_apart =
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i low, high;
    widen(_mm512_maskz_permutexvar_epi32(0xffff, fours_apart, _mm512_loadu_si512(from)), low, high);
    const __m512i zero = _mm512_setzero_si512(),
                  first = _mm512_maskz_unpacklo_epi8(every_byte, low, high),
                  second = _mm512_maskz_unpackhi_epi8(every_byte, low, high);
    to[0] = reinterpret_cast<F>(_mm512_maskz_unpacklo_epi16(every_word, zero, first));
    to[1] = reinterpret_cast<F>(_mm512_maskz_unpackhi_epi16(every_word, zero, first));
    to[2] = reinterpret_cast<F>(_mm512_maskz_unpacklo_epi16(every_word, zero, second));
    to[3] = reinterpret_cast<F>(_mm512_maskz_unpackhi_epi16(every_word, zero, second));
  }

  /// A row of `n` elements; nothing behind either is touched.
  FOLIO_ALWAYS_INLINE void row(const std::byte* from, bf16* to, int n) const {
    // so that unpacking within lanes gives elements in their order
    const __m512i halves_apart = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    for (int i = 0; i < n; i += 64) {
      const __mmask64 there = n - i >= 64 ? every_byte : (__mmask64{1} << (n - i)) - 1;
      __m512i low, high;
      widen(_mm512_maskz_permutexvar_epi64(0xff, halves_apart,
                                           _mm512_maskz_loadu_epi8(there, from + i)),
            low, high);
      _mm512_mask_storeu_epi16(to + i, static_cast<__mmask32>(there),
                               _mm512_maskz_unpacklo_epi8(every_byte, low, high));
      _mm512_mask_storeu_epi16(to + i + 32, static_cast<__mmask32>(there >> 32),
                               _mm512_maskz_unpackhi_epi8(every_byte, low, high));
    }
  }

 private:
  static constexpr Bf16Bytes table = bf16_bytes<element_t<D>>();
  static constexpr __mmask64 every_byte = ~__mmask64{0};
  static constexpr __mmask32 every_word = ~__mmask32{0};

  __m512i low0_, low1_, high0_, high1_;
};

/// What an instruction set adds to its lanes so that Rows and ScaledRows look bytes up so.
template <class Tag>
struct ByteRows {
  template <DType D>
  FOLIO_ALWAYS_INLINE static void bytes_to_bf16(const std::byte* from, bf16* to, int n) {
    BytesAsBf16<Tag, D>().row(from, to, n);
  }
  /// What makes floats of them.
  template <DType D>
  using BytesAsFloats = BytesAsBf16<Tag, D>;
};

}  // namespace folio::inline v1
