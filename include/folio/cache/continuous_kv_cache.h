// SPDX-License-Identifier: Apache-2.0
/// folio/cache/continuous_kv_cache.h: the cache without paging: each sequence has one page of
/// `max_length` tokens.
///
///   blocks [num_pages, max_length, num_heads, head_size]; lookup_table has one column: the page of
///   sequence b
///
/// The simple sibling of PagedKVCache, with the same contracts for unassigned entries; never
/// quantised.
#pragma once

#include <cstdint>
#include <string_view>

#include "folio/cache/cache_tables.h"
#include "folio/cache/check_static.h"
#include "folio/cache/elements.h"
#include "folio/cache/kv_cache.h"
#include "folio/cache/layer_caches.h"
#include "folio/cache/row_indices.h"
#include "folio/cache/step_members.h"
#include "folio/cache/tma_members.h"
#include "folio/cache/tma_plane.h"
#include "folio/core/element.h"
#include "folio/core/status.h"
#include "folio/core/tensor_view.h"
#include "folio/core/vec.h"

namespace folio::inline v1 {

template <DType D, KVCacheStaticParams Params>
struct ContinuousKVCache
    : detail::StepMembers<ContinuousKVCache<D, Params>>,
      detail::ContiguousRows<ContinuousKVCache<D, Params>>,
      detail::CacheTmaTiles<ContinuousKVCache<D, Params>,
                            detail::TmaSizes{D, Params.num_heads, Params.head_size, 0,
                                             Params.is_mla}> {
  static_assert(
      detail::is_supported(D),
      "ContinuousKVCache: dtype has no element type, as packed and block formats: these are planes "
      "of PagedKVView alone");
  static_assert(Params.num_heads >= 1 && Params.head_size >= 1,
                "ContinuousKVCache: num_heads and head_size are at least 1");
  static_assert(int64_t{Params.num_heads} * Params.head_size <= INT32_MAX,
                "ContinuousKVCache: a row has less than 2^31 elements");

  using device_type = ContinuousKVCache;
  static constexpr DType dtype = D;
  static constexpr KVCacheStaticParams kv_params = Params;
  static constexpr int page_size_ = 0;  ///< not paged
  static constexpr bool quantization_enabled = false;
  static constexpr int quantization_granularity = 1;
  static constexpr DType scale_dtype = DType::invalid;
  static constexpr int64_t row_size = int64_t{Params.num_heads} * Params.head_size;

  using element_type = element_t<D>;
  using scale_type = detail::no_element;
  using blocks_tt_layout = Layout<IntTuple<-1, -1, Params.num_heads, Params.head_size>,
                                  IntTuple<-1, row_size, Params.head_size, 1>>;
  using blocks_tt_type = TensorView<element_type, blocks_tt_layout>;
  using Step = detail::StepMembers<ContinuousKVCache<D, Params>>;
  using typename Step::cache_lengths_tt_layout;
  using typename Step::cache_lengths_tt_type;
  using typename Step::lookup_table_tt_layout;
  using typename Step::lookup_table_tt_type;

  blocks_tt_type blocks = {};
  cache_lengths_tt_type cache_lengths = {};
  lookup_table_tt_type lookup_table = {};  ///< [batch, 1]
  uint32_t max_seq_length = 0;
  uint32_t max_cache_length = 0;

  constexpr ContinuousKVCache() = default;
  FOLIO_HOST_DEVICE constexpr ContinuousKVCache(const blocks_tt_type& blocks_view,
                                                const cache_lengths_tt_type& lengths,
                                                const lookup_table_tt_type& table, uint32_t max_seq,
                                                uint32_t max_cache)
      : blocks(blocks_view),
        cache_lengths(lengths),
        lookup_table(table),
        max_seq_length(max_seq),
        max_cache_length(max_cache) {}

  static constexpr FOLIO_HOST_DEVICE const char* get_type_name() { return "ContinuousKVCache"; }
  /// No limit.
  static constexpr FOLIO_HOST_DEVICE int64_t max_tile_size() { return -1; }

  /// `Alignment`: as of PagedKVCache::load.
  template <int Width, DType OutputDType = D, int Alignment = 0>
    requires detail::output_type_is_supported<OutputDType>
  FOLIO_HOST_DEVICE constexpr Vec<element_t<OutputDType>, Width> load(int64_t bs, int64_t head_idx,
                                                                      int64_t tok_idx,
                                                                      int64_t head_dim_idx) const {
    return detail::convert_elements<OutputDType, D>(detail::load_elements<Width, Alignment>(
        block_paged_ptr<1>(bs, tok_idx, head_idx, head_dim_idx)));
  }
  template <int Width, int Alignment = 0>
  FOLIO_HOST_DEVICE constexpr void store(int64_t bs, int64_t head_idx, int64_t tok_idx,
                                         int64_t head_dim_idx,
                                         const Vec<element_type, Width>& val) const {
    detail::store_elements<Alignment>(block_paged_ptr<1>(bs, tok_idx, head_idx, head_dim_idx), val);
  }

  template <int TileSize>
    requires detail::tile_divides_the_page<TileSize, 0>
  FOLIO_HOST_DEVICE constexpr element_type* block_paged_ptr(int64_t batch_idx,
                                                            int64_t start_tok_idx, int64_t head_idx,
                                                            int64_t head_dim_idx = 0) const {
    const int64_t page = lookup_table(batch_idx, 0);
    if (page >= blocks.extent(0)) return nullptr;
    return blocks.pointer(page, start_tok_idx, head_idx, head_dim_idx);
  }
  FOLIO_HOST_DEVICE constexpr scale_type* scales_block_paged_ptr(int64_t, int64_t, int64_t,
                                                                 int64_t = 0) const {
    return nullptr;
  }
  FOLIO_HOST_DEVICE constexpr scale_type* scales_raw_ptr() const { return nullptr; }

  FOLIO_HOST_DEVICE constexpr int64_t row_stride() const { return blocks.stride(0) / row_size; }
  FOLIO_HOST_DEVICE constexpr int64_t num_kv_rows() const {
    return blocks.extent(0) == 0 ? 0 : (blocks.extent(0) - 1) * row_stride() + blocks.extent(1);
  }
  FOLIO_HOST_DEVICE constexpr int64_t row_idx(uint32_t batch_idx, uint32_t tok_idx) const {
    const int64_t page = lookup_table(batch_idx, 0);
    return page < blocks.extent(0) ? page * row_stride() + tok_idx : num_kv_rows();
  }

  /// The plane as the functions of tma/ take it.
  FOLIO_HOST_DEVICE tma::PlaneGeometry tma_plane() const {
    constexpr int64_t bytes = sizeof(element_type);
    return {tma::address_of(blocks.data),
            D,
            Params.num_heads,
            Params.head_size,
            blocks.extent(0),
            blocks.extent(1),
            blocks.stride(0) * bytes,
            row_size * bytes,
            Params.head_size * bytes,
            false};
  }
};

/// blocks [num_pages, kv, num_layers, max_length, num_heads, head_size], packed.
template <DType D, KVCacheStaticParams Params>
struct ContinuousKVCacheCollection
    : detail::LayerCaches<ContinuousKVCacheCollection<D, Params>, ContinuousKVCache<D, Params>> {
  using CacheType = ContinuousKVCache<D, Params>;
  static constexpr std::string_view name_str = "continuous_batching";
  static constexpr DType dtype = D;
  static constexpr KVCacheStaticParams kv_params = Params;
  static constexpr int num_planes = Params.is_mla ? 1 : 2;
  using blocks_shape = IntTuple<-1, num_planes, -1, -1, Params.num_heads, Params.head_size>;
  using blocks_tt_type = TensorView<element_t<D>, Layout<blocks_shape>>;

  blocks_tt_type blocks = {};
  typename CacheType::cache_lengths_tt_type cache_lengths = {};
  typename CacheType::lookup_table_tt_type lookup_table = {};
  uint32_t max_seq_length = 0;
  uint32_t max_cache_length = 0;

  /// Errors: invalid_argument as PagedKVCacheCollection::make; of the table only one column,
  /// without alignment or padding, is needed;
  ///         max_cache_length must not exceed max_length.
  static Result<ContinuousKVCacheCollection> make(MemorySpan block_memory, int64_t num_pages,
                                                  int32_t num_layers, int32_t max_length,
                                                  const CacheTables& tables) noexcept {
    constexpr detail::StaticGeometry geometry =
        detail::static_geometry<CacheType>("ContinuousKVCacheCollection::make");
    if (Status status =
            detail::check_storage(geometry, {block_memory, {}, num_pages, num_layers, max_length});
        !status.is_ok())
      return status;
    if (Status status = detail::check_tables(geometry, tables, max_length); !status.is_ok())
      return status;
    ContinuousKVCacheCollection collection;
    collection.blocks = {static_cast<element_t<D>*>(block_memory.data),
                         row_major<blocks_shape>(num_pages, num_layers, max_length)};
    collection.cache_lengths = {tables.cache_lengths,
                                typename CacheType::cache_lengths_tt_layout(tables.batch)};
    collection.lookup_table = {tables.lookup_table, typename CacheType::lookup_table_tt_layout(
                                                        tables.batch, 1, tables.lut_stride)};
    collection.max_seq_length = tables.max_seq_length;
    collection.max_cache_length = tables.max_cache_length;
    return collection;
  }

 private:
  friend detail::LayerCaches<ContinuousKVCacheCollection, CacheType>;
  FOLIO_HOST_DEVICE constexpr CacheType plane(int64_t kv, int64_t layer_idx) const {
    const bool exists = layer_idx >= 0 && layer_idx < this->num_layers();
    return {{blocks.pointer(0, kv, exists ? layer_idx : 0, 0, 0, 0),
             typename CacheType::blocks_tt_layout(exists ? blocks.extent(0) : 0, blocks.extent(3),
                                                  blocks.stride(0))},
            cache_lengths,
            lookup_table,
            max_seq_length,
            max_cache_length};
  }
};

}  // namespace folio::inline v1
