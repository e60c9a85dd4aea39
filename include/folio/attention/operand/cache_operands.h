// SPDX-License-Identifier: Apache-2.0
/// folio/attention/operand/cache_operands.h: a cache, or the scales of a cache, as an attention
/// operand.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/attention/operand/concept.h"
#include "folio/cache/kv_cache.h"
#include "folio/cache/row_indices.h"
#include "folio/cache/tma_constraints.h"
#include "folio/cache/tma_plane.h"
#include "folio/core/host_device.h"
#include "folio/tma/ragged_tile.h"

namespace folio::inline v1 {

namespace detail {

/// Keys from `token` to the end of its page; of a cache without pages, to the longest context.
template <KVCacheT Cache>
FOLIO_HOST_DEVICE constexpr int64_t rows_in_page(const Cache& cache, int64_t token) {
  if constexpr (Cache::page_size_ > 0) {
    return Cache::page_size_ - token % Cache::page_size_;
  } else {
    const int64_t rest = static_cast<int64_t>(cache.max_context_length()) - token;
    return rest > 0 ? rest : 0;
  }
}

}  // namespace detail

/// Scales of a cache lie in pages, not in one run; KVCacheScalesMHAOperand reaches them by address.
/// Never satisfied.
template <class Cache> concept kv_cache_operand_has_no_scale_tma_tile = sizeof(Cache) == 0;

/// Forwards to a cache.
template <KVCacheT Cache>
struct KVCacheMHAOperand {
  using device_type = KVCacheMHAOperand;
  static constexpr DType dtype = Cache::dtype;
  static constexpr int page_size = Cache::page_size_;
  static constexpr int head_size = Cache::kv_params.head_size;
  static constexpr int64_t row_size = Cache::row_size;
  static constexpr bool quantization_enabled = Cache::quantization_enabled;
  static constexpr int quantization_granularity = Cache::quantization_granularity;
  static constexpr DType scale_dtype = Cache::scale_dtype;
  using element_type = element_t<dtype>;
  using scale_type = element_t<scale_dtype>;

  Cache cache = {};

  static constexpr FOLIO_HOST_DEVICE const char* get_type_name() { return "KVCacheMHAOperand"; }

  template <int TileSize>
    requires tile_divides_the_page<TileSize, page_size>
  FOLIO_HOST_DEVICE constexpr const element_type* block_paged_ptr(uint32_t batch_idx,
                                                                  uint32_t start_tok_idx,
                                                                  uint32_t head_idx,
                                                                  uint32_t head_dim_idx = 0) const {
    return cache.template block_paged_ptr<TileSize>(batch_idx, start_tok_idx, head_idx,
                                                    head_dim_idx);
  }
  FOLIO_HOST_DEVICE constexpr const scale_type* scales_block_paged_ptr(
      int64_t batch_idx, int64_t start_tok_idx, int64_t head_idx, int64_t head_dim_idx = 0) const {
    return cache.scales_block_paged_ptr(batch_idx, start_tok_idx, head_idx, head_dim_idx);
  }
  FOLIO_HOST_DEVICE constexpr const scale_type* scales_raw_ptr() const {
    return cache.scales_raw_ptr();
  }
  template <int Width>
    requires cache_is_quantised<scale_dtype>
  FOLIO_HOST_DEVICE constexpr Vec<scale_type, Width> load_scale(int64_t batch_idx,
                                                                int64_t start_tok_idx,
                                                                int64_t head_idx,
                                                                int64_t head_dim_idx) const {
    return cache.template load_scale<Width>(batch_idx, head_idx, start_tok_idx, head_dim_idx);
  }
  /// The page walk.
  FOLIO_HOST_DEVICE constexpr OperandRun run(int64_t batch_idx, int64_t token,
                                             int64_t head_idx) const {
    constexpr int64_t row_bytes = int64_t{Cache::kv_params.num_heads} * Cache::kv_params.head_size *
                                  int64_t{sizeof(element_type)};
    const void* data = cache.template block_paged_ptr<1>(batch_idx, token, head_idx);
    return {static_cast<const std::byte*>(data), detail::rows_in_page(cache, token), row_bytes};
  }

