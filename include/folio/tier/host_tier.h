// SPDX-License-Identifier: Apache-2.0
/// folio/tier/host_tier.h: pages in the host's memory.
#pragma once

#include <memory>

#include "folio/tier/tier.h"

namespace folio::inline v1::tier {

/// Of `TierOptions::max_bytes`, at most: taken as pages come, page by page, and given back when
/// they go. The page that goes is the one used longest ago of those that no page there continues
/// (`TierPage::parent`), so that prefixes lose their end first; a page for which only those could
/// go that it continues itself ends as full. Errors: invalid_argument for options out of range;
/// out_of_memory
[[nodiscard]] FOLIO_EXPORT Result<std::unique_ptr<Tier>> make_host_tier(
    const TierOptions& options) noexcept;

/// What a page of so many bytes takes of `max_bytes`: with its header. A tier of n times that keeps
/// n such pages. Errors: invalid_argument for page_bytes out of 1 .. 2^40
[[nodiscard]] FOLIO_EXPORT Result<int64_t> host_record_bytes(int64_t page_bytes) noexcept;

}  // namespace folio::inline v1::tier

namespace folio::inline v1 {  // flat names, for one release
using tier::host_record_bytes;
using tier::make_host_tier;
}  // namespace folio::inline v1
