// SPDX-License-Identifier: Apache-2.0
/// folio/cache/static_view.h: between the two faces: static caches as run-time views, and back.
///
///   view_of(cache)               free: where the plane's bytes are; with table_of(cache), which
///                                pages hold which tokens
///   cache_of<Cache>(view, tables)  checked: refused where the static type cannot say what the view
///                                  says
#pragma once

#include <concepts>
#include <cstdint>

#include "folio/cache/cache_tables.h"
#include "folio/cache/check_static.h"
#include "folio/cache/continuous_kv_cache.h"
#include "folio/cache/page_table.h"
#include "folio/cache/paged_kv_cache.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/core/element.h"
#include "folio/core/status.h"

namespace folio::inline v1::static_cache {

/// The plane behind a paged cache: token-major, packed rows; scales likewise where the cache has
/// them.
template <DType D, KVCacheStaticParams P, int PageSize, DType S, int G>
FOLIO_HOST_DEVICE constexpr PagedKVView view_of(
    const PagedKVCache<D, P, PageSize, S, G>& cache) noexcept {
  using Cache = PagedKVCache<D, P, PageSize, S, G>;
  constexpr int64_t element_bytes = sizeof(typename Cache::element_type);
  PagedKVView view;
  view.data = cache.blocks.data;
  view.dtype = D;
  view.num_heads = P.num_heads;
  view.head_size = P.head_size;
  view.page_size = PageSize;
  view.num_pages = cache.blocks.extent(0);
  view.page_stride_bytes = cache.blocks.stride(0) * element_bytes;
  view.slot_stride_bytes = Cache::row_size * element_bytes;
  view.head_stride_bytes = P.head_size * element_bytes;
  if constexpr (Cache::quantization_enabled) {
    constexpr int64_t scale_bytes = sizeof(typename Cache::scale_type);
    if (cache.scales.data != nullptr) {
      view.scales.data = cache.scales.data;
      view.scales.dtype = S;
      view.scales.granularity = G;
      view.scales.page_stride_bytes = cache.scales.stride(0) * scale_bytes;
      view.scales.slot_stride_bytes = Cache::scale_row_size * scale_bytes;
      view.scales.head_stride_bytes = Cache::head_dim_granularity * scale_bytes;
      view.scales.granule_stride_bytes = scale_bytes;
    }
  }
  return view;
}

/// Pages of max_length tokens; the table's one column tells which.
template <DType D, KVCacheStaticParams P>
FOLIO_HOST_DEVICE constexpr PagedKVView view_of(const ContinuousKVCache<D, P>& cache) noexcept {
  constexpr int64_t element_bytes = sizeof(element_t<D>);
  PagedKVView view;
  view.data = cache.blocks.data;
  view.dtype = D;
  view.num_heads = P.num_heads;
  view.head_size = P.head_size;
  view.page_size = static_cast<int32_t>(cache.blocks.extent(1));
  view.num_pages = cache.blocks.extent(0);
  view.page_stride_bytes = cache.blocks.stride(0) * element_bytes;
  view.slot_stride_bytes = ContinuousKVCache<D, P>::row_size * element_bytes;
  view.head_stride_bytes = P.head_size * element_bytes;
  return view;
}

}  // namespace folio::inline v1::static_cache

namespace folio::inline v1::detail {

/// The tables are members of the cache, as those of the seed's caches; a KVCacheT may hide them.
template <class Cache>
concept cache_shows_its_tables = requires(const Cache& c) {
  { c.cache_lengths.data } -> std::convertible_to<const uint32_t*>;
  { c.lookup_table.data } -> std::convertible_to<const uint32_t*>;
  { c.lookup_table.stride(0) + c.lookup_table.extent(1) } -> std::convertible_to<int64_t>;
  { c.max_seq_length + c.max_cache_length } -> std::convertible_to<uint32_t>;
};

}  // namespace folio::inline v1::detail

