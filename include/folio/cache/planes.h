// SPDX-License-Identifier: Apache-2.0
/// folio/cache/planes.h: sizes and views of the seeds' storage tensor, and the byte runs of a page.
///
/// blocks [num_pages, kv, num_layers, page_size, num_heads, head_size], kv = 2 (K, V) or 1 (MLA);
/// scales the same with ceil(head_size / granularity) as the last extent. head_major swaps
/// page_size and num_heads. All size arithmetic is in bits. Zero points beside scales (patterns,
/// minimum) make each a pair of elements, the second of which holds the zero point: a byte, or the
/// minimum. K and V of unlike types are two shapes with is_mla, each the planes of one.
///
/// Pages may lie further apart than they are long: a pool of several groups pads them, and scales
/// may stand behind each page's elements.
///
/// Unbounded pages (page_size = unbounded_page_size) are rows of ragged tensors: blocks [kv,
/// num_layers, num_pages, num_heads, head_size], one plane after the other; a "page" is one row,
/// page stride = slot stride.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "folio/cache/paged_kv_view.h"
#include "folio/core/execution.h"
#include "folio/core/export.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

enum class StorageOrder : uint8_t {
  token_major = 0,  ///< [page, slot, head, dim], the seeds' order
  head_major = 1,   ///< [page, head, slot, dim]
};

struct KVShape {
  int32_t num_layers = 1;
  int32_t num_heads = 1;
  int32_t head_size = 128;
  int32_t page_size = 16;
  DType dtype = DType::bf16;
  bool is_mla = false;
  DType scale_dtype = DType::invalid;    ///< invalid: no scales; packed types have some
  int32_t quantization_granularity = 0;  ///< elements per scale; 0 with scales: head_size
  Zeros zeros = Zeros::none;             ///< of u4: a scale is followed by its zero point
  Hadamard hadamard = {};
  StorageOrder order = StorageOrder::token_major;
  /// Bytes from page to page of blocks: at least page_bytes, a multiple of the element; 0:
  /// page_bytes. What lies between is not touched. 0 with unbounded pages.
  int64_t page_stride_bytes = 0;
  int64_t scale_page_stride_bytes = 0;  ///< the same of scales; 0: scale_page_bytes
};

/// Bytes of one page over all layers, K and V; and of its scales (0 without); strides are not
/// looked at. Errors: invalid_argument for extents < 1, a dtype that is not supported, a negative
/// granularity, a size beyond 2^62 bits, or a page that is no whole number of bytes.
FOLIO_EXPORT Result<int64_t> page_bytes(const KVShape& shape) noexcept;
FOLIO_EXPORT Result<int64_t> scale_page_bytes(const KVShape& shape) noexcept;

/// One KVPlanes per layer over `blocks` and `scales`, which the caller owns: each as long as
/// num_pages strides, less what the last page does not fill. Null `blocks.data` gives geometry
/// only: null pointers, and scales.dtype alone tells that there will be scales. Errors:
/// invalid_argument as above, for num_pages outside [0, 2^32 - 1], a stride that is not as said, a
/// span that is too small or not aligned to its element, or scales missing or unasked for;
/// out_of_memory.
FOLIO_EXPORT Result<std::vector<KVPlanes>> make_planes(const KVShape& shape, int64_t num_pages,
                                                       MemorySpan blocks,
                                                       MemorySpan scales = {}) noexcept;

}  // namespace folio::inline v1
