// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/quantised_load.cpp: a quantised cache's elements are not values without their
/// scales.
// expect: unsatisfied quantised_load_has_another_output_type
#include "folio/cache/paged_kv_cache.h"

using namespace folio;
constexpr KVCacheStaticParams params{2, 16};
using Cache = PagedKVCache<DType::f8_e4m3, params, 16, DType::f32, 8>;
#ifndef FOLIO_BAD
float use(const Cache& cache) { return cache.load<4, DType::f32>(0, 0, 0, 0)[0]; }
#else
f8_e4m3 use(const Cache& cache) { return cache.load<4>(0, 0, 0, 0)[0]; }
#endif
