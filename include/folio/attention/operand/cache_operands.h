// SPDX-License-Identifier: Apache-2.0
/// folio/attention/operand/cache_operands.h: a cache, or the scales of a cache, as an attention
/// operand.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "folio/attention/operand/concept.h"
#include "folio/cache/kv_cache.h"
#include "folio/cache/row_indices.h"
#include "folio/cache/tma_members.h"
#include "folio/core/element.h"
#include "folio/core/host_device.h"

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

/// The run that begins with `token`; `at(token)` is the address of a key, null for an unassigned
/// page. The stride is that to a neighbour in the page; a page of one key needs none.
template <KVCacheT Cache, class At>
FOLIO_HOST_DEVICE constexpr operand::OperandRun run_in_page(const Cache& cache, int64_t token,
                                                            At at) {
  const auto byte_at = [&](int64_t key) {
    const void* address = at(key);
    return static_cast<const std::byte*>(address);
  };
  const int64_t rows = rows_in_page(cache, token);
  const std::byte* data = rows > 0 ? byte_at(token) : nullptr;
  if (data == nullptr) return {nullptr, rows, 0};
  const int64_t slot = Cache::page_size_ > 0 ? token % Cache::page_size_ : token;
  if (rows > 1) return {data, rows, byte_at(token + 1) - data};
  return {data, rows, slot > 0 ? data - byte_at(token - 1) : 0};
}

/// Rows of scales are counted apart where a cache says how, and shows which pages it has.
template <class C>
concept CountsScaleRows = requires(const C& c) {
  { c.scale_rows() } -> std::same_as<PagedRows<C::page_size_>>;
  { c.lookup_table.pointer(0, 0) } -> std::convertible_to<const uint32_t*>;
};
template <class C, int BN, int BaseAlignment, bool PairCta, bool IsLeader>
concept PopulatesTiles = requires(const C& c, uint32_t u) {
  c.template populate<BN, BaseAlignment, PairCta, IsLeader>(u, u);
};

/// A KVCacheT need not describe itself to TMA.
template <class Cache> concept cache_describes_its_plane = type_describes_its_plane<Cache>;

/// Scales of a cache lie in pages, not in one run; KVCacheScalesMHAOperand reaches them by address.
/// Never satisfied.
template <class Cache> concept kv_cache_operand_has_no_scale_tma_tile = sizeof(Cache) == 0;
/// Scales are loaded by address only. Never satisfied.
template <class Cache> concept scales_operand_has_no_tma_tile = sizeof(Cache) == 0;

}  // namespace detail

