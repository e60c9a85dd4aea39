// SPDX-License-Identifier: Apache-2.0
/// tests/tma/planes.h: planes of caches that exist as numbers only.
#pragma once

#include <cstdint>

#include "folio/tma/tile.h"

namespace folio::test {

struct CacheShape {
  DType dtype = DType::bf16;
  int32_t num_heads = 2;
  int32_t head_size = 128;
  int64_t page_size = 16;
  int64_t num_pages = 5;
  int32_t num_layers = 3;
  int32_t kv = 2;
  bool head_major = false;
};

inline constexpr uint64_t storage = 0x7f00'0000'0000;

/// K (kv 0) or V (kv 1) of a layer of the storage tensor [pages, kv, layers, slots, heads, dim] at
/// `storage`.
inline tma::PlaneGeometry plane_of(const CacheShape& c, int kv = 0, int layer = 0) {
  const int64_t head_bytes = int64_t{c.head_size} * bit_width(c.dtype) / 8,
                row_bytes = c.num_heads * head_bytes;
  const int64_t plane_bytes = c.page_size * row_bytes;
  tma::PlaneGeometry plane;
  plane.base = storage + static_cast<uint64_t>((int64_t{kv} * c.num_layers + layer) * plane_bytes);
  plane.dtype = c.dtype;
  plane.num_heads = c.num_heads;
  plane.head_size = c.head_size;
  plane.num_pages = c.num_pages;
  plane.page_size = c.page_size;
  plane.page_stride_bytes = int64_t{c.kv} * c.num_layers * plane_bytes;
  plane.slot_stride_bytes = c.head_major ? head_bytes : row_bytes;
  plane.head_stride_bytes = c.head_major ? c.page_size * head_bytes : head_bytes;
  return plane;
}

/// `rows` packed rows that follow one another.
inline tma::PlaneGeometry rows_of(DType dtype, int64_t rows, int32_t num_heads, int32_t head_size) {
  tma::PlaneGeometry plane = plane_of({dtype, num_heads, head_size, rows, 1, 1, 1});
  plane.is_paged = false;
  return plane;
}

inline uint64_t address(const tma::PlaneGeometry& plane, int64_t page, int64_t slot, int64_t head,
                        int64_t column) {
  const int64_t offset = page * plane.page_stride_bytes + slot * plane.slot_stride_bytes +
                         head * plane.head_stride_bytes + column * plane.element_bytes();
  return plane.base + static_cast<uint64_t>(offset);
}

}  // namespace folio::test