  FOLIO_HOST_DEVICE constexpr int64_t cache_length(int64_t batch_idx) const {
    return cache.cache_length(batch_idx);
  }
  FOLIO_HOST_DEVICE constexpr uint32_t max_context_length() const {
    return cache.max_context_length();
  }
  FOLIO_HOST_DEVICE constexpr int64_t num_kv_rows() const { return cache.num_kv_rows(); }
  FOLIO_HOST_DEVICE constexpr int64_t row_idx(uint32_t batch_idx, uint32_t start_tok_idx) const {
    return cache.row_idx(batch_idx, start_tok_idx);
  }
  FOLIO_HOST_DEVICE constexpr int64_t get_tma_row(int64_t encoded_index) const {
    return cache.get_tma_row(encoded_index);
  }
  template <int BN, int BaseAlignment, bool PairCta = false, bool IsLeader = true>
    requires TileGeometry<BN, page_size, PairCta> &&
             base_alignment_is_a_multiple_of_the_piece<BN, page_size, BaseAlignment>
  FOLIO_HOST_DEVICE auto populate(uint32_t batch_idx, uint32_t base_kv_row) const {
    return cache.template populate<BN, BaseAlignment, PairCta, IsLeader>(batch_idx, base_kv_row);
  }

  // ---- TMA: the cache's, with the first Depth columns of a head.

