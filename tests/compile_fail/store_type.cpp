// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/store_type.cpp: a cache stores its own element type only.
// expect: no matching (member )?function for call to .*store
#include "folio/cache/paged_kv_cache.h"

using namespace folio;
constexpr KVCacheStaticParams params{2, 16};
using Cache = PagedKVCache<DType::bf16, params, 16>;
#ifndef FOLIO_BAD
void use(const Cache& cache) { cache.store(0, 0, 0, 0, Vec<bf16, 4>{}); }
#else
void use(const Cache& cache) { cache.store(0, 0, 0, 0, Vec<float, 4>{}); }
#endif
