// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/kv_buffer.cpp: configurations of KVBuffer that cannot work, and calls that a
/// configuration has not.
// expect 1: at least two stages
// expect 2: unsatisfied partial_strip_is_at_most_half_of_BK
// expect 3: unsatisfied registers_hold_all_strips
// expect 4: BN is a multiple of 32 and of WN
// expect 5: head_dim_offset \+ depth <= cache_depth
// expect 6: 32 rows of a block are whole periods of the swizzle
// expect 7: stages what is stored
// expect 8: load_from_dram: no such stage
// expect 9: unsatisfied MHAOperand
#include "folio/attention/kv_buffer.h"
#include "folio/attention/operand/view_operand.h"

using namespace folio;

#ifndef FOLIO_BAD
#define FOLIO_BAD 0
#endif

struct Config {
  static constexpr IndexList<3> mma_shape{16, 16, 16};
  static constexpr int BN = FOLIO_BAD == 4 ? 48 : 64, WN = FOLIO_BAD == 4 ? 48 : 32;
  static constexpr int BK = 64, smem_depth = 128;
  // valid columns of the last strip: 48 or 32
  static constexpr int depth = FOLIO_BAD == 2 ? 112 : 96;
  static constexpr int reg_chunk_depth = FOLIO_BAD == 3 ? 64 : depth;
  static constexpr int cache_depth = FOLIO_BAD == 5 ? 96 : 128, head_dim_offset = 16;
  static constexpr int num_smem_stages = FOLIO_BAD == 1 ? 1 : 2;
  static constexpr bool transpose = true;
  static constexpr tma::XorSwizzle swizzle{3, 0, FOLIO_BAD == 6 ? 7 : 4};
  static constexpr DType smem_dtype = FOLIO_BAD == 7 ? DType::f32 : DType::bf16;
};
#if FOLIO_BAD == 9
using Buffer = KVBuffer<PagedKVView, Config>;
#else
using Buffer = KVBuffer<ViewMHAOperand<DType::bf16>, Config>;
#endif

void use(Buffer& buffer) {
  buffer.load_from_dram<FOLIO_BAD == 8 ? 2 : 1>();
  buffer.load_from_shared(1);
  buffer.zero_partial_tile_pad();
}