  FOLIO_HOST_DEVICE PlaneGeometry tma_plane() const { return cache.tma_plane(); }
  template <Swizzle Mode, int BN, int Depth, int BK = padded_depth(dtype, Mode, Depth),
            int Fold = 1, bool RowMajor = false>
    requires depth_lies_within_the_head<Depth, head_size> &&
             head_is_a_multiple_of_16_bytes<dtype, head_size> &&
             TmaTileGeometry<dtype, Mode, BN, BK, page_size> &&
             TmaFold<dtype, Mode, BN, Depth, BK, page_size, Fold, RowMajor>
  FOLIO_HOST_DEVICE auto create_tma_tile() const {
    return detail::row_tile<Fold, RowMajor>(
        tma_plane(), {.swizzle = Mode, .rows = BN, .columns = BK, .depth = Depth});
  }
  template <Swizzle Mode, int BN, int Depth, int BK = padded_depth(dtype, Mode, Depth),
            int Group = 1>
    requires depth_lies_within_the_head<Depth, head_size> &&
             head_is_a_multiple_of_16_bytes<dtype, head_size> &&
             tile_and_heads_are_whole_groups<Cache::kv_params.num_heads, BN, Group> &&
             TmaTileGeometry<dtype, Mode, BN / Group, BK, page_size>
  FOLIO_HOST_DEVICE RaggedTMA3DTile create_ragged_tma_tile() const {
    return tma::ragged_tile(tma_plane(),
                            {.swizzle = Mode, .rows = BN, .columns = BK, .depth = Depth}, Group);
  }
  template <Swizzle Mode, int BN, int BK, int PaddedDepth>
    requires head_is_a_multiple_of_16_bytes<dtype, head_size> &&
             padded_depth_is_a_multiple_of_16_bytes<PaddedDepth> &&
             head_is_padded_depth_bytes_and_the_rope<dtype, head_size, PaddedDepth, BK> &&
             TmaTileGeometry<DType::bf16, Mode, BN, BK, page_size>
  FOLIO_HOST_DEVICE TMATensorTile<3> create_rope_tma_tile() const {
    return cache.template create_rope_tma_tile<Mode, BN, BK, PaddedDepth>();
  }
  template <int TileWidth, int TileStride = TileWidth, Swizzle Mode = Swizzle::none,
            int TileHeight = 4, TmaDType TmaType = tma_dtype_of(dtype),
            L2Promotion L2 = L2Promotion::none>
    requires TmaGather4<TmaType, TileWidth, TileStride, Mode, TileHeight> &&
             tile_stride_is_the_row_of_the_cache<TmaType, TileStride,
                                                 row_size * int64_t{sizeof(element_type)}>
  FOLIO_HOST_DEVICE TMATensorTile<2> create_gather4_tma_tile() const {
    return cache
        .template create_gather4_tma_tile<TileWidth, TileStride, Mode, TileHeight, TmaType, L2>();
  }
  template <int TileWidth, int PaddedDepth, Swizzle Mode = Swizzle::none, int TileHeight = 4,
            L2Promotion L2 = L2Promotion::none>
    requires padded_depth_is_a_multiple_of_16_bytes<PaddedDepth> &&
             TmaGather4<TmaDType::bf16, TileWidth, TileWidth, Mode, TileHeight> &&
             tile_stride_is_the_row_of_the_cache<TmaDType::bf16, (PaddedDepth + 2 * TileWidth) / 2,
                                                 row_size * int64_t{sizeof(element_type)}>
  FOLIO_HOST_DEVICE TMATensorTile<2> create_rope_gather4_tma_tile() const {
    return cache
        .template create_rope_gather4_tma_tile<TileWidth, PaddedDepth, Mode, TileHeight, L2>();
  }
  template <Swizzle Mode, int BN, int Depth, int BK = padded_depth(dtype, Mode, Depth),
            tma::ChunksPerCopy PerCopy = tma::ChunksPerCopy::all>
    requires depth_lies_within_the_head<Depth, head_size> &&
             head_is_a_multiple_of_16_bytes<dtype, head_size> &&
             TmaTileGeometry<dtype, Mode, BN, BK, page_size> &&
             folded_head_is_whole_swizzle_chunks<dtype, Mode, Depth, 2>
  FOLIO_HOST_DEVICE TMATensorTile<5> create_page_tma_tile() const {
    return tma::page_tile(tma_plane(), {.swizzle = Mode, .rows = BN, .columns = BK, .depth = Depth},
                          PerCopy);
  }
  /// Not supported; declared so that the compiler says why.
  template <auto... Parameters, class... Args>
    requires kv_cache_operand_has_no_scale_tma_tile<Cache>
  void create_scale_tma_tile(Args&&...) const;
};

/// Scales are loaded by address only. Never satisfied.
template <class Cache> concept scales_operand_has_no_tma_tile = sizeof(Cache) == 0;

/// The scales of a paged, quantised cache as the data: MLA keeps a scale per token there
/// (quantization_granularity = head_size). Rows are counted with the scales' own page stride. It
/// has itself no scales.
template <KVCacheT Cache>
  requires cache_is_quantised<Cache::scale_dtype>
struct KVCacheScalesMHAOperand {
  using device_type = KVCacheScalesMHAOperand;
  static constexpr DType dtype = Cache::scale_dtype;
  static constexpr int page_size = Cache::page_size_;
  static constexpr bool quantization_enabled = Cache::quantization_enabled;
  static constexpr int quantization_granularity = Cache::quantization_granularity;
  static constexpr DType scale_dtype = DType::invalid;
  using element_type = element_t<dtype>;
  using scale_type = no_element;

  Cache cache = {};

  static constexpr FOLIO_HOST_DEVICE const char* get_type_name() {
    return "KVCacheScalesMHAOperand";
  }

