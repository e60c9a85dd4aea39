// SPDX-License-Identifier: Apache-2.0
/// folio/cache/page_table.h: which page holds which tokens: the plain arrays in which the pool and
/// the kernels meet.
#pragma once

#include <cstdint>

#include "folio/core/host_device.h"

namespace folio::inline v1 {

/// Entry (b, p), the page id of logical page p of sequence b, is entries[row_start(b) + p] with
/// row_start(b) = row_starts ? row_starts[b] : b * row_stride. Dense tables, CSR (row_starts =
/// indptr) and rows inside a larger table are the same form. An entry >= num_pages (as unsigned, so
/// -1 too) is unassigned. Only entries of pages that hold a visible key, or a token to append, are
/// read; no padding is required. Rows begin at entries 0 to 2^54.
struct PageTable {
  const uint32_t* entries = nullptr;
  int64_t row_stride = 0;               ///< entries
  const int64_t* row_starts = nullptr;  ///< [batch] entries, or null

  [[nodiscard]] FOLIO_HOST_DEVICE constexpr int64_t row_start(int64_t b) const {
    return row_starts != nullptr ? row_starts[b] : b * row_stride;
  }
  /// Columns that our table builders allocate for `columns` pages: rows stay 32-byte aligned and a
  /// 16-wide read that starts at any used entry stays inside the row. The static face requires
  /// this; the run-time face does not.
  [[nodiscard]] FOLIO_HOST_DEVICE static constexpr int64_t padded_columns(int64_t columns) {
    return (columns + 7) / 8 * 8 + 16;
  }
};

/// Copy the first `tokens` slots of page `from` to page `to`, values and scales, in every layer.
///
/// Who runs a list of any origin runs it in order, as if one after the other, as copy_pages does: a
/// copy may read what one before it wrote. The lists of PagePool::take_copies need no order.
struct PageCopy {
  uint32_t from = 0;
  uint32_t to = 0;
  int32_t tokens = 0;
  bool operator==(const PageCopy&) const = default;
};

}  // namespace folio::inline v1
