// SPDX-License-Identifier: Apache-2.0
/// folio/cache/kv_cache.h: what a cache type offers to kernels: the concepts KVCacheT, TmaKVCache
/// and KVCollectionT.
///
/// KVCacheT is one plane of one layer, K or V; TmaKVCache adds the descriptions of its TMA tiles;
/// KVCollectionT gives the planes of all layers. All are views: trivially copyable, they own
/// nothing and check nothing. Members that a type cannot serve do not exist; their constraints are
/// concepts whose names are the sentence to be read in the compiler's message.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "folio/cache/paged_kv_view.h"
#include "folio/cache/static_params.h"
#include "folio/core/dtype.h"
#include "folio/core/element.h"
#include "folio/core/vec.h"
#include "folio/tma/ragged_tile.h"

namespace folio::inline v1 {

namespace detail {

template <DType ScaleDType> concept cache_is_quantised = is_scale_dtype(ScaleDType);
/// Storage values without their scales are what `load_quantized` gives.
template <DType OutputDType, DType StorageDType, DType ScaleDType>
concept quantised_load_has_another_output_type =
    ScaleDType == DType::invalid || OutputDType != StorageDType;
template <DType OutputDType> concept output_type_is_supported = is_supported(OutputDType);
template <int TileSize, int PageSize>
concept tile_divides_the_page =
    TileSize >= 1 && (PageSize == 0 || (PageSize > 0 && PageSize % TileSize == 0));
template <KVCacheStaticParams Params> concept cache_has_a_value_plane = !Params.is_mla;

template <class C>
constexpr bool quantization_enabled_of() {
  if constexpr (requires { C::quantization_enabled; }) {
    return C::quantization_enabled;
  } else {
    return false;
  }
}
template <class C>
constexpr int quantization_granularity_of() {
  if constexpr (requires { C::quantization_granularity; }) {
    return C::quantization_granularity;
  } else {
    return 1;
  }
}
template <class C>
constexpr DType scale_dtype_of() {
  if constexpr (requires { C::scale_dtype; }) {
    return C::scale_dtype;
  } else {
    return DType::invalid;
  }
}

}  // namespace detail

/// The three members of KVCacheT that have defaults: what C says, or that it is not quantised.
template <class C>
struct KVCacheTraits {
  static constexpr bool quantization_enabled = detail::quantization_enabled_of<C>();
  static constexpr int quantization_granularity = detail::quantization_granularity_of<C>();
  static constexpr DType scale_dtype = detail::scale_dtype_of<C>();
  using scale_type = element_t<scale_dtype>;
};

namespace detail {

/// What needs scales is asked of quantised caches only.
template <class C>
concept HasScaleAccess =
    requires(const C c, int64_t i, const Vec<typename KVCacheTraits<C>::scale_type, 1> scale) {
      {
        c.template load_scale<1>(i, i, i, i)
      } -> std::same_as<std::remove_const_t<decltype(scale)>>;
      { c.store_scale(i, i, i, i, scale) };
      { c.template load_quantized<1>(i, i, i, i) } -> std::same_as<Vec<element_t<C::dtype>, 1>>;
    };

/// A tile that every cache admits: one page, or 64 keys of a cache without pages.
template <class C>
inline constexpr int sample_tile = C::page_size_ > 0 ? C::page_size_ : 64;

}  // namespace detail

/// One plane of one layer. `bs` is the row of the batch, `tok_idx` the key's index in the
/// sequence's row, 64-bit throughout. The elements of a head follow one another. The keys of a
/// page, or of a sequence where page_size_ is 0, lie at one stride, whichever it is:
/// block_paged_ptr and scales_block_paged_ptr say where, null for an unassigned page. Rows are
/// those that TMA counts. quantization_enabled, quantization_granularity and scale_dtype may be
/// left out (KVCacheTraits).
template <class C>
concept KVCacheT =
    std::is_trivially_copyable_v<C> && std::same_as<typename C::device_type, C> &&
    requires {
      { C::dtype } -> std::convertible_to<DType>;
      { C::kv_params } -> std::convertible_to<KVCacheStaticParams>;
      { C::page_size_ } -> std::convertible_to<int>;
      { C::get_type_name() } -> std::convertible_to<std::string_view>;
      { C::max_tile_size() } -> std::convertible_to<int64_t>;
    } &&
    requires(const C c, int64_t i, uint32_t u, const Vec<element_t<C::dtype>, 1> value) {
      { c.copy() } -> std::same_as<C>;
      { c.cache_lengths_nd() };
      { c.cache_length(i) } -> std::same_as<int64_t>;
      { c.empty_cache() } -> std::same_as<bool>;
      { c.max_prompt_length() } -> std::same_as<uint32_t>;
      { c.max_context_length() } -> std::same_as<uint32_t>;
      { c.template load<1, DType::f32>(i, i, i, i) } -> std::same_as<Vec<float, 1>>;
      { c.store(i, i, i, i, value) };
      { c.template block_paged_ptr<1>(i, i, i, i) } -> std::same_as<element_t<C::dtype>*>;
      { c.template block_paged_ptr<1>(i, i, i) } -> std::same_as<element_t<C::dtype>*>;
      {
        c.scales_block_paged_ptr(i, i, i, i)
      } -> std::same_as<typename KVCacheTraits<C>::scale_type*>;
      { c.scales_raw_ptr() } -> std::same_as<typename KVCacheTraits<C>::scale_type*>;
      { c.num_kv_rows() } -> std::same_as<int64_t>;
      { c.row_idx(u, u) } -> std::same_as<int64_t>;
      { c.get_tma_row(i) } -> std::same_as<int64_t>;
      { c.template populate<detail::sample_tile<C>, detail::sample_tile<C>, false, true>(u, u) };
    } &&
    KVCacheTraits<C>::quantization_enabled ==
        detail::is_scale_dtype(KVCacheTraits<C>::scale_dtype) &&
    (!KVCacheTraits<C>::quantization_enabled || detail::HasScaleAccess<C>);

namespace detail {

/// Template arguments that fit every cache whose heads are a multiple of 16 bytes: one key, chunks
/// of 128 bytes.
template <class C>
inline constexpr int row_elements = C::kv_params.num_heads * C::kv_params.head_size;
template <class C>
concept HasTmaTiles = requires(const C c) {
  { c.tma_plane() } -> std::same_as<tma::PlaneGeometry>;
  { c.template create_tma_tile<tma::Swizzle::b128, 1>() } -> std::same_as<TMATensorTile<3>>;
  { c.template create_ragged_tma_tile<tma::Swizzle::b128, 1>() } -> std::same_as<RaggedTMA3DTile>;
  {
    c.template create_rope_tma_tile<tma::Swizzle::none, 1, 8,
                                    C::kv_params.head_size * bit_width(C::dtype) / 8 - 16>()
  } -> std::same_as<TMATensorTile<3>>;
  {
    c.template create_gather4_tma_tile<row_elements<C>, row_elements<C>, tma::Swizzle::b128>()
  } -> std::same_as<TMATensorTile<2>>;
};
/// Rows of one head: the rope of a row is that of its head.
template <class C>
concept HasRopeGather4 = requires(const C c) {
  {
    c.template create_rope_gather4_tma_tile<8,
                                            C::kv_params.head_size * bit_width(C::dtype) / 8 - 16>()
  } -> std::same_as<TMATensorTile<2>>;
};

}  // namespace detail

/// A KVCacheT that TMA can load: it describes its tiles. Caches whose heads are no multiple of 16
/// bytes have none.
template <class C>
concept TmaKVCache = KVCacheT<C> && detail::HasTmaTiles<C> &&
                     (C::kv_params.num_heads > 1 || detail::HasRopeGather4<C>);

/// The planes of all layers; K and V, or K alone for MLA.
template <class C>
concept KVCollectionT = KVCacheT<typename C::CacheType> && requires(const C c, int64_t i) {
  { C::name_str } -> std::convertible_to<std::string_view>;
  { C::dtype } -> std::convertible_to<DType>;
  { C::kv_params } -> std::convertible_to<KVCacheStaticParams>;
  { c.get_key_cache(i) } -> std::same_as<typename C::CacheType>;
  { c.cache_length(i) } -> std::same_as<int64_t>;
} && (C::kv_params.is_mla || requires(const C c, int64_t i) {
                          { c.get_value_cache(i) } -> std::same_as<typename C::CacheType>;
                        });

}  // namespace folio::inline v1
