// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/page_size.cpp: a paged cache has pages.
// expect: page_size is at least 1
#include "folio/cache/paged_kv_cache.h"

using namespace folio;
constexpr KVCacheStaticParams params{2, 16};
#ifndef FOLIO_BAD
constexpr PagedKVCache<DType::bf16, params, 1> cache;
#else
constexpr PagedKVCache<DType::bf16, params, 0> cache;
#endif
