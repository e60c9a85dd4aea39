// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/load_type.cpp: 4-bit types have no elements yet.
// expect: output_type_is_supported|undefined template '\S*element<\S*i4>'
#include "folio/cache/paged_kv_cache.h"

using namespace folio;
constexpr KVCacheStaticParams params{2, 16};
using Cache = PagedKVCache<DType::bf16, params, 16>;
#ifndef FOLIO_BAD
auto use(const Cache& cache) { return cache.load<4, DType::i8>(0, 0, 0, 0); }
#else
auto use(const Cache& cache) { return cache.load<4, DType::i4>(0, 0, 0, 0); }
#endif