  /// The scale of element `head_dim_idx` of the cache.
  template <int TileSize>
    requires tile_divides_the_page<TileSize, page_size>
  FOLIO_HOST_DEVICE constexpr const element_type* block_paged_ptr(uint32_t batch_idx,
                                                                  uint32_t start_tok_idx,
                                                                  uint32_t head_idx,
                                                                  uint32_t head_dim_idx = 0) const {
    return cache.scales_block_paged_ptr(batch_idx, start_tok_idx, head_idx, head_dim_idx);
  }
  FOLIO_HOST_DEVICE constexpr const scale_type* scales_block_paged_ptr(int64_t, int64_t, int64_t,
                                                                       int64_t = 0) const {
    return nullptr;
  }
  FOLIO_HOST_DEVICE constexpr const scale_type* scales_raw_ptr() const { return nullptr; }
  /// Values without content.
  template <int Width>
  FOLIO_HOST_DEVICE constexpr Vec<scale_type, Width> load_scale(int64_t, int64_t, int64_t,
                                                                int64_t) const {
    return {};
  }
  /// The page walk over scales.
  FOLIO_HOST_DEVICE constexpr OperandRun run(int64_t batch_idx, int64_t token,
                                             int64_t head_idx) const {
    constexpr int64_t row_bytes = Cache::scale_row_size * int64_t{sizeof(element_type)};
    const void* data = cache.scales_block_paged_ptr(batch_idx, token, head_idx);
    return {static_cast<const std::byte*>(data), detail::rows_in_page(cache, token), row_bytes};
  }

  FOLIO_HOST_DEVICE constexpr int64_t cache_length(int64_t batch_idx) const {
    return cache.cache_length(batch_idx);
  }
  FOLIO_HOST_DEVICE constexpr uint32_t max_context_length() const {
    return cache.max_context_length();
  }
  FOLIO_HOST_DEVICE constexpr int64_t num_kv_rows() const {
    const int64_t num_pages = cache.scales.extent(0);
    return num_pages == 0 ? 0 : (num_pages - 1) * cache.scale_row_stride() + page_size;
  }
  FOLIO_HOST_DEVICE constexpr int64_t row_idx(uint32_t batch_idx, uint32_t start_tok_idx) const {
    constexpr auto page_rows = static_cast<uint32_t>(page_size);
    const int64_t page = cache.lookup_table(batch_idx, start_tok_idx / page_rows);
    return page < cache.scales.extent(0)
               ? page * cache.scale_row_stride() + start_tok_idx % page_rows
               : num_kv_rows();
  }
  FOLIO_HOST_DEVICE constexpr int64_t get_tma_row(int64_t encoded_index) const {
    if (encoded_index < 0) return encoded_index;
    if (encoded_index / page_size >= cache.scales.extent(0)) return -1;
    return encoded_index / page_size * cache.scale_row_stride() + encoded_index % page_size;
  }
  template <int BN, int BaseAlignment, bool PairCta = false, bool IsLeader = true>
    requires TileGeometry<BN, page_size, PairCta> &&
             base_alignment_is_a_multiple_of_the_piece<BN, page_size, BaseAlignment>
  FOLIO_HOST_DEVICE PagedRowIndices<BN, page_size, PairCta, IsLeader> populate(
      uint32_t batch_idx, uint32_t base_kv_row) const {
    return detail::populate_rows<BN, page_size, BaseAlignment, PairCta, IsLeader>(
        cache.lookup_table.pointer(batch_idx, 0), base_kv_row,
        {cache.scales.extent(0), cache.scale_row_stride(), num_kv_rows()});
  }

  /// Not supported; declared so that the compiler says why.
  template <auto... Parameters, class... Args>
    requires scales_operand_has_no_tma_tile<Cache>
  void create_tma_tile(Args&&...) const;
  template <auto... Parameters, class... Args>
    requires scales_operand_has_no_tma_tile<Cache>
  void create_scale_tma_tile(Args&&...) const;
  template <auto... Parameters, class... Args>
    requires scales_operand_has_no_tma_tile<Cache>
  void create_ragged_tma_tile(Args&&...) const;
  template <auto... Parameters, class... Args>
    requires scales_operand_has_no_tma_tile<Cache>
  void create_rope_tma_tile(Args&&...) const;
  template <auto... Parameters, class... Args>
    requires scales_operand_has_no_tma_tile<Cache>
  void create_gather4_tma_tile(Args&&...) const;
  template <auto... Parameters, class... Args>
    requires scales_operand_has_no_tma_tile<Cache>
  void create_rope_gather4_tma_tile(Args&&...) const;
};

}  // namespace folio::inline v1
