// SPDX-License-Identifier: Apache-2.0
/// src/cache/static_types.cpp: the shipped static types are what their concepts say, over every
/// element, scale and page kind.
#include <type_traits>

#include "folio/cache/continuous_kv_cache.h"
#include "folio/cache/kv_cache.h"
#include "folio/cache/paged_kv_cache.h"
#include "folio/cache/paged_kv_cache_collection.h"

namespace folio::inline v1 {
namespace {

constexpr KVCacheStaticParams llama{8, 128};
constexpr KVCacheStaticParams latent{1, 576, true};

template <class Cache>
constexpr bool is_plain = std::is_trivially_copyable_v<Cache> && std::is_standard_layout_v<Cache>;

template <DType D>
constexpr bool serves_values =
    KVCacheT<PagedKVCache<D, llama, 16>> &&
    KVCacheT<PagedKVCache<D, KVCacheStaticParams{3, 20}, 7>> &&
    KVCacheT<ContinuousKVCache<D, llama>> && is_plain<PagedKVCache<D, llama, 16>> &&
    KVCollectionT<PagedKVCacheCollection<D, llama, 16>> &&
    KVCollectionT<PagedKVCacheCollection<D, latent, 64>> &&
    KVCollectionT<ContinuousKVCacheCollection<D, llama>>;
static_assert(serves_values<DType::f32> && serves_values<DType::f16> &&
              serves_values<DType::bf16> && serves_values<DType::f8_e4m3> &&
              serves_values<DType::f8_e5m2> && serves_values<DType::i8>);

template <DType S>
constexpr bool serves_scales =
    KVCacheT<PagedKVCache<DType::i8, llama, 16, S, 128>> &&
    KVCacheT<PagedKVCache<DType::f8_e4m3, latent, 1, S, 100>> &&
    KVCollectionT<PagedKVCacheCollection<DType::f8_e4m3, llama, 16, S, 32>>;
static_assert(serves_scales<DType::f32> && serves_scales<DType::f16> &&
              serves_scales<DType::bf16> && serves_scales<DType::f8_e8m0> &&
              serves_scales<DType::f8_e4m3>);

/// A head of 20 elements is no multiple of 16 bytes in any type but f32.
template <DType D>
constexpr bool serves_tma =
    TmaKVCache<PagedKVCache<D, llama, 16>> && TmaKVCache<PagedKVCache<D, latent, 1>> &&
    TmaKVCache<PagedKVCache<D, KVCacheStaticParams{8, 80}, 100>> &&
    TmaKVCache<ContinuousKVCache<D, llama>> &&
    TmaKVCache<PagedKVCache<D, KVCacheStaticParams{3, 20}, 7>> == (D == DType::f32) &&
    TmaKVCache<ContinuousKVCache<D, KVCacheStaticParams{3, 20}>> == (D == DType::f32);
static_assert(serves_tma<DType::f32> && serves_tma<DType::f16> && serves_tma<DType::bf16> &&
              serves_tma<DType::f8_e4m3> && serves_tma<DType::f8_e5m2> && serves_tma<DType::i8>);

static_assert(is_plain<ContinuousKVCache<DType::bf16, llama>> &&
              is_plain<PagedKVCacheCollection<DType::bf16, llama, 16>>);

}  // namespace
}  // namespace folio::inline v1
