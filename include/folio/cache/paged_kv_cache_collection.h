// SPDX-License-Identifier: Apache-2.0
/// folio/cache/paged_kv_cache_collection.h: the storage tensor of all layers, and a PagedKVCache
/// for each K and V plane in it.
///
///   blocks [num_pages, kv, num_layers, page_size, num_heads, head_size]
///          kv = 2 (K, V), or 1 for MLA
///   scales [num_pages, kv, num_layers, page_size, num_heads, head_dim_granularity]
///
/// Row-major and packed. The collection owns nothing; it is trivially copyable and compiles for
/// host and device.
#pragma once

#include <cstdint>
#include <string_view>

#include "folio/cache/cache_tables.h"
#include "folio/cache/check_static.h"
#include "folio/cache/kv_cache.h"
#include "folio/cache/layer_caches.h"
#include "folio/cache/paged_kv_cache.h"
#include "folio/core/element.h"
#include "folio/core/execution.h"
#include "folio/core/status.h"
#include "folio/core/tensor_view.h"

namespace folio::inline v1 {

template <DType D, KVCacheStaticParams Params, int PageSize, DType ScaleDType = DType::invalid,
          int QuantizationGranularity = 1>
struct PagedKVCacheCollection
    : detail::LayerCaches<
          PagedKVCacheCollection<D, Params, PageSize, ScaleDType, QuantizationGranularity>,
          PagedKVCache<D, Params, PageSize, ScaleDType, QuantizationGranularity>> {
  using CacheType = PagedKVCache<D, Params, PageSize, ScaleDType, QuantizationGranularity>;
  static constexpr std::string_view name_str = "paged";
  static constexpr DType dtype = D;
  static constexpr KVCacheStaticParams kv_params = Params;
  static constexpr DType scale_dtype = ScaleDType;
  static constexpr int head_dim_granularity = CacheType::head_dim_granularity;
  static constexpr int num_planes = Params.is_mla ? 1 : 2;  ///< kv

  using blocks_shape = IntTuple<-1, num_planes, -1, PageSize, Params.num_heads, Params.head_size>;
  using blocks_layout = Layout<blocks_shape>;
  using blocks_tt_layout = blocks_layout;
  using blocks_tt_type = TensorView<element_t<D>, blocks_tt_layout>;
  using scales_shape =
      IntTuple<-1, num_planes, -1, PageSize, Params.num_heads, head_dim_granularity>;
  using scales_layout = Layout<scales_shape>;
  using scales_tt_layout = scales_layout;
  using scales_tt_type = TensorView<element_t<ScaleDType>, scales_tt_layout>;
  using cache_lengths_tt_type = typename CacheType::cache_lengths_tt_type;
  using lookup_table_tt_type = typename CacheType::lookup_table_tt_type;

  blocks_tt_type blocks = {};
  cache_lengths_tt_type cache_lengths = {};
  lookup_table_tt_type lookup_table = {};
  uint32_t max_seq_length = 0;
  uint32_t max_cache_length = 0;
  scales_tt_type scales = {};  ///< null data: none
  /// Extents and strides, in elements, of a plane: [num_pages, page_size, num_heads, head_size];
  /// all 0 for absent scales.
  int64_t kv_cache_dynamic_shape[4] = {};
  int64_t kv_cache_dynamic_strides[4] = {};
  int64_t kv_cache_scales_dynamic_shape[4] = {};
  int64_t kv_cache_scales_dynamic_strides[4] = {};

  constexpr PagedKVCacheCollection() = default;
  /// Unchecked: `make` is the checked way. `blocks_view` and `scales_view` are packed;
  /// row_major<blocks_shape>(num_pages, num_layers).
  FOLIO_HOST_DEVICE constexpr PagedKVCacheCollection(const blocks_tt_type& blocks_view,
                                                     const cache_lengths_tt_type& lengths,
                                                     const lookup_table_tt_type& table,
                                                     uint32_t max_seq, uint32_t max_cache,
                                                     const scales_tt_type& scales_view = {})
      : blocks(blocks_view),
        cache_lengths(lengths),
        lookup_table(table),
        max_seq_length(max_seq),
        max_cache_length(max_cache),
        scales(scales_view) {
    plane_dims(blocks, kv_cache_dynamic_shape, kv_cache_dynamic_strides);
    if (scales.data != nullptr)
      plane_dims(scales, kv_cache_scales_dynamic_shape, kv_cache_scales_dynamic_strides);
  }

  /// The collection over `block_memory` (and `scale_memory` exactly if the type is quantised),
  /// which the caller owns.
  ///
  /// Errors: invalid_argument, naming the argument, for num_pages or num_layers < 1, null or
  /// misaligned or too small memory, tables
  ///         that break what CacheTables states, and when num_pages times the row stride exceeds
  ///         2^31 - 1. Arrays are not read.
  static Result<PagedKVCacheCollection> make(MemorySpan block_memory, int64_t num_pages,
                                             int32_t num_layers, const CacheTables& tables,
                                             MemorySpan scale_memory = {}) noexcept {
    constexpr detail::StaticGeometry geometry =
        detail::static_geometry<CacheType>("PagedKVCacheCollection::make");
    if (Status status = detail::check_storage(
            geometry, {block_memory, scale_memory, num_pages, num_layers, PageSize});
        !status.is_ok())
      return status;
    if (Status status = detail::check_tables(geometry, tables, PageSize); !status.is_ok())
      return status;
    scales_tt_type scales_view;
    if constexpr (CacheType::quantization_enabled) {
      scales_view = {static_cast<element_t<ScaleDType>*>(scale_memory.data),
                     row_major<scales_shape>(num_pages, num_layers)};
    }
    return PagedKVCacheCollection(
        {static_cast<element_t<D>*>(block_memory.data),
         row_major<blocks_shape>(num_pages, num_layers)},
        {tables.cache_lengths, typename CacheType::cache_lengths_tt_layout(tables.batch)},
        {tables.lookup_table, typename CacheType::lookup_table_tt_layout(
                                  tables.batch, tables.lut_cols, tables.lut_stride)},
        tables.max_seq_length, tables.max_cache_length, scales_view);
  }

 private:
  friend detail::LayerCaches<PagedKVCacheCollection, CacheType>;
  /// Dimensions 0, 3, 4 and 5 of a storage tensor.
  template <class Tensor>
  FOLIO_HOST_DEVICE static constexpr void plane_dims(const Tensor& tensor, int64_t (&shape)[4],
                                                     int64_t (&strides)[4]) {
    for (int i = 0; i < 4; ++i) {
      shape[i] = tensor.extent(i == 0 ? 0 : i + 2);
      strides[i] = tensor.stride(i == 0 ? 0 : i + 2);
    }
  }
  FOLIO_HOST_DEVICE constexpr CacheType plane(int64_t kv, int64_t layer_idx) const {
    const bool exists = layer_idx >= 0 && layer_idx < this->num_layers();
    const int64_t layer = exists ? layer_idx : 0;
    const int64_t num_pages = exists ? blocks.extent(0) : 0;
    CacheType cache = {{blocks.pointer(0, kv, layer, 0, 0, 0),
                        typename CacheType::blocks_tt_layout(num_pages, blocks.stride(0))},
                       cache_lengths,
                       lookup_table,
                       max_seq_length,
                       max_cache_length};
    if (scales.data != nullptr) {
      cache.scales = {scales.pointer(0, kv, layer, 0, 0, 0),
                      typename CacheType::scales_tt_layout(num_pages, scales.stride(0))};
    }
    return cache;
  }
};

}  // namespace folio::inline v1
