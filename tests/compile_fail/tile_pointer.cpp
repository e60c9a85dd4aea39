// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/tile_pointer.cpp: a tile may not cross pages.
// expect: unsatisfied tile_divides_the_page
#include "folio/cache/paged_kv_cache.h"

using namespace folio;
constexpr KVCacheStaticParams params{2, 16};
using Cache = PagedKVCache<DType::bf16, params, 16>;
#ifndef FOLIO_BAD
auto use(const Cache& cache) { return cache.block_paged_ptr<8>(0, 0, 0); }
#else
auto use(const Cache& cache) { return cache.block_paged_ptr<32>(0, 0, 0); }
#endif
