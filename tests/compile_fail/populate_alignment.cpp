// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/populate_alignment.cpp: a tile begins where a piece begins.
// expect: unsatisfied base_alignment_is_a_multiple_of_the_piece
#include "folio/cache/paged_kv_cache.h"

using namespace folio;
constexpr KVCacheStaticParams params{2, 16};
using Cache = PagedKVCache<DType::bf16, params, 16>;
#ifndef FOLIO_BAD
auto use(const Cache& cache) { return cache.populate<64, 16>(0, 0); }
#else
auto use(const Cache& cache) { return cache.populate<64, 8>(0, 0); }
#endif
