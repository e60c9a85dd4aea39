// SPDX-License-Identifier: Apache-2.0
/// folio/cache/page_summaries.h: what is known of the keys of a page without reading them: the
/// smallest and the largest number of each channel, or the mean.
///
/// Summaries of a layer are one more plane of the same page ids as its K: a page of it holds the
/// summary of K's page of that id, one row (mean) or two (bounds: the smallest numbers, then the
/// largest) for each KV head. So page_extents, copies and tiers carry it as they carry any plane:
/// put {rows, {}} behind the layers' planes. Their make_planes: page_size summary_rows(kind),
/// is_mla, no scales. Handovers (folio/tier/transfer.h) carry slots, not pages, and refuse such a
/// plane: who receives makes the summaries of what has come by `summarise`.
///
/// Numbers are those of K as it is stored, dequantised in float32: of planes that are rotated or
/// scaled by channels before that is undone. Who multiplies them by q turns q likewise (RotateArgs
/// ::key), as attention does.
#pragma once

#include <cstdint>
#include <span>

#include "folio/cache/page_table.h"
#include "folio/cache/paged_kv_view.h"

namespace folio::inline v1 {

enum class SummaryKind : uint8_t {
  bounds = 0,  ///< of each channel the smallest and the largest number
  mean = 1,    ///< of each channel the mean
};

/// Rows of a page and head: the page_size of a plane of summaries.
[[nodiscard]] constexpr int32_t summary_rows(SummaryKind kind) {
  return kind == SummaryKind::mean ? 1 : 2;
}

/// rows: num_heads, head_size and num_pages are K's, page_size is summary_rows(kind), dtype f32,
/// bf16 or f16, without scales or a turn.
///
/// Bounds hold for every row that they were made of, whatever their dtype: the smaller is rounded
/// down, the larger up. Once a channel has met NaN both its bounds are NaN, until the page begins
/// anew. A mean is rounded to nearest.
struct PageSummaries {
  SummaryKind kind = SummaryKind::bounds;
  PagedKVView rows = {};
  bool operator==(const PageSummaries&) const = default;
};

/// Makes of a list for copy_pages over K the list over planes of summaries: those go as a whole
/// with however many slots (copy_pages asks for one page size of a pair of planes, not of all).
/// Bounds of more slots than were copied are bounds of these, too; a mean is that of the page that
/// was copied, until append writes to the new one. What else stood in the target is not covered.
constexpr void make_summary_copies(std::span<PageCopy> copies, SummaryKind kind) {
  for (PageCopy& copy : copies) copy.tokens = copy.tokens > 0 ? summary_rows(kind) : copy.tokens;
}

}  // namespace folio::inline v1
