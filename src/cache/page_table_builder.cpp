// SPDX-License-Identifier: Apache-2.0
/// src/cache/page_table_builder.cpp: the dense table, padded and filled with the sentinel.
#include "folio/cache/page_table_builder.h"

#include <algorithm>

#include "core/checked.h"

namespace folio::inline v1 {
namespace {

constexpr int64_t entry_bytes = sizeof(uint32_t);
constexpr uintptr_t row_alignment = 32;

}  // namespace

Result<int64_t> PageTableBuilder::table_bytes(int64_t rows, int64_t columns) noexcept {
  constexpr int64_t bytes_max = int64_t{1} << 62;
  if (rows < 0 || columns < 0) {
    return fail(Errc::invalid_argument,
                "PageTableBuilder: rows is {} and columns is {}, expected at least 0", rows,
                columns);
  }
  // columns within the limit can be padded; more are too many in any case
  const int64_t padded = padded_table_columns(std::min(columns, bytes_max));
  const CheckedSize bytes = CheckedSize(padded) * rows * entry_bytes;
  if (columns > bytes_max || !bytes.is_at_most(bytes_max)) {
    return fail(Errc::invalid_argument,
                "PageTableBuilder: {} rows of {} columns are more than 2^62 bytes, expected fewer",
                rows, columns);
  }
  return bytes.value();
}

Result<PageTableBuilder> PageTableBuilder::make(int64_t rows, int64_t columns, int64_t num_pages,
                                                MemorySpan memory) noexcept {
  const Result<int64_t> bytes = table_bytes(rows, columns);
  if (!bytes) return bytes.error();
  if (num_pages < 0 || num_pages > 0xffffffff) {
    return fail(Errc::invalid_argument,
                "PageTableBuilder: num_pages is {}, expected 0 to 2^32 - 1 (page ids are uint32)",
                num_pages);
  }
  if (memory.bytes < *bytes || (memory.data == nullptr && *bytes > 0)) {
    return fail(Errc::invalid_argument,
                "PageTableBuilder: memory has {} bytes, expected at least {} (table_bytes)",
                memory.data != nullptr ? memory.bytes : 0, *bytes);
  }
  if (reinterpret_cast<uintptr_t>(memory.data) % row_alignment != 0) {
    return fail(Errc::invalid_argument,
                "PageTableBuilder: memory is not aligned, expected a multiple of {} bytes",
                row_alignment);
  }
  PageTableBuilder builder;
  builder.entries_ = static_cast<uint32_t*>(memory.data);
  builder.rows_ = rows;
  builder.columns_ = columns;
  builder.row_stride_ = padded_table_columns(columns);
  builder.num_pages_ = num_pages;
  std::fill_n(builder.entries_, *bytes / entry_bytes, static_cast<uint32_t>(num_pages));
  return builder;
}

Status PageTableBuilder::set_row(int64_t row, std::span<const uint32_t> pages) noexcept {
  if (row < 0 || row >= rows_) {
    return fail(Errc::invalid_argument, "PageTableBuilder::set_row: row is {}, expected 0 to {}",
                row, rows_ - 1);
  }
  if (static_cast<int64_t>(pages.size()) > columns_) {
    return fail(Errc::invalid_argument,
                "PageTableBuilder::set_row: pages has {} entries, expected at most {} (columns)",
                pages.size(), columns_);
  }
  for (size_t p = 0; p < pages.size(); ++p) {
    if (pages[p] <= num_pages_) continue;
    return fail(
        Errc::invalid_argument,
        "PageTableBuilder::set_row: pages[{}] is {}, expected at most {} (num_pages, unassigned)",
        p, pages[p], num_pages_);
  }
  uint32_t* entries = entries_ + row * row_stride_;
  std::copy(pages.begin(), pages.end(), entries);
  std::fill(entries + pages.size(), entries + row_stride_, static_cast<uint32_t>(num_pages_));
  return {};
}

}  // namespace folio::inline v1
