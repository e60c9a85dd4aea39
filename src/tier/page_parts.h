// SPDX-License-Identifier: Apache-2.0
/// tier/page_parts.h: where a page's rows, and what stands beside them, begin and end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "cache/granule_bytes.h"
#include "folio/cache/paged_kv_view.h"

namespace folio::inline v1::tier {

/// From the first byte that a page has of something to behind its last one.
struct PagePart {
  std::byte* begin;
  std::byte* end;

  [[nodiscard]] bool meets(const PagePart& other) const {
    return std::less<>()(begin, other.end) && std::less<>()(other.begin, end);
  }
};

/// Of a plane's elements.
[[nodiscard]] PagePart part_of_rows(const PagedKVView& view, int64_t page) noexcept;
/// Of a run of each granule: of their scales, or of zero points that lie elsewhere.
[[nodiscard]] PagePart part_of_granules(const PagedKVView& view, int64_t page,
                                        const GranuleBytes::Run& run) noexcept;

}  // namespace folio::inline v1::tier
