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

}  // namespace folio::inline v1::amx
