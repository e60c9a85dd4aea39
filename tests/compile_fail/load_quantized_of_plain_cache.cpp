// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/load_quantized_of_plain_cache.cpp: an unquantised cache has no quantised
/// elements.
// expect: unsatisfied cache_is_quantised
#include "folio/cache/paged_kv_cache.h"

using namespace folio;
constexpr KVCacheStaticParams params{2, 16};
using Cache = PagedKVCache<DType::bf16, params, 16>;
#ifndef FOLIO_BAD
auto use(const Cache& cache) { return cache.load<1>(0, 0, 0, 0); }
#else
auto use(const Cache& cache) { return cache.load_quantized<1>(0, 0, 0, 0); }
#endif
