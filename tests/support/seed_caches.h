// SPDX-License-Identifier: Apache-2.0
/// tests/support/seed_caches.h: small caches of every static kind, and what they can and cannot do
/// as concepts.
#pragma once

#include <cstdint>
#include <list>

#include "folio/attention/operand.h"
#include "folio/core/element.h"
#include "support/static_cache.h"

namespace folio::test {

constexpr KVCacheStaticParams params{2, 20};
constexpr KVCacheStaticParams latent{1, 24, true};
using Collection = PagedKVCacheCollection<DType::i8, params, 4, DType::f16, 8>;
using Cache = Collection::CacheType;
using PlainCollection = PagedKVCacheCollection<DType::bf16, params, 4>;
using Plain = PlainCollection::CacheType;
using LatentCollection = PagedKVCacheCollection<DType::bf16, latent, 4>;
using ContinuousCollection = ContinuousKVCacheCollection<DType::bf16, params>;
using Continuous = ContinuousCollection::CacheType;
using Operand = KVCacheScalesMHAOperand<Cache>;

/// A fresh cache that lives until the program ends: five pages, three layers (so S = 24 rows);
/// sequence 0 has pages 4, 1, 2, sequence 1 has 0, 3 and no third.
template <class Kind>
const StaticCache<Kind>& paged() {
  static std::list<StaticCache<Kind>> caches;
  const StaticSizes sizes{
      .num_pages = 5, .num_layers = 3, .batch = 2, .max_cache_length = 12, .max_seq_length = 3};
  const StaticCache<Kind>& cache = caches.emplace_back(sizes);
  cache.set_row(0, {4, 1, 2});
  cache.set_row(1, {0, 3});
  cache.lengths()[0] = 7;
  return cache;
}

inline const ContinuousCache<ContinuousCollection>& continuous() {
  static std::list<ContinuousCache<ContinuousCollection>> caches;
  const StaticSizes sizes{.num_pages = 2,
                          .num_layers = 3,
                          .batch = 2,
                          .max_cache_length = 12,
                          .max_seq_length = 3,
                          .max_length = 12};
  const ContinuousCache<ContinuousCollection>& cache = caches.emplace_back(sizes);
  cache.lengths()[0] = 7;
  return cache;
}

/// `check` on K of layer 1 of every kind of cache.
template <class Check>
void each_kind(Check check) {
  const auto& quantised = paged<Collection>();
  const auto& plain = paged<PlainCollection>();
  const auto& single = continuous();
  check(quantised.key(1));
  check(plain.key(1));
  check(single.key(1));
}

template <int Width>
constexpr Vec<int8_t, Width> counted(int first) {
  Vec<int8_t, Width> v;
  for (int i = 0; i < Width; ++i) v[i] = static_cast<int8_t>(first + i);
  return v;
}

constexpr f16 half(float x) { return from_float<f16>(x); }

template <class C, class Elements>
concept Stores = requires(const C c, const Elements e) { c.store(0, 0, 0, 0, e); };
template <class C>
concept StoresScales =
    requires(const C c) { c.store_scale(0, 0, 0, 0, Vec<element_t<C::scale_dtype>, 1>{}); };
template <class C>
concept LoadsScales = requires(const C c) { c.template load_scale<1>(0, 0, 0, 0); };
template <class C>
concept LoadsQuantised = requires(const C c) { c.template load_quantized<1>(0, 0, 0, 0); };
template <class C>
concept LoadsStorageType = requires(const C c) { c.template load<1>(0, 0, 0, 0); };
template <class C, int Rows>
concept HasTilesOf = requires(const C c) { c.template block_paged_ptr<Rows>(0, 0, 0); };
template <class C> concept HasValues = requires(const C c) { c.get_value_cache(0); };

}  // namespace folio::test
