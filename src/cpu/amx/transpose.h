// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/transpose.h: rows and columns of elements that change places in registers.
///
/// ISA-safe: always-inline functions only.
#pragma once

#include <immintrin.h>

#include "folio/core/host_device.h"

namespace folio::inline v1::amx {

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

/// Transposes 16 x 16 dwords: calls put(i, row i of the result), four rows at a time, so that
/// registers suffice.
template <class Put>
FOLIO_ALWAYS_INLINE void transpose_dwords(__m512i (&rows)[16], const Put& put) {
  constexpr __mmask16 every = 0xffff;
  for (int q = 0; q < 4; ++q) {
    __m512i four[4] = {rows[4 * q], rows[4 * q + 1], rows[4 * q + 2], rows[4 * q + 3]};
    transpose_lanes<32>(four);  // lane l of four[j]: dword 4 l + j of rows 4 q ... 4 q + 3
    for (int j = 0; j < 4; ++j) rows[4 * q + j] = four[j];
  }
  for (int j = 0; j < 4; ++j) {
    const __m512i a = _mm512_maskz_shuffle_i32x4(every, rows[j], rows[4 + j], 0x44);
    const __m512i b = _mm512_maskz_shuffle_i32x4(every, rows[j], rows[4 + j], 0xee);
    const __m512i c = _mm512_maskz_shuffle_i32x4(every, rows[8 + j], rows[12 + j], 0x44);
    const __m512i d = _mm512_maskz_shuffle_i32x4(every, rows[8 + j], rows[12 + j], 0xee);
    put(j, _mm512_maskz_shuffle_i32x4(every, a, c, 0x88));
    put(4 + j, _mm512_maskz_shuffle_i32x4(every, a, c, 0xdd));
    put(8 + j, _mm512_maskz_shuffle_i32x4(every, b, d, 0x88));
    put(12 + j, _mm512_maskz_shuffle_i32x4(every, b, d, 0xdd));
  }
}

}  // namespace folio::inline v1::amx