/// Forwards to a cache, whose addresses say where its keys lie. TMA tiles are those of the cache's
/// plane; where it describes none there are none.
template <KVCacheT Cache>
struct KVCacheMHAOperand
    : detail::PagedOperandTmaTiles<KVCacheMHAOperand<Cache>,
                                   detail::TmaSizes{Cache::dtype, Cache::kv_params.num_heads,
                                                    Cache::kv_params.head_size,
                                                    Cache::page_size_}> {
  using device_type = KVCacheMHAOperand;
  static constexpr DType dtype = Cache::dtype;
  static constexpr int page_size = Cache::page_size_;
  static constexpr int head_size = Cache::kv_params.head_size;
  static constexpr int64_t row_size = int64_t{Cache::kv_params.num_heads} * head_size;
  static constexpr bool quantization_enabled = KVCacheTraits<Cache>::quantization_enabled;
  static constexpr int quantization_granularity = KVCacheTraits<Cache>::quantization_granularity;
  static constexpr DType scale_dtype = KVCacheTraits<Cache>::scale_dtype;
  using element_type = element_t<dtype>;
  using scale_type = element_t<scale_dtype>;

  Cache cache = {};

  constexpr KVCacheMHAOperand() = default;
  FOLIO_HOST_DEVICE constexpr KVCacheMHAOperand(const Cache& of) : cache(of) {}

  static constexpr FOLIO_HOST_DEVICE const char* get_type_name() { return "KVCacheMHAOperand"; }

  template <int TileSize>
    requires detail::tile_divides_the_page<TileSize, page_size>
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
    requires detail::cache_is_quantised<scale_dtype>
  FOLIO_HOST_DEVICE constexpr Vec<scale_type, Width> load_scale(int64_t batch_idx,
                                                                int64_t start_tok_idx,
                                                                int64_t head_idx,
                                                                int64_t head_dim_idx) const {
    return cache.template load_scale<Width>(batch_idx, head_idx, start_tok_idx, head_dim_idx);
  }
  /// The page walk.
  FOLIO_HOST_DEVICE constexpr operand::OperandRun run(int64_t batch_idx, int64_t token,
                                                      int64_t head_idx) const {
    return detail::run_in_page(cache, token, [&](int64_t key) {
      return cache.template block_paged_ptr<1>(batch_idx, key, head_idx);
    });
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
    requires detail::TileGeometry<BN, page_size, PairCta> &&
             detail::base_alignment_is_a_multiple_of_the_piece<BN, page_size, BaseAlignment> &&
             detail::PopulatesTiles<Cache, BN, BaseAlignment, PairCta, IsLeader>
  FOLIO_HOST_DEVICE auto populate(uint32_t batch_idx, uint32_t base_kv_row) const {
    return cache.template populate<BN, BaseAlignment, PairCta, IsLeader>(batch_idx, base_kv_row);
  }

  /// The cache's, for the tiles of the first Depth columns of a head.
  FOLIO_HOST_DEVICE tma::PlaneGeometry tma_plane() const
    requires detail::cache_describes_its_plane<Cache>
  {
    return cache.tma_plane();
  }
  /// Not supported; declared so that the compiler says why.
  template <auto... Parameters, class... Args>
    requires detail::kv_cache_operand_has_no_scale_tma_tile<Cache>
  void create_scale_tma_tile(Args&&...) const;
};

/// The scales of a quantised cache as the data: MLA keeps a scale per token there
/// (quantization_granularity = head_size). Rows are counted with the scales' own page stride where
/// the cache tells it, as PagedKVCache does; otherwise they are the cache's rows. It has itself no
/// scales.
template <KVCacheT Cache>
  requires detail::cache_is_quantised<KVCacheTraits<Cache>::scale_dtype>
struct KVCacheScalesMHAOperand {
  using device_type = KVCacheScalesMHAOperand;
  static constexpr DType dtype = KVCacheTraits<Cache>::scale_dtype;
  static constexpr int page_size = Cache::page_size_;
  static constexpr bool quantization_enabled = KVCacheTraits<Cache>::quantization_enabled;
  static constexpr int quantization_granularity = KVCacheTraits<Cache>::quantization_granularity;
  static constexpr DType scale_dtype = DType::invalid;
  using element_type = element_t<dtype>;
  using scale_type = detail::no_element;

  Cache cache = {};

  static constexpr FOLIO_HOST_DEVICE const char* get_type_name() {
    return "KVCacheScalesMHAOperand";
  }

  /// The scale of element `head_dim_idx` of the cache.
  template <int TileSize>
    requires detail::tile_divides_the_page<TileSize, page_size>
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
  FOLIO_HOST_DEVICE constexpr operand::OperandRun run(int64_t batch_idx, int64_t token,
                                                      int64_t head_idx) const {
    return detail::run_in_page(cache, token, [&](int64_t key) {
      return cache.scales_block_paged_ptr(batch_idx, key, head_idx);
    });
  }

  FOLIO_HOST_DEVICE constexpr int64_t cache_length(int64_t batch_idx) const {
    return cache.cache_length(batch_idx);
  }
  FOLIO_HOST_DEVICE constexpr uint32_t max_context_length() const {
    return cache.max_context_length();
  }
  FOLIO_HOST_DEVICE constexpr int64_t num_kv_rows() const {
    if constexpr (detail::CountsScaleRows<Cache>) {
      return cache.scale_rows().num_kv_rows();
    } else {
      return cache.num_kv_rows();
    }
  }
  FOLIO_HOST_DEVICE constexpr int64_t row_idx(uint32_t batch_idx, uint32_t start_tok_idx) const {
    if constexpr (detail::CountsScaleRows<Cache>) {
      return cache.scale_rows().row_idx(cache.lookup_table.pointer(batch_idx, 0), start_tok_idx);
    } else {
      return cache.row_idx(batch_idx, start_tok_idx);
    }
  }
  FOLIO_HOST_DEVICE constexpr int64_t get_tma_row(int64_t encoded_index) const {
    if constexpr (detail::CountsScaleRows<Cache>) {
      return cache.scale_rows().get_tma_row(encoded_index);
    } else {
      return cache.get_tma_row(encoded_index);
    }
  }
  template <int BN, int BaseAlignment, bool PairCta = false, bool IsLeader = true>
    requires detail::TileGeometry<BN, page_size, PairCta> &&
             detail::base_alignment_is_a_multiple_of_the_piece<BN, page_size, BaseAlignment> &&
             detail::PopulatesTiles<Cache, BN, BaseAlignment, PairCta, IsLeader>
  FOLIO_HOST_DEVICE auto populate(uint32_t batch_idx, uint32_t base_kv_row) const {
    if constexpr (detail::CountsScaleRows<Cache>) {
      return detail::populate_rows<BN, page_size, BaseAlignment, PairCta, IsLeader>(
          cache.lookup_table.pointer(batch_idx, 0), base_kv_row, cache.scale_rows());
    } else {
      return cache.template populate<BN, BaseAlignment, PairCta, IsLeader>(batch_idx, base_kv_row);
    }
  }

  /// Not supported; declared so that the compiler says why.
  template <auto... Parameters, class... Args>
    requires detail::scales_operand_has_no_tma_tile<Cache>
  void create_tma_tile(Args&&...) const;
  template <auto... Parameters, class... Args>
    requires detail::scales_operand_has_no_tma_tile<Cache>
  void create_scale_tma_tile(Args&&...) const;
  template <auto... Parameters, class... Args>
    requires detail::scales_operand_has_no_tma_tile<Cache>
  void create_ragged_tma_tile(Args&&...) const;
  template <auto... Parameters, class... Args>
    requires detail::scales_operand_has_no_tma_tile<Cache>
  void create_rope_tma_tile(Args&&...) const;
  template <auto... Parameters, class... Args>
    requires detail::scales_operand_has_no_tma_tile<Cache>
  void create_gather4_tma_tile(Args&&...) const;
  template <auto... Parameters, class... Args>
    requires detail::scales_operand_has_no_tma_tile<Cache>
  void create_rope_gather4_tma_tile(Args&&...) const;
};

}  // namespace folio::inline v1
