// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/stage_convert.h: 64 bytes of a stored row, and what 8-bit elements are in bf16.
///
/// ISA-safe: templates on a tag type.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "cpu/convert/byte_rows.h"
#include "folio/core/dtype.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::amx {

template <class I, DType D>
struct Stored : BytesAsBf16<I, D> {
  static constexpr int bytes = 1;
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
