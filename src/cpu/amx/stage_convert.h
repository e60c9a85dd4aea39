// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/stage_convert.h: 64 bytes of a stored row, and what 8-bit elements are in bf16.
///
/// Each 8-bit pattern is looked up: bf16 has 8 significant bits and a wide exponent, so i8, e4m3
/// and e5m2 are exact in it, subnormals, infinities and NaN included. The low 7 bits (of |x| for
/// i8) choose from 128 entries, one vpermi2b for each byte of the result; the sign is put in after
/// that. ISA-safe: templates on a tag type.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "folio/core/dtype.h"
#include "folio/core/element.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::amx {

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
struct Stored {
  static constexpr int bytes = 1;
  using Element = element_t<D>;
  static constexpr Bf16Bytes table = bf16_bytes<Element>();
  static constexpr __mmask64 every_byte = ~__mmask64{0};

  /// The lookup tables in registers.
  FOLIO_ALWAYS_INLINE Stored()
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

 private:
  __m512i low0_, low1_, high0_, high1_;
};

template <class I>
struct Stored<I, DType::bf16> {
  static constexpr int bytes = 2;
};

/// Multiplies three tiles that nobody needs. Left alone for some 300 cycles, AMX falls asleep: what
/// comes next takes three times as long for a quarter of a microsecond. A product now and then
/// costs nothing and keeps it awake. Does nothing for an I without tiles.
template <class I>
FOLIO_ALWAYS_INLINE void keep_awake() {
  if constexpr (requires { typename I::Tile; }) I::Tile::template dpbf16<7, 0, 1>();
}

/// The 64 bytes at `from` of which the first `count` belong to the row; the others are not read and
/// count as zero.
FOLIO_ALWAYS_INLINE __m512i load_bytes(const std::byte* from, int count) {
  const __mmask64 mask = count >= 64 ? ~__mmask64{0} : (__mmask64{1} << count) - 1;
  return _mm512_maskz_loadu_epi8(mask, from);
}
template <bool Whole>
FOLIO_ALWAYS_INLINE __m512i load_chunk(const std::byte* from, int count) {
  if constexpr (Whole) return _mm512_loadu_si512(from);
  return load_bytes(from, count);
}

template <int Bits>
FOLIO_ALWAYS_INLINE __m512i unpack_low(__m512i a, __m512i b) {
  if constexpr (Bits == 8) return _mm512_maskz_unpacklo_epi8(~__mmask64{0}, a, b);
  if constexpr (Bits == 16) return _mm512_maskz_unpacklo_epi16(~__mmask32{0}, a, b);
  if constexpr (Bits == 32) return _mm512_maskz_unpacklo_epi32(0xffff, a, b);
  if constexpr (Bits == 64) return _mm512_maskz_unpacklo_epi64(0xff, a, b);
}
template <int Bits>
FOLIO_ALWAYS_INLINE __m512i unpack_high(__m512i a, __m512i b) {
  if constexpr (Bits == 8) return _mm512_maskz_unpackhi_epi8(~__mmask64{0}, a, b);
  if constexpr (Bits == 16) return _mm512_maskz_unpackhi_epi16(~__mmask32{0}, a, b);
  if constexpr (Bits == 32) return _mm512_maskz_unpackhi_epi32(0xffff, a, b);
  if constexpr (Bits == 64) return _mm512_maskz_unpackhi_epi64(0xff, a, b);
}

/// Four rows of four dwords in each 128-bit lane become four columns: lane l of row j holds dword 4
/// l + j of all four rows.
template <int Bits>
FOLIO_ALWAYS_INLINE void transpose_lanes(__m512i (&rows)[4]) {
  const __m512i a = unpack_low<Bits>(rows[0], rows[1]), b = unpack_high<Bits>(rows[0], rows[1]);
  const __m512i c = unpack_low<Bits>(rows[2], rows[3]), d = unpack_high<Bits>(rows[2], rows[3]);
  rows[0] = unpack_low<2 * Bits>(a, c);
  rows[1] = unpack_high<2 * Bits>(a, c);
  rows[2] = unpack_low<2 * Bits>(b, d);
  rows[3] = unpack_high<2 * Bits>(b, d);
}

}  // namespace folio::inline v1::amx
