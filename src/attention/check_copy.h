// SPDX-License-Identifier: Apache-2.0
/// src/attention/check_copy.h: everything that the copies refuse of planes, on any device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "attention/check_rows.h"
#include "attention/copy_pair.h"
#include "cache/check_view.h"
#include "core/checked.h"

namespace folio::inline v1 {

/// What all planes hold, and what one token of all writes.
struct CopyBounds {
  int64_t from_pages = 0xffffffff;
  int64_t to_pages = 0xffffffff;
  int64_t page_size = unbounded_page_size;
  CheckedSize token_bytes;

  void include(const PagedKVView& from, const PagedKVView& to) {
    from_pages = std::min(from_pages, from.num_pages);
    to_pages = std::min(to_pages, to.num_pages);
    page_size = std::min<int64_t>(page_size, from.page_size);
    token_bytes += to.num_heads * row_bytes(to.dtype, to.head_size);
  }
  /// Slots of planes of one page size. There is at least one layer.
  [[nodiscard]] int64_t from_slots(std::span<const KVPlanes> from) const {
    return from_pages * slots_per_page(from[0].key);
  }
  [[nodiscard]] int64_t to_slots(std::span<const KVPlanes> to) const {
    return to_pages * slots_per_page(to[0].key);
  }
};

/// Errors: as copy_pages and copy_slots say of planes; "<function>: to[3].key...". Tensor scales
/// that are not on the CPU are not read: planes that have them in two places are checked as planes
/// that need a conversion.
[[nodiscard]] Status check_copy_planes(const char* function, CopyKind kind,
                                       std::span<const KVPlanes> from, std::span<const KVPlanes> to,
                                       Memory memory, CopyBounds& bounds) noexcept;

}  // namespace folio::inline v1
