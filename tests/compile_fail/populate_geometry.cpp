// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/populate_geometry.cpp: a tile is whole pages, or lies in one.
// expect: unsatisfied tile_and_page_divide_one_another
#include "folio/cache/paged_kv_cache.h"

using namespace folio;
constexpr KVCacheStaticParams params{2, 16};
using Cache = PagedKVCache<DType::bf16, params, 96>;
#ifndef FOLIO_BAD
auto use(const Cache& cache) { return cache.populate<192, 96>(0, 0); }
#else
auto use(const Cache& cache) { return cache.populate<64, 64>(0, 0); }
#endif
