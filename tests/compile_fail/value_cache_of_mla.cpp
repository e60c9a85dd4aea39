// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/value_cache_of_mla.cpp: a latent cache has keys only.
// expect: unsatisfied cache_has_a_value_plane
#include "folio/cache/paged_kv_cache_collection.h"

using namespace folio;
constexpr KVCacheStaticParams params{1, 576, true};
using Collection = PagedKVCacheCollection<DType::bf16, params, 16>;
#ifndef FOLIO_BAD
auto use(const Collection& collection) { return collection.get_key_cache(0); }
#else
auto use(const Collection& collection) { return collection.get_value_cache(0); }
#endif
