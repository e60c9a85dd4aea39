// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/packed_type.cpp: nothing points to half a byte.
// expect 1: PagedKVCache: dtype has no element type, as packed and block formats
// expect 2: ContinuousKVCache: dtype has no element type, as packed and block formats
// expect 3: ViewMHAOperand: dtype has no element type, as packed and block formats
// expect 4: MHAOperand: dtype has no element type, as packed and block formats
#include "folio/attention/operand/tensor_operands.h"
#include "folio/attention/operand/view_operand.h"
#include "folio/cache/continuous_kv_cache.h"
#include "folio/cache/paged_kv_cache.h"

using namespace folio;
constexpr KVCacheStaticParams params{2, 32};
#ifndef FOLIO_BAD
constexpr PagedKVCache<DType::i8, params, 16, DType::f16, 32> cache;
#elif FOLIO_BAD == 1
constexpr PagedKVCache<DType::i4, params, 16, DType::f16, 32> cache;
#elif FOLIO_BAD == 2
constexpr ContinuousKVCache<DType::u4_halves, params> cache;
#elif FOLIO_BAD == 3
constexpr ViewMHAOperand<DType::f4_e2m1, DType::f8_e4m3> operand_of_view;
#else
constexpr TensorMHAOperand<DType::i4_halves> operand_of_tensor;
#endif
