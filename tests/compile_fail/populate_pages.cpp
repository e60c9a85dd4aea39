// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/populate_pages.cpp: the table is padded for reads of 16 entries.
// expect: unsatisfied tile_spans_at_most_16_pages
#include "folio/cache/paged_kv_cache.h"

using namespace folio;
constexpr KVCacheStaticParams params{2, 16};
using Cache = PagedKVCache<DType::bf16, params, 8>;
#ifndef FOLIO_BAD
auto use(const Cache& cache) { return cache.populate<128, 8>(0, 0); }
#else
auto use(const Cache& cache) { return cache.populate<256, 8>(0, 0); }
#endif
