// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/populate_pair.cpp: two CTAs cannot share three pages.
// expect: unsatisfied pair_of_ctas_halves_the_tile
#include "folio/cache/paged_kv_cache.h"

using namespace folio;
constexpr KVCacheStaticParams params{2, 16};
using Cache = PagedKVCache<DType::bf16, params, 16>;
#ifndef FOLIO_BAD
auto use(const Cache& cache) { return cache.populate<64, 16, true>(0, 0); }
#else
auto use(const Cache& cache) { return cache.populate<48, 16, true>(0, 0); }
#endif
