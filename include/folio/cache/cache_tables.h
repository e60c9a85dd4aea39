// SPDX-License-Identifier: Apache-2.0
/// folio/cache/cache_tables.h: the per-step arrays from which a static cache is made.
#pragma once

#include <cstdint>

namespace folio::inline v1 {

/// The seed constructors' argument list: which tokens are cached, and in which pages. All arrays
/// live where the cache is used. Entry (b, p) of the table is lookup_table[b * lut_stride + p]. The
/// checked functions that take this require a 32-byte aligned table, lut_stride % 8 == 0 and
/// lut_stride >= lut_cols >= padded_table_columns(ceil(max_cache_length / page_size)), so that
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
