// SPDX-License-Identifier: Apache-2.0
/// src/cache/granule_bytes.h: the bytes that a granule has beside its elements: a scale, and the
/// zero point that stands at an offset from it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/cache/paged_kv_view.h"

namespace folio::inline v1 {

/// Of a zero point beside its scale; 0: there is none, or it is in the scale.
constexpr int64_t zero_point_bytes(const ScaleView& scales) {
  switch (scales.zeros) {
    case Zeros::patterns: return 1;
    case Zeros::minimum: return bit_width(scales.dtype) / 8;
    default: return 0;
  }
}

/// Whether granules are pairs of elements of the scales' type, as `make_planes` lays them out. Such
/// a pair goes whole, though a pattern leaves a byte of it unused.
constexpr bool has_pairs(const ScaleView& scales) {
  const int64_t element = bit_width(scales.dtype) / 8;
  return zero_point_bytes(scales) != 0 && scales.zero_offset_bytes == element &&
         scales.granule_stride_bytes == 2 * element;
}

/// Runs of bytes, counted from the first byte of the scale: where the zero point lies elsewhere,
/// two.
struct GranuleBytes {
  struct Run {
    int64_t offset = 0, bytes = 0;
  };
  Run runs[2] = {};
  size_t count = 1;

  [[nodiscard]] const Run* begin() const { return runs; }
  [[nodiscard]] const Run* end() const { return runs + count; }
};
constexpr GranuleBytes granule_bytes(const ScaleView& scales) {
  const int64_t element = bit_width(scales.dtype) / 8, zero = zero_point_bytes(scales);
  const int64_t at = scales.zero_offset_bytes;
  if (zero == 0) return {{{0, element}}, 1};
  if (has_pairs(scales)) return {{{0, 2 * element}}, 1};
  if (at == element) return {{{0, element + zero}}, 1};
  if (at == -zero) return {{{at, zero + element}}, 1};
  return {{{0, element}, {at, zero}}, 2};
}

}  // namespace folio::inline v1
