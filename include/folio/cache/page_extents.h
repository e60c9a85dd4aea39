// SPDX-License-Identifier: Apache-2.0
/// folio/cache/page_extents.h: the bytes of a page, for whoever moves pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "folio/cache/paged_kv_view.h"
#include "folio/core/export.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

/// A run of bytes that belong to one page: `data` + `bytes`.
struct Extent {
  std::byte* data = nullptr;
  int64_t bytes = 0;
  bool operator==(const Extent&) const = default;
};

/// The byte runs of `page` over all planes, values, per-page scales and their zero points,
/// ascending by address, adjacent runs merged: what copies, tiers and transports move. Where
/// granules are pairs of elements of the scales' type (KVShape::zeros) all their bytes are the
/// page's, the unused one behind a pattern, too. Scales shared by several pages (page stride 0), a
/// tensor_scale and channel_scales are not part of a page. Errors: invalid_argument if `page` >=
/// num_pages of a plane; out_of_memory.
FOLIO_EXPORT Result<std::vector<Extent>> page_extents(std::span<const KVPlanes> planes,
                                                      uint32_t page) noexcept;

}  // namespace folio::inline v1
