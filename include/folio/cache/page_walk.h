// SPDX-License-Identifier: Apache-2.0
/// folio/cache/page_walk.h: from a token to the bytes that hold it: the one page walk that all
/// loaders and writers share.
///
/// A walk goes run by run: `run_of` gives the longest stretch of tokens whose slots lie at one
/// stride, which is the rest of a page. Tokens of an unassigned page come as a run whose `data` is
/// null: its keys are invisible, its writes are dropped. The functions check nothing, read only
/// table entries and scales, and compile for host and device. ISA-safe: all are always inline.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/cache/page_table.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/core/dtype.h"
#include "folio/core/element.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::detail {

/// The page id of an entry that is unassigned.
inline constexpr int64_t no_page = -1;

/// The page id behind a table entry of a plane, or `no_page`.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr int64_t page_of(const PagedKVView& view,
                                                                uint32_t entry) {
  const auto page = static_cast<int64_t>(entry);
  return page < view.num_pages ? page : no_page;
}

/// Bytes from the plane's start to an element row: head `head` of slot `slot` of page `page`.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr int64_t row_offset_bytes(const PagedKVView& view,
                                                                         int64_t page, int64_t slot,
                                                                         int64_t head) {
  return page * view.page_stride_bytes + slot * view.slot_stride_bytes +
         head * view.head_stride_bytes;
}

/// The head_size elements of one head of one token. `page` is assigned.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE std::byte* row_of(const PagedKVView& view, int64_t page,
                                                        int64_t slot, int64_t head) {
  return static_cast<std::byte*>(view.data) + row_offset_bytes(view, page, slot, head);
}

/// Tokens that lie at one stride, all of one page. Row i of head h: data + i * slot_stride_bytes +
/// h * head_stride_bytes of the view.
struct PageRun {
  std::byte* data = nullptr;      ///< first token, head 0; null: the page is unassigned
  int64_t rows = 0;               ///< tokens, >= 1
  int64_t slot_stride_bytes = 0;  ///< bytes from one token to the next
  int64_t page = no_page;         ///< for scales
  int64_t slot = 0;               ///< slot of the first token in the page
};

/// The page of a sequence that holds `token`: the index of its table entry.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr int64_t logical_page_of(const PagedKVView& view,
                                                                        int64_t token) {
  return static_cast<uint32_t>(token) / static_cast<uint32_t>(view.page_size);
}

/// `run_of` where the entry of the page of `token` has been read.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE PageRun run_of_entry(const PagedKVView& view, uint32_t entry,
                                                           int64_t token, int64_t end) {
  const auto page_size = static_cast<uint32_t>(view.page_size);
  const int64_t slot = token - logical_page_of(view, token) * page_size;
  int64_t page = page_of(view, entry);
  int64_t rows = static_cast<int64_t>(page_size) - slot;
  if (rows > end - token) rows = end - token;
  if (view.page_size == unbounded_page_size && page != no_page) {
    const int64_t inside = view.num_pages - page - slot;
    if (inside <= 0) page = no_page;
    if (inside > 0 && rows > inside) rows = inside;
  }
  return {page != no_page ? row_of(view, page, slot, 0) : nullptr, rows, view.slot_stride_bytes,
          page, slot};
}

/// The run of tokens that begins with `token` of the sequence whose table row begins at `row`,
/// ending at `end` at the latest. Requires 0 <= token < end < 2^31. Reads one entry: that of the
/// page of `token`.
///
/// A plane of unbounded pages has one page per sequence, its entry being the row number of token 0:
/// the run ends with the plane.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE PageRun run_of(const PagedKVView& view, const uint32_t* row,
                                                     int64_t token, int64_t end) {
  return run_of_entry(view, row[logical_page_of(view, token)], token, end);
}

/// Bytes from the start of the scales to the one of granule `granule`.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr int64_t scale_offset_bytes(
    const ScaleView& scales, int64_t page, int64_t slot, int64_t head, int64_t granule) {
  return page * scales.page_stride_bytes + slot * scales.slot_stride_bytes +
         head * scales.head_stride_bytes + granule * scales.granule_stride_bytes;
}

/// The granule of a head's dimension.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr int32_t granule_of(const ScaleView& scales,
                                                                   int32_t dim) {
  return dim / scales.granularity;
}

/// One stored scale as float32; `dtype` is one of the five of ScaleView.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE float load_scale(const std::byte* at, DType dtype) {
  uint32_t word = 0;
  uint16_t half = 0;
  static_assert(num_scale_dtypes == 5);
  switch (dtype) {
    case DType::f32:
      __builtin_memcpy(&word, at, sizeof word);
      return __builtin_bit_cast(float, word);
    case DType::f16: __builtin_memcpy(&half, at, sizeof half); return to_float(f16{half});
    case DType::bf16: __builtin_memcpy(&half, at, sizeof half); return to_float(bf16{half});
    case DType::f8_e8m0: return to_float(f8_e8m0{static_cast<uint8_t>(*at)});
    default: return to_float(f8_e4m3{static_cast<uint8_t>(*at)});
  }
}

/// What a stored element of (page, slot, head, dim) is multiplied by, in float32: its scale times
/// the tensor's; 1 without scales.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE float scale_at(const ScaleView& scales, int64_t page,
                                                     int64_t slot, int64_t head, int32_t dim) {
  if (scales.data == nullptr) return 1.0f;
  const int64_t offset = scale_offset_bytes(scales, page, slot, head, granule_of(scales, dim));
  const float scale = load_scale(static_cast<const std::byte*>(scales.data) + offset, scales.dtype);
  return scales.tensor_scale != nullptr ? scale * *scales.tensor_scale : scale;
}

/// How the elements of a granule are read, in float32: (stored - zero) * scale + minimum.
struct GranuleReading {
  float scale = 1.0f;  ///< times the tensor's
  float zero = 0.0f;
  float minimum = 0.0f;
};

/// Of elements of `dtype` whose scale lies at `at`. u4 without zero points is less 8.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE GranuleReading reading_at(DType dtype,
                                                                const ScaleView& scales,
                                                                const std::byte* at) {
  const float tensor = scales.tensor_scale != nullptr ? *scales.tensor_scale : 1.0f;
  GranuleReading reading;
  if (scales.zeros == Zeros::in_scale) {
    uint32_t word = 0;
    __builtin_memcpy(&word, at, sizeof word);
    reading.zero = static_cast<float>(word & 15u);
    reading.scale = __builtin_bit_cast(float, word & ~15u) * tensor;
    return reading;
  }
  reading.scale = load_scale(at, scales.dtype) * tensor;
  if (scales.zeros == Zeros::patterns) {
    reading.zero = static_cast<float>(static_cast<uint8_t>(at[scales.zero_offset_bytes]) & 15u);
  } else if (scales.zeros == Zeros::minimum) {
    reading.minimum = load_scale(at + scales.zero_offset_bytes, scales.dtype) * tensor;
  } else if (dtype == DType::u4 || dtype == DType::u4_halves) {
    reading.zero = 8.0f;
  }
  return reading;
}

}  // namespace folio::inline v1::detail
