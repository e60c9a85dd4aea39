// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/tma_operand.cpp: tiles that operands do not have.
// expect 1: unsatisfied scales_operand_has_no_tma_tile
// expect 2: unsatisfied scales_operand_has_no_tma_tile
// expect 3: unsatisfied scales_operand_has_no_tma_tile
// expect 4: unsatisfied scales_operand_has_no_tma_tile
// expect 5: unsatisfied scales_operand_has_no_tma_tile
// expect 6: unsatisfied scales_operand_has_no_tma_tile
// expect 7: unsatisfied kv_cache_operand_has_no_scale_tma_tile
// expect 8: unsatisfied operand_has_scales
// expect 9: unsatisfied scale_tile_is_whole_16_bytes_and_at_most_256_scales
// expect 10: unsatisfied depth_lies_within_the_head
// expect 11: unsatisfied tile_columns_are_whole_swizzle_chunks
// expect 12: unsatisfied operand_has_scales
#include "folio/attention/operand.h"
#include "folio/cache/paged_kv_cache.h"

using namespace folio;
constexpr KVCacheStaticParams params{1, 640, true};
using Cache = PagedKVCache<DType::f8_e4m3, params, 64, DType::f32, 640>;
using Operand = KVCacheMHAOperand<Cache>;
using Scales = KVCacheScalesMHAOperand<Cache>;
using Tensor = TensorMHAOperand<DType::f8_e4m3, DType::f32, 128>;
using Ragged = RaggedMHAOperand<DType::f8_e4m3, DType::f16, 128>;
constexpr tma::Swizzle b128 = tma::Swizzle::b128;

#ifndef FOLIO_BAD
void use() {
  static_cast<void>(Operand().create_tma_tile<b128, 64, 512>());
  static_cast<void>(Tensor().create_scale_tma_tile<64>());
  static_cast<void>(Ragged().create_scale_tma_tile<64>());
}
#elif FOLIO_BAD == 1
void use() { Scales().create_tma_tile<b128, 64, 1>(); }
#elif FOLIO_BAD == 2
void use() { Scales().create_ragged_tma_tile<b128, 64, 1>(); }
#elif FOLIO_BAD == 3
void use() { Scales().create_rope_tma_tile<b128, 64, 64, 512>(); }
#elif FOLIO_BAD == 4
void use() { Scales().create_gather4_tma_tile<1>(); }
#elif FOLIO_BAD == 5
void use() { Scales().create_rope_gather4_tma_tile<64, 512>(); }
#elif FOLIO_BAD == 6
void use() { Scales().create_scale_tma_tile<64>(); }
#elif FOLIO_BAD == 7
void use() { Operand().create_scale_tma_tile<64>(); }
#elif FOLIO_BAD == 8
void use() { TensorMHAOperand<DType::bf16>().create_scale_tma_tile<64>(); }
#elif FOLIO_BAD == 9
void use() { Ragged().create_scale_tma_tile<12>(); }
#elif FOLIO_BAD == 10
void use() { Operand().create_tma_tile<b128, 64, 704>(); }
#elif FOLIO_BAD == 11
void use() { Tensor().create_tma_tile<b128, 64, 128, 96>(); }
#elif FOLIO_BAD == 12
void use() { RaggedMHAOperand<DType::bf16>().create_scale_tma_tile<64>(); }
#endif
