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
#include "folio/cache/kv_cache.h"
#include "folio/cache/row_indices.h"
#include "folio/cache/static_checks.h"
#include "folio/cache/tma_constraints.h"
#include "folio/cache/tma_plane.h"
#include "folio/core/status.h"
#include "folio/core/tensor_view.h"
#include "folio/core/vec.h"
#include "folio/tma/ragged_tile.h"

namespace folio::inline v1 {

template <DType D, KVCacheStaticParams Params>
struct ContinuousKVCache {
  static_assert(is_supported(D), "ContinuousKVCache: dtype has no element type");
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
  using scale_type = no_element;
  using blocks_tt_layout = Layout<IntTuple<-1, -1, Params.num_heads, Params.head_size>,
                                  IntTuple<-1, row_size, Params.head_size, 1>>;
  using blocks_tt_type = TensorView<element_type, blocks_tt_layout>;
  using cache_lengths_tt_layout = Layout<IntTuple<-1>>;
  using cache_lengths_tt_type = TensorView<const uint32_t, cache_lengths_tt_layout>;
  using lookup_table_tt_layout = Layout<IntTuple<-1, -1>, IntTuple<-1, 1>>;
  using lookup_table_tt_type = TensorView<const uint32_t, lookup_table_tt_layout>;

  blocks_tt_type blocks = {};
  cache_lengths_tt_type cache_lengths = {};
  lookup_table_tt_type lookup_table = {};  ///< [batch, 1]
  uint32_t max_seq_length = 0;
  uint32_t max_cache_length = 0;

  static constexpr FOLIO_HOST_DEVICE const char* get_type_name() { return "ContinuousKVCache"; }
  /// No limit.
  static constexpr FOLIO_HOST_DEVICE int64_t max_tile_size() { return -1; }
  FOLIO_HOST_DEVICE constexpr ContinuousKVCache copy() const { return *this; }

  FOLIO_HOST_DEVICE constexpr cache_lengths_tt_type cache_lengths_nd() const {
    return cache_lengths;
  }
  FOLIO_HOST_DEVICE constexpr int64_t cache_length(int64_t batch_idx) const {
    return cache_lengths(batch_idx);
  }
  FOLIO_HOST_DEVICE constexpr bool empty_cache() const {
    for (int64_t b = 0; b < cache_lengths.extent(0); ++b) {
      if (cache_lengths(b) != 0) return false;
    }
    return true;
  }
  FOLIO_HOST_DEVICE constexpr uint32_t max_prompt_length() const { return max_seq_length; }
  FOLIO_HOST_DEVICE constexpr uint32_t max_context_length() const { return max_cache_length; }

  template <int Width, DType OutputDType = D>
    requires output_type_is_supported<OutputDType>
  FOLIO_HOST_DEVICE constexpr Vec<element_t<OutputDType>, Width> load(int64_t bs, int64_t head_idx,
                                                                      int64_t tok_idx,
                                                                      int64_t head_dim_idx) const {
    Vec<element_type, Width> stored;
    const element_type* at = block_paged_ptr<1>(bs, tok_idx, head_idx, head_dim_idx);
    for (int i = 0; at != nullptr && i < Width; ++i) stored[i] = at[i];
    if constexpr (OutputDType == D) {
      return stored;
    } else {
      return cast<element_t<OutputDType>>(stored);
    }
  }
  template <int Width>
  FOLIO_HOST_DEVICE constexpr void store(int64_t bs, int64_t head_idx, int64_t tok_idx,
                                         int64_t head_dim_idx,
                                         const Vec<element_type, Width>& val) const {
    element_type* at = block_paged_ptr<1>(bs, tok_idx, head_idx, head_dim_idx);
    for (int i = 0; at != nullptr && i < Width; ++i) at[i] = val[i];
  }

  template <int TileSize>
    requires tile_divides_the_page<TileSize, 0>
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
  /// An encoded index of a cache without pages is a row already.
  FOLIO_HOST_DEVICE constexpr int64_t get_tma_row(int64_t encoded_index) const {
    return encoded_index;
  }
  template <int BN, int BaseAlignment, bool PairCta = false, bool IsLeader = true>
    requires TileGeometry<BN, 0, PairCta> &&
             base_alignment_is_a_multiple_of_the_piece<BN, 0, BaseAlignment>
  FOLIO_HOST_DEVICE constexpr PagedRowIndices<BN, 0, PairCta, IsLeader> populate(
      uint32_t batch_idx, uint32_t base_kv_row) const {
    return detail::contiguous_rows<BN, PairCta, IsLeader>(row_idx(batch_idx, base_kv_row),
                                                          num_kv_rows());
  }

