// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/scales_operand_of_plain_cache.cpp: there is no operand of the scales of a
/// cache without scales.
// expect: unsatisfied cache_is_quantised
#include "folio/attention/operand.h"
#include "folio/cache/paged_kv_cache.h"

using namespace folio;
constexpr KVCacheStaticParams params{2, 16};
using Cache = PagedKVCache<DType::bf16, params, 16>;
#ifndef FOLIO_BAD
KVCacheMHAOperand<Cache> operand;
#else
KVCacheScalesMHAOperand<Cache> operand;
#endif
