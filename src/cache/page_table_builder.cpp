// SPDX-License-Identifier: Apache-2.0
/// src/cache/page_table_builder.cpp: the dense table, padded and filled with the sentinel.
#include "folio/cache/page_table_builder.h"
#include "folio/cache/cache_tables.h"

#include <algorithm>

#include "cache/check_reach.h"
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
  const int64_t padded = PageTable::padded_columns(std::min(columns, bytes_max));
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
  builder.row_stride_ = PageTable::padded_columns(columns);
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

namespace folio::inline v1::static_cache {

Result<int64_t> cache_tables_bytes(int64_t batch, int64_t columns) noexcept {
  const Result<int64_t> table = PageTableBuilder::table_bytes(batch, columns);
  if (!table) return table.error();
  return *table + batch * entry_bytes;
}

namespace {

/// The longest context and the most new tokens, or what is wrong with a sequence.
Status measure(const Batch& batch, CacheTables& tables) noexcept {
  if (batch.size < 1 || batch.query_offsets == nullptr || batch.context_lengths == nullptr ||
      batch.table.entries == nullptr) {
    return fail(
        Errc::invalid_argument,
        "make_cache_tables: batch has {} sequences and {}, expected at least 1 and offsets, "
        "lengths and a table",
        batch.size,
        batch.query_offsets == nullptr     ? "no query_offsets"
        : batch.context_lengths == nullptr ? "no context_lengths"
        : batch.table.entries == nullptr   ? "no table"
                                           : "arrays");
  }
  for (int32_t b = 0; b < batch.size; ++b) {
    const int64_t context = batch.context_lengths[b];
    const int64_t tokens = int64_t{batch.query_offsets[b + 1]} - batch.query_offsets[b];
    if (tokens < 0 || tokens > context) {
      return fail(Errc::invalid_argument,
                  "make_cache_tables: sequence {} has {} new tokens, expected 0 to {} "
                  "(context_lengths[{}])",
                  b, tokens, context, b);
    }
    tables.max_seq_length = std::max(tables.max_seq_length, static_cast<uint32_t>(tokens));
    tables.max_cache_length = std::max(tables.max_cache_length, static_cast<uint32_t>(context));
  }
  return check_rows("make_cache_tables", batch);
}

}  // namespace

Result<CacheTables> make_cache_tables(const Batch& batch, int32_t page_size, int64_t num_pages,
                                      MemorySpan memory) noexcept {
  if (page_size < 1)
    return fail(Errc::invalid_argument, "make_cache_tables: page_size is {}, expected at least 1",
                page_size);
  CacheTables tables;
  if (Status status = measure(batch, tables); !status.is_ok()) return status;
  const int64_t columns = (int64_t{tables.max_cache_length} + page_size - 1) / page_size;
  const Result<int64_t> bytes = cache_tables_bytes(batch.size, columns);
  if (!bytes) return bytes.error();
  if (memory.data == nullptr || memory.bytes < *bytes) {
    return fail(Errc::invalid_argument,
                "make_cache_tables: memory has {} bytes, expected at least {} (cache_tables_bytes)",
                memory.data != nullptr ? memory.bytes : 0, *bytes);
  }
  const Result<PageTableBuilder> builder =
      PageTableBuilder::make(batch.size, columns, num_pages, memory);
  if (!builder) return builder.error();
  auto* entries = static_cast<uint32_t*>(memory.data);
  uint32_t* lengths = entries + batch.size * builder->row_stride();
  for (int32_t b = 0; b < batch.size; ++b) {
    const int64_t context = batch.context_lengths[b];
    const uint32_t* from = batch.table.entries + batch.table.row_start(b);
    uint32_t* to = entries + b * builder->row_stride();
    for (int64_t p = 0; p * page_size < context; ++p)
      if (from[p] < num_pages) to[p] = from[p];
    lengths[b] =
        static_cast<uint32_t>(context - batch.query_offsets[b + 1] + batch.query_offsets[b]);
  }
  tables.cache_lengths = lengths;
  tables.lookup_table = entries;
  tables.lut_stride = tables.lut_cols = builder->row_stride();
  tables.batch = static_cast<uint32_t>(batch.size);
  return tables;
}

}  // namespace folio::inline v1::static_cache
