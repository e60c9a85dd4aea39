// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/store_scale_of_plain_cache.cpp: an unquantised cache stores no scales.
// expect: unsatisfied cache_is_quantised
#include "folio/cache/paged_kv_cache.h"

using namespace folio;
constexpr KVCacheStaticParams params{2, 16};
using Cache = PagedKVCache<DType::bf16, params, 16>;
#ifndef FOLIO_BAD
void use(const Cache& cache) { cache.store(0, 0, 0, 0, Vec<bf16, 1>{}); }
#else
void use(const Cache& cache) { cache.store_scale(0, 0, 0, 0, Vec<detail::no_element, 1>{}); }
#endif
