// SPDX-License-Identifier: Apache-2.0
/// folio/cache/copy.h: moves pages between planes, values and scales.
#pragma once

#include <span>

#include "folio/cache/page_table.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/core/execution.h"
#include "folio/core/export.h"
#include "folio/core/status.h"

namespace folio {
inline namespace v1 {

/// Runs `copies` in order, as if one after the other: the first `tokens` slots of page `from` in each plane of `from` to page `to` of
/// the same plane of `to`. `from` and `to` may be the same planes. Scales with a page stride of 0 belong to no page and stay.
///
/// Errors:  invalid_argument if the plane counts, dtypes, heads, head sizes, page sizes or scale geometries (dtype, granularity, which
///          strides are 0; other strides are free) differ, pages are unbounded, a page id is not below num_pages, or `tokens` is outside
///          [0, page_size]; nothing is written then
/// Effects: allocates nothing; layers run in parallel on `executor`
FOLIO_EXPORT Status copy_pages(std::span<const KVPlanes> from, std::span<const KVPlanes> to, std::span<const PageCopy> copies,
                               const Executor& executor) noexcept;

}  // namespace v1
}  // namespace folio
