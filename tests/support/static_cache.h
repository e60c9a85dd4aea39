// SPDX-License-Identifier: Apache-2.0
/// tests/support/static_cache.h: a collection of static caches with everything it points to, each
/// array ending at a guard page.
///
/// Storage starts as 0xff (NaN); rows of the table are padded by exactly what the static face
/// requires, all entries unassigned.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "folio/cache/continuous_kv_cache.h"
#include "folio/cache/page_table.h"
#include "folio/cache/paged_kv_cache_collection.h"
#include "support/guarded_memory.h"

namespace folio::test {

struct StaticSizes {
  int64_t num_pages = 4;
  int32_t num_layers = 1;
  uint32_t batch = 1;
  uint32_t max_cache_length = 1;  ///< the table has columns for it
  uint32_t max_seq_length = 1;
  int32_t max_length = 0;  ///< of a continuous cache
};

/// Lengths and table rows of a static cache.
class StaticTables {
 public:
  StaticTables(uint32_t batch, int64_t columns, uint32_t max_cache_length, int64_t sentinel,
               uint32_t max_seq_length = 1)
      : lengths_(batch * int64_t{sizeof(uint32_t)}, alignof(uint32_t)),
        table_(batch * columns * int64_t{sizeof(uint32_t)}, 32) {
    std::fill_n(lengths(), batch, 0u);
    std::fill_n(table(), batch * columns, static_cast<uint32_t>(sentinel));
    tables.cache_lengths = lengths();
    tables.lookup_table = table();
    tables.lut_stride = tables.lut_cols = columns;
    tables.batch = batch;
    tables.max_seq_length = max_seq_length;
    tables.max_cache_length = max_cache_length;
  }

  [[nodiscard]] uint32_t* lengths() const { return lengths_.as<uint32_t>(); }
  [[nodiscard]] uint32_t* table() const { return table_.as<uint32_t>(); }
  void set_row(uint32_t row, std::initializer_list<uint32_t> pages) const {
    std::copy(pages.begin(), pages.end(), table() + row * tables.lut_stride);
  }

  CacheTables tables;

 private:
  GuardedMemory lengths_;
  GuardedMemory table_;
};

/// `Collection` is a PagedKVCacheCollection.
template <class Collection>
class StaticCache : public StaticTables {
 public:
  using Cache = typename Collection::CacheType;

  explicit StaticCache(const StaticSizes& sizes)
      : StaticTables(
            sizes.batch,
            PageTable::padded_columns((sizes.max_cache_length + page_size - 1) / page_size),
            sizes.max_cache_length, sizes.num_pages, sizes.max_seq_length),
        blocks(rows(sizes) * Cache::row_size * int64_t{sizeof(typename Cache::element_type)},
               alignof(typename Cache::element_type)) {
    if constexpr (Cache::quantization_enabled) {
      scales = GuardedMemory(
          rows(sizes) * Cache::scale_row_size * int64_t{sizeof(typename Cache::scale_type)},
          alignof(typename Cache::scale_type));
    }
    const MemorySpan scale_span = Cache::quantization_enabled ? scales.span() : MemorySpan{};
    collection =
        Collection::make(blocks.span(), sizes.num_pages, sizes.num_layers, tables, scale_span)
            .value();
  }

  [[nodiscard]] typename Cache::element_type* elements() const {
    return blocks.as<typename Cache::element_type>();
  }
  [[nodiscard]] Cache key(int64_t layer = 0) const { return collection.get_key_cache(layer); }
  [[nodiscard]] Cache value(int64_t layer = 0) const { return collection.get_value_cache(layer); }

  GuardedMemory blocks;
  GuardedMemory scales;
  Collection collection;

 private:
  static constexpr int64_t page_size = Cache::page_size_;
  static int64_t rows(const StaticSizes& s) {
    return s.num_pages * Collection::num_planes * s.num_layers * page_size;
  }
};

/// `Collection` is a ContinuousKVCacheCollection; sequence b has page b.
template <class Collection>
class ContinuousCache : public StaticTables {
 public:
  using Cache = typename Collection::CacheType;

  explicit ContinuousCache(const StaticSizes& sizes)
      : StaticTables(sizes.batch, 1, sizes.max_cache_length, sizes.num_pages, sizes.max_seq_length),
        blocks(sizes.num_pages * Collection::num_planes * sizes.num_layers * sizes.max_length *
                   Cache::row_size * int64_t{sizeof(typename Cache::element_type)},
               alignof(typename Cache::element_type)) {
    for (uint32_t b = 0; b < sizes.batch; ++b) table()[b] = b;
    collection =
        Collection::make(blocks.span(), sizes.num_pages, sizes.num_layers, sizes.max_length, tables)
            .value();
  }

  [[nodiscard]] Cache key(int64_t layer = 0) const { return collection.get_key_cache(layer); }
  [[nodiscard]] Cache value(int64_t layer = 0) const { return collection.get_value_cache(layer); }

  GuardedMemory blocks;
  Collection collection;
};

}  // namespace folio::test
