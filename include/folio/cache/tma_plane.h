// SPDX-License-Identifier: Apache-2.0
/// folio/cache/tma_plane.h: planes of both faces as tma/ sees them: numbers only.
#pragma once

#include <cstdint>

#include "folio/cache/paged_kv_view.h"
#include "folio/core/host_device.h"
#include "folio/tma/tile.h"

namespace folio::inline v1::tma {

/// An address as a number; never dereferenced.
FOLIO_HOST_DEVICE inline uint64_t address_of(const void* data) {
  return reinterpret_cast<uintptr_t>(data);
}

/// A plane of the run-time face: any strides, any order of heads and slots. Unbounded pages are
/// rows that follow one another.
FOLIO_HOST_DEVICE inline PlaneGeometry plane_of(const PagedKVView& view) {
  PlaneGeometry plane;
  plane.base = address_of(view.data);
  plane.dtype = view.dtype;
  plane.num_heads = view.num_heads;
  plane.head_size = view.head_size;
  plane.slot_stride_bytes = view.slot_stride_bytes;
  plane.head_stride_bytes = view.head_stride_bytes;
  const bool unbounded = view.page_size == unbounded_page_size;
  plane.is_paged = !unbounded;
  plane.num_pages = unbounded ? (view.num_pages > 0 ? 1 : 0) : view.num_pages;
  plane.page_size = unbounded ? view.num_pages : view.page_size;
  plane.page_stride_bytes =
      unbounded ? view.num_pages * view.slot_stride_bytes : view.page_stride_bytes;
  return plane;
}

/// `rows` packed rows of [heads, head_size] elements that follow one another.
FOLIO_HOST_DEVICE inline PlaneGeometry plane_of_rows(const void* data, DType dtype, int64_t rows,
                                                     int64_t num_heads, int64_t head_size) {
  PlaneGeometry plane;
  plane.base = address_of(data);
  plane.dtype = dtype;
  plane.num_heads = static_cast<int32_t>(num_heads);
  plane.head_size = static_cast<int32_t>(head_size);
  plane.num_pages = rows > 0 ? 1 : 0;
  plane.page_size = rows;
  plane.head_stride_bytes = head_size * (bit_width(dtype) / 8);
  plane.slot_stride_bytes = num_heads * plane.head_stride_bytes;
  plane.page_stride_bytes = rows * plane.slot_stride_bytes;
  plane.is_paged = false;
  return plane;
}

}  // namespace folio::inline v1::tma
