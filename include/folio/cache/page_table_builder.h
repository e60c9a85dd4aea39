// SPDX-License-Identifier: Apache-2.0
/// folio/cache/page_table_builder.h: writes the dense page table that every face of folio accepts,
/// from lists of page ids, and the static face's CacheTables from a batch.
///
///     entries [rows, row_stride] uint32,   row_stride = PageTable::padded_columns(columns)
///     row b:  id id id ... id | num_pages num_pages ... num_pages
///
/// Rows begin on 32-byte boundaries and what holds no page is the sentinel `num_pages`: what the
/// static face requires (the run-time face does with less). The memory is the caller's. Thread
/// safety: externally synchronised; different rows are independent.
#pragma once

#include <cstdint>
#include <span>

#include "folio/cache/page_table.h"
#include "folio/core/execution.h"
#include "folio/core/export.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

/// A view of table memory: copy freely.
class PageTableBuilder {
 public:
  /// Bytes of a table for `rows` sequences of at most `columns` pages. Errors: invalid_argument if
  /// one is negative or the table exceeds 2^62 bytes.
  [[nodiscard]] FOLIO_EXPORT static Result<int64_t> table_bytes(int64_t rows,
                                                                int64_t columns) noexcept;

  /// Fills `memory` (table_bytes(rows, columns) bytes, 32-byte aligned) with the sentinel.
  /// Errors: invalid_argument as above, for num_pages outside [0, 2^32 - 1], or memory that is too
  /// small or misaligned.
  [[nodiscard]] FOLIO_EXPORT static Result<PageTableBuilder> make(int64_t rows, int64_t columns,
                                                                  int64_t num_pages,
                                                                  MemorySpan memory) noexcept;

  /// Row `row` becomes `pages`, the rest of it the sentinel. An id equal to num_pages leaves that
  /// page unassigned. Errors: invalid_argument for a row or an id out of range, or more pages than
  /// columns; the row is unchanged then.
  FOLIO_EXPORT Status set_row(int64_t row, std::span<const uint32_t> pages) noexcept;

  /// The table over all rows; it lives as long as the memory.
  [[nodiscard]] PageTable table() const noexcept { return {entries_, row_stride_, nullptr}; }
  [[nodiscard]] int64_t rows() const noexcept { return rows_; }
  [[nodiscard]] int64_t columns() const noexcept { return columns_; }
  /// Entries from one row to the next.
  [[nodiscard]] int64_t row_stride() const noexcept { return row_stride_; }
  [[nodiscard]] int64_t num_pages() const noexcept { return num_pages_; }

 private:
  uint32_t* entries_ = nullptr;
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  int64_t row_stride_ = 0;
  int64_t num_pages_ = 0;
};

}  // namespace folio::inline v1
