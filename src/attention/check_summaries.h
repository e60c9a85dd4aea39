// SPDX-License-Identifier: Apache-2.0
/// src/attention/check_summaries.h: the border checks of summaries of pages, alone and beside the
/// plane that they are of.
#pragma once

#include "folio/cache/page_summaries.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

/// Errors: invalid_argument, "<function>: summaries..."; unsupported for a head_size above 4096.
[[nodiscard]] Status check_summaries(const char* function, const PageSummaries& summaries) noexcept;

/// The same, for those that are made of the pages of `key`, which has passed its own checks.
/// Errors: as above, and invalid_argument for another geometry, or places that rows share.
[[nodiscard]] Status check_summaries(const char* function, const PagedKVView& key,
                                     const PageSummaries& summaries) noexcept;

}  // namespace folio::inline v1
