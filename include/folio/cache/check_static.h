// SPDX-License-Identifier: Apache-2.0
/// folio/cache/check_static.h: the host checks behind `make` and `cache_of`, on plain values. Not
/// for direct use.
#pragma once

#include <cstdint>

#include "folio/cache/cache_tables.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/cache/static_params.h"
#include "folio/core/execution.h"
#include "folio/core/export.h"
#include "folio/core/status.h"

namespace folio::inline v1::detail {

/// The constants of a static cache type.
struct StaticGeometry {
  const char* function = "";  ///< begins every message
  DType dtype = DType::invalid;
  KVCacheStaticParams params = {};
  int32_t page_size = 0;               ///< 0: one page per sequence, its size known at run time
  DType scale_dtype = DType::invalid;  ///< invalid: the type has no scales
  int32_t quantization_granularity = 1;
};

/// The 6-D storage of a collection, to be viewed by a static type.
struct StorageTensor {
  MemorySpan blocks = {};
  MemorySpan scales = {};
  int64_t num_pages = 0;
  int32_t num_layers = 0;
  int32_t page_size = 0;
};

template <class Cache>
constexpr StaticGeometry static_geometry(const char* function) {
  return {function,          Cache::dtype,       Cache::kv_params,
          Cache::page_size_, Cache::scale_dtype, Cache::quantization_granularity};
}

/// Pointers, sizes, alignment and padding of `tables`; no array is read. `page_size` as known at
/// run time.
FOLIO_EXPORT Status check_tables(const StaticGeometry& geometry, const CacheTables& tables,
                                 int32_t page_size) noexcept;
/// Extents, sizes and alignment of a storage tensor, and that rows stay below 2^31.
FOLIO_EXPORT Status check_storage(const StaticGeometry& geometry,
                                  const StorageTensor& storage) noexcept;
/// That `view` is what the static type says: constants, packed rows, whole rows from page to page,
/// scales alike.
FOLIO_EXPORT Status check_view(const StaticGeometry& geometry, const PagedKVView& view) noexcept;
FOLIO_EXPORT Status check_layer(const char* function, int64_t layer, int64_t num_layers) noexcept;

}  // namespace folio::inline v1::detail
