// SPDX-License-Identifier: Apache-2.0
/// folio/cache/cache_tables.h: the per-step arrays from which a static cache is made.
#pragma once

#include <cstdint>

#include "folio/cache/batch.h"
#include "folio/core/execution.h"
#include "folio/core/export.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

/// The seed constructors' argument list: which tokens are cached, and in which pages. All arrays
/// live where the cache is used. Entry (b, p) of the table is lookup_table[b * lut_stride + p]. The
/// checked functions that take this require a 32-byte aligned table, lut_stride % 8 == 0 and
/// lut_stride >= lut_cols >= PageTable::padded_columns(ceil(max_cache_length / page_size)), so that
/// `populate` may read 16 entries from any used one; the entries of unused columns are unassigned
/// (>= num_pages).
struct CacheTables {
  const uint32_t* cache_lengths = nullptr;  ///< [batch] tokens in the cache before this step
  const uint32_t* lookup_table = nullptr;   ///< [batch, lut_cols]
  int64_t lut_stride = 0;                   ///< entries from one row to the next
  int64_t lut_cols = 0;                     ///< entries of a row that may be read
  uint32_t batch = 0;
  uint32_t max_seq_length = 0;    ///< at least the most new tokens of a sequence
  uint32_t max_cache_length = 0;  ///< at least the longest cache length plus new tokens
  bool operator==(const CacheTables&) const = default;
};

}  // namespace folio::inline v1

namespace folio::inline v1::static_cache {

/// Bytes that make_cache_tables needs for `batch` sequences of at most `columns` pages. Errors: as
/// PageTableBuilder::table_bytes.
[[nodiscard]] FOLIO_EXPORT Result<int64_t> cache_tables_bytes(int64_t batch,
                                                              int64_t columns) noexcept;

/// The tables of a static cache for one step, in `memory`, which is 32-byte aligned and outlives
/// them: the rows of the batch's table, dense and padded, and the lengths before the step, which
/// are the context lengths less the new tokens. Entries >= num_pages are unassigned. Columns are
/// those of the longest context. For a device, fill memory on the host and copy it: `lookup_table`
/// is its beginning, `cache_lengths` lies behind the table.
///
/// Errors: invalid_argument for page_size < 1, num_pages outside [0, 2^32 - 1], a batch without
/// sequences or arrays, a sequence with more new tokens than its context or less than none, rows
/// that begin outside what PageTable allows, memory that is too small (cache_tables_bytes) or
/// misaligned.
[[nodiscard]] FOLIO_EXPORT Result<CacheTables> make_cache_tables(const Batch& batch,
                                                                 int32_t page_size,
                                                                 int64_t num_pages,
                                                                 MemorySpan memory) noexcept;

}  // namespace folio::inline v1::static_cache

namespace folio::inline v1 {  // flat names, for one release
using static_cache::cache_tables_bytes;
using static_cache::make_cache_tables;
}  // namespace folio::inline v1