  // ---- TMA. Descriptions for encode(); check() says what run-time values forbid.

  /// The plane as the functions of tma/ take it.
  FOLIO_HOST_DEVICE PlaneGeometry tma_plane() const {
    constexpr int64_t bytes = sizeof(element_type);
    return {address_of(blocks.data),  D,
            Params.num_heads,         Params.head_size,
            blocks.extent(0),         blocks.extent(1),
            blocks.stride(0) * bytes, row_size * bytes,
            Params.head_size * bytes, false};
  }
  /// Copies of one chunk and at most BN keys, within a page. Coordinates: first column, head, row.
  /// Fold: all chunks in one copy, as chunk after chunk, or with RowMajor as atoms of eight rows
  /// (coordinates in tma/row_tiles.h).
  template <Swizzle Mode, int BN, int BK = padded_depth(D, Mode, Params.head_size), int Fold = 1,
            bool RowMajor = false>
    requires head_is_a_multiple_of_16_bytes<D, Params.head_size> &&
             TmaTileGeometry<D, Mode, BN, BK, page_size_> &&
             TmaFold<D, Mode, BN, Params.head_size, BK, page_size_, Fold, RowMajor>
  FOLIO_HOST_DEVICE auto create_tma_tile() const {
    return detail::row_tile<Fold, RowMajor>(tma_plane(),
                                            {.swizzle = Mode, .rows = BN, .columns = BK});
  }
  /// The same keys with a run-time end: rows of a sequence beyond it read as zero and are not
  /// stored to.
  template <Swizzle Mode, int BN, int BK = padded_depth(D, Mode, Params.head_size), int Group = 1>
    requires head_is_a_multiple_of_16_bytes<D, Params.head_size> &&
             tile_and_heads_are_whole_groups<Params.num_heads, BN, Group> &&
             TmaTileGeometry<D, Mode, BN / Group, BK, page_size_>
  FOLIO_HOST_DEVICE RaggedTMA3DTile create_ragged_tma_tile() const {
    return tma::ragged_tile(tma_plane(), {.swizzle = Mode, .rows = BN, .columns = BK}, Group);
  }
  /// The BK bf16 elements of rope behind PaddedDepth bytes of each head.
  template <Swizzle Mode, int BN, int BK, int PaddedDepth>
    requires head_is_a_multiple_of_16_bytes<D, Params.head_size> &&
             padded_depth_is_a_multiple_of_16_bytes<PaddedDepth> &&
             head_is_padded_depth_bytes_and_the_rope<D, Params.head_size, PaddedDepth, BK> &&
             TmaTileGeometry<DType::bf16, Mode, BN, BK, page_size_>
  FOLIO_HOST_DEVICE TMATensorTile<3> create_rope_tma_tile() const {
    return tma::rope_tile(
        tma_plane(), {.swizzle = Mode, .rows = BN, .columns = BK, .padded_depth = PaddedDepth});
  }
  /// Four rows per copy, at coordinates of get_tma_row. TileWidth and TileStride count elements of
  /// TmaType, which sees the same bytes.
  template <int TileWidth, int TileStride = TileWidth, Swizzle Mode = Swizzle::none,
            int TileHeight = 4, TmaDType TmaType = tma_dtype_of(D),
            L2Promotion L2 = L2Promotion::none>
    requires TmaGather4<TmaType, TileWidth, TileStride, Mode, TileHeight> &&
             tile_stride_is_the_row_of_the_cache<TmaType, TileStride,
                                                 row_size * int64_t{sizeof(element_t<D>)}>
  FOLIO_HOST_DEVICE TMATensorTile<2> create_gather4_tma_tile() const {
    return tma::gather4_tile(tma_plane(), {TileHeight, TileWidth, TileStride, Mode, TmaType, L2});
  }
  /// The TileWidth bf16 elements of rope behind PaddedDepth bytes of each row; the pitch is the
  /// whole row.
  template <int TileWidth, int PaddedDepth, Swizzle Mode = Swizzle::none, int TileHeight = 4,
            L2Promotion L2 = L2Promotion::none>
    requires padded_depth_is_a_multiple_of_16_bytes<PaddedDepth> &&
             TmaGather4<TmaDType::bf16, TileWidth, TileWidth, Mode, TileHeight> &&
             tile_stride_is_the_row_of_the_cache<TmaDType::bf16, (PaddedDepth + 2 * TileWidth) / 2,
                                                 row_size * int64_t{sizeof(element_t<D>)}>
  FOLIO_HOST_DEVICE TMATensorTile<2> create_rope_gather4_tma_tile() const {
    return tma::rope_gather4_tile(tma_plane(), {TileHeight, TileWidth, PaddedDepth, Mode, L2});
  }
  /// Copies with the page id as coordinate: 0, slot, first chunk, head, page. All chunks of a page
  /// at once, or one.
  template <Swizzle Mode, int BN, int BK = padded_depth(D, Mode, Params.head_size),
            tma::ChunksPerCopy PerCopy = tma::ChunksPerCopy::all>
    requires head_is_a_multiple_of_16_bytes<D, Params.head_size> &&
             TmaTileGeometry<D, Mode, BN, BK, page_size_> &&
             folded_head_is_whole_swizzle_chunks<D, Mode, Params.head_size, 2>
  FOLIO_HOST_DEVICE TMATensorTile<5> create_page_tma_tile() const {
    return tma::page_tile(tma_plane(), {.swizzle = Mode, .rows = BN, .columns = BK}, PerCopy);
  }
  /// The first LatentDepth columns of latent rows; the others read as zero. The rope behind them:
  /// create_rope_tma_tile with a PaddedDepth of the latent part's bytes.
  template <Swizzle Mode, int BN, int LatentDepth, int BK = padded_depth(D, Mode, LatentDepth)>
    requires cache_keeps_a_latent_row<Params.is_mla> &&
             depth_lies_within_the_head<LatentDepth, Params.head_size> &&
             head_is_a_multiple_of_16_bytes<D, Params.head_size> &&
             TmaTileGeometry<D, Mode, BN, BK, page_size_>
  FOLIO_HOST_DEVICE TMATensorTile<3> create_latent_tma_tile() const {
    return tma::cache_tile(tma_plane(),
                           {.swizzle = Mode, .rows = BN, .columns = BK, .depth = LatentDepth});
  }
};

/// blocks [num_pages, kv, num_layers, max_length, num_heads, head_size], packed.
template <DType D, KVCacheStaticParams Params>
struct ContinuousKVCacheCollection {
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

