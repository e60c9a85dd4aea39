// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/scales_operand_tma.cpp: scales are loaded by address.
// expect: unsatisfied scales_operand_has_no_tma_tile
#include "folio/attention/operand.h"
#include "folio/cache/paged_kv_cache.h"

using namespace folio;
constexpr KVCacheStaticParams params{2, 16};
using Cache = PagedKVCache<DType::f8_e4m3, params, 16, DType::f32, 8>;
using Operand = KVCacheScalesMHAOperand<Cache>;
#ifndef FOLIO_BAD
auto use(const Operand& operand) { return operand.run(0, 0, 0); }
#else
void use(const Operand& operand) { operand.create_tma_tile<64, 128>(); }
#endif
