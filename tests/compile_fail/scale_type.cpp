// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/scale_type.cpp: integers are no scales.
// expect: scale_dtype is one of f32, f16, bf16, f8_e8m0, f8_e4m3
#include "folio/cache/paged_kv_cache.h"

using namespace folio;
constexpr KVCacheStaticParams params{2, 16};
#ifndef FOLIO_BAD
constexpr PagedKVCache<DType::i8, params, 16, DType::f8_e8m0, 8> cache;
#else
constexpr PagedKVCache<DType::i8, params, 16, DType::i8, 8> cache;
#endif