namespace folio::inline v1::static_cache {

/// The page table of a static cache.
template <KVCacheT Cache>
  requires detail::cache_shows_its_tables<Cache>
FOLIO_HOST_DEVICE constexpr PageTable table_of(const Cache& cache) noexcept {
  return {cache.lookup_table.data, cache.lookup_table.stride(0), nullptr};
}

/// The arrays of a static cache, as `cache_of` takes them.
template <KVCacheT Cache>
  requires detail::cache_shows_its_tables<Cache>
FOLIO_HOST_DEVICE constexpr CacheTables tables_of(const Cache& cache) noexcept {
  CacheTables tables;
  tables.cache_lengths = cache.cache_lengths.data;
  tables.lookup_table = cache.lookup_table.data;
  tables.lut_stride = cache.lookup_table.stride(0);
  tables.lut_cols = cache.lookup_table.extent(1);
  tables.batch = static_cast<uint32_t>(cache.cache_lengths.extent(0));
  tables.max_seq_length = cache.max_seq_length;
  tables.max_cache_length = cache.max_cache_length;
  return tables;
}

}  // namespace folio::inline v1::static_cache

namespace folio::inline v1::detail {

template <class Cache>
inline constexpr bool is_static_cache = false;
template <DType D, KVCacheStaticParams P, int PageSize, DType S, int G>
inline constexpr bool is_static_cache<PagedKVCache<D, P, PageSize, S, G>> = true;
template <DType D, KVCacheStaticParams P>
inline constexpr bool is_static_cache<ContinuousKVCache<D, P>> = true;

/// Other caches are made by their own types.
template <class Cache> concept cache_is_a_paged_or_continuous_kv_cache = is_static_cache<Cache>;

}  // namespace folio::inline v1::detail

namespace folio::inline v1::static_cache {

/// `view` and `tables` as a PagedKVCache or a ContinuousKVCache.
///
/// Errors: invalid_argument, naming what differs, if dtype, heads, head_size, page_size, scale
///         dtype or granularity are not the type's constants; if rows are not packed and
///         token-major; if pages are not a whole number of rows apart, or overlap; if scales are
///         missing, superfluous, not packed likewise, or have a tensor_scale; if rows are rotated
///         or scaled by channels; if num_pages times the row stride exceeds 2^31 - 1; null or
///         misaligned pointers; tables that break what CacheTables states. Arrays are not read.
template <KVCacheT Cache>
  requires detail::cache_is_a_paged_or_continuous_kv_cache<Cache>
[[nodiscard]] Result<Cache> cache_of(const PagedKVView& view, const CacheTables& tables) noexcept {
  constexpr detail::StaticGeometry geometry = detail::static_geometry<Cache>("cache_of");
  if (Status status = detail::check_view(geometry, view); !status.is_ok()) return status;
  if (Status status = detail::check_tables(geometry, tables, view.page_size); !status.is_ok())
    return status;
  constexpr int64_t element_bytes = sizeof(typename Cache::element_type);
  const int64_t page_stride = view.page_stride_bytes / element_bytes;
  Cache cache;
  cache.cache_lengths = {tables.cache_lengths,
                         typename Cache::cache_lengths_tt_layout(tables.batch)};
  cache.lookup_table = {tables.lookup_table, typename Cache::lookup_table_tt_layout(
                                                 tables.batch, tables.lut_cols, tables.lut_stride)};
  cache.max_seq_length = tables.max_seq_length;
  cache.max_cache_length = tables.max_cache_length;
  cache.blocks.data = static_cast<typename Cache::element_type*>(view.data);
  if constexpr (Cache::page_size_ > 0) {
    cache.blocks.layout = typename Cache::blocks_tt_layout(view.num_pages, page_stride);
  } else {
    cache.blocks.layout =
        typename Cache::blocks_tt_layout(view.num_pages, view.page_size, page_stride);
  }
  if constexpr (Cache::quantization_enabled) {
    constexpr int64_t scale_bytes = sizeof(typename Cache::scale_type);
    cache.scales = {static_cast<typename Cache::scale_type*>(view.scales.data),
                    typename Cache::scales_tt_layout(view.num_pages,
                                                     view.scales.page_stride_bytes / scale_bytes)};
  }
  return cache;
}

}  // namespace folio::inline v1::static_cache

namespace folio::inline v1 {  // flat names, for one release
using static_cache::cache_of;
using static_cache::table_of;
using static_cache::tables_of;
using static_cache::view_of;
}  // namespace folio::inline v1