  FOLIO_HOST_DEVICE constexpr int64_t num_layers() const { return blocks.extent(2); }
  /// A layer out of range has a cache without pages.
  FOLIO_HOST_DEVICE constexpr CacheType get_key_cache(int64_t layer_idx) const {
    return plane(0, layer_idx);
  }
  FOLIO_HOST_DEVICE constexpr CacheType get_value_cache(int64_t layer_idx) const
    requires cache_has_a_value_plane<Params>
  {
    return plane(1, layer_idx);
  }
  /// The same, with invalid_argument for a layer out of range.
  Result<CacheType> checked_key_cache(int64_t layer_idx) const noexcept {
    if (Status status = detail::check_layer("checked_key_cache", layer_idx, num_layers());
        !status.is_ok())
      return status;
    return get_key_cache(layer_idx);
  }
  Result<CacheType> checked_value_cache(int64_t layer_idx) const noexcept
    requires cache_has_a_value_plane<Params>
  {
    if (Status status = detail::check_layer("checked_value_cache", layer_idx, num_layers());
        !status.is_ok())
      return status;
    return get_value_cache(layer_idx);
  }
  FOLIO_HOST_DEVICE constexpr int64_t cache_length(int64_t bs_idx) const {
    return cache_lengths(bs_idx);
  }

 private:
  FOLIO_HOST_DEVICE constexpr CacheType plane(int64_t kv, int64_t layer_idx) const {
    const bool exists = layer_idx >= 0 && layer_idx < num_layers();
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
