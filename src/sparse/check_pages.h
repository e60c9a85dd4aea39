// SPDX-License-Identifier: Apache-2.0
/// src/sparse/check_pages.h: the border checks of select_pages.
#pragma once

#include "folio/core/status.h"
#include "folio/sparse/pages.h"

namespace folio::inline v1 {

/// Pages that a list can name.
inline constexpr int32_t pages_max = 4096;

/// All but the workspace. Errors: as select_pages.
[[nodiscard]] Status check_pages(const char* function, const Batch& batch,
                                 const PageArgs& args) noexcept;

/// What sizes of memory are made of is in range: q's heads and head size, page_size, k_pages.
/// Errors: invalid_argument; unsupported for a head_size above 4096
[[nodiscard]] Status check_page_sizes(const char* function, const PageArgs& args) noexcept;

/// Lists of a token.
[[nodiscard]] inline int32_t lists_of(const PageArgs& args) {
  return args.lists == PageLists::per_kv_head ? args.summaries.rows.num_heads : 1;
}

}  // namespace folio::inline v1
