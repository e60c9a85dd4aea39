// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/copied_rows.h: rows copied side by side as they are stored, in whole lines.
///
/// ISA-safe: always-inline functions only.
#pragma once

#include <immintrin.h>

#include "folio/attention/kv_buffer/page_cursor.h"

namespace folio::inline v1::avx512 {

/// So many rows of so many lines each, to rows without gaps.
FOLIO_ALWAYS_INLINE void copy_lines(const TileRows& rows, int count, int lines, std::byte* to) {
  const std::byte* from = rows.data;
  for (int r = 0; r < count; ++r, from += rows.stride_bytes)
    for (int i = 0; i < lines; ++i, to += 64)
      _mm512_storeu_si512(to, _mm512_loadu_si512(from + i * 64));
}

}  // namespace folio::inline v1::avx512
