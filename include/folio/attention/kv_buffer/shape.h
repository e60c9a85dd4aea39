// SPDX-License-Identifier: Apache-2.0
/// folio/attention/kv_buffer/shape.h: the parameters of a KVBuffer and every constant that follows
/// from them.
#pragma once

#include <cstdint>

#include "folio/attention/kv_buffer/config.h"
#include "folio/core/dtype.h"
#include "folio/core/element.h"
#include "folio/core/host_device.h"
#include "folio/core/tensor_view.h"
#include "folio/tma/swizzle.h"
#include "folio/tma/tile_layout.h"

namespace folio::inline v1::detail {

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

}  // namespace folio::inline v1::detail

namespace folio::inline v1::kv_buffer {

/// Which part of a stage one warp moves at once: `warp_tile_rows` rows of one block.
struct LoadUnit {
  int32_t row_group = 0;  ///< rows [32 * row_group, + 32)
  int32_t block = 0;      ///< columns [bk_smem * block, + bk_smem)
  bool operator==(const LoadUnit&) const = default;
};

}  // namespace folio::inline v1::kv_buffer

namespace folio::inline v1 {

template <class Operand, class Config>
struct KVBufferShape {
  using operand_type = Operand;
  using config_type = Config;

  // ---- parameters

  static constexpr IndexList<3> mma_shape = Config::mma_shape;  ///< M, N, K
  static constexpr tma::XorSwizzle swizzle = detail::config_swizzle<Config>();
  static constexpr int BN = Config::BN;                   ///< keys of a tile
  static constexpr int WN = detail::config_wn<Config>();  ///< keys of a warp
  static constexpr int BK = Config::BK;                   ///< a strip: dims of K, keys of V
  static constexpr int depth = Config::depth;             ///< dims of a head that are used
  static constexpr bool transpose = Config::transpose;    ///< K; false: V
  static constexpr int num_threads = detail::config_num_threads<Config>();
  static constexpr int kv_num_heads = detail::config_kv_num_heads<Config>();
  static constexpr bool full_kv =
      /// a stage holds the whole tile; false: one strip of columns
      detail::config_full_kv<Config>();
  /// dims of a head in memory
  static constexpr int cache_depth = detail::config_cache_depth<Config>();
  /// the first that is used
  static constexpr int head_dim_offset = detail::config_head_dim_offset<Config>();
  /// dims of K in registers
  static constexpr int reg_chunk_depth = detail::config_reg_chunk_depth<Config>();
  /// keys of V in registers
  static constexpr int reg_chunk_keys = detail::config_reg_chunk_keys<Config>();
  /// columns of staging, >= depth
  static constexpr int smem_depth = detail::config_smem_depth<Config>();
  /// columns of a block of staging
  static constexpr int bk_smem = detail::config_bk_smem<Config>();
  static constexpr int num_smem_stages = detail::config_num_smem_stages<Config>();
  static constexpr int warp_size = detail::config_warp_size<Config>();
  static constexpr DType smem_dtype = detail::config_smem_dtype<Config>(Operand::dtype);
  using smem_type = element_t<smem_dtype>;

  // ---- what follows

  static constexpr int MMA_M = mma_shape[0];
  static constexpr int MMA_N = mma_shape[1];
  static constexpr int MMA_K = mma_shape[2];
  static constexpr int num_warps = num_threads / warp_size;
  static constexpr int simd_width = 128 / bit_width(smem_dtype);  ///< elements of 16 bytes
  static constexpr int num_mmas = detail::ceil_div(transpose ? WN : depth, MMA_N);
  static constexpr int num_k_mmas2 = detail::ceil_div(BK, MMA_K);
  static constexpr int num_k_tiles = detail::ceil_div(transpose ? depth : WN, BK);
  static constexpr int reg_num_k_tiles =
      detail::ceil_div(transpose ? reg_chunk_depth : reg_chunk_keys, BK);
  /// elements of an MMA tile in one lane
  static constexpr int input_frag_size = MMA_K * MMA_N / warp_size;
  static constexpr int num_repeats = smem_depth / bk_smem;
  static constexpr int smem_cols = full_kv ? smem_depth : bk_smem;
  static constexpr int smem_stage_size = BN * smem_cols;  ///< elements
  static constexpr int blocks_per_stage = full_kv ? num_repeats : 1;
  static constexpr int total_cols = num_smem_stages * blocks_per_stage * bk_smem;
  /// loads that bring a whole tile
  static constexpr int num_strips = full_kv ? 1 : detail::ceil_div(depth, bk_smem);
  static constexpr int warp_tile_rows = 32;
  static constexpr int total_tiles = BN / warp_tile_rows * blocks_per_stage;
  static constexpr int tiles_per_warp = detail::ceil_div(total_tiles, num_warps);
  /// Loads in flight per warp after load_from_dram, for counted waits; 0 (wait for all) where warps
  /// have unequal shares.
  static constexpr int vm_instrs_per_load = total_tiles % num_warps == 0 ? 2 * tiles_per_warp : 0;
  static constexpr int wtile_dim0 = WN;
  static constexpr int wtile_dim1 = BK;
  using mma_layout = Layout<IntTuple<num_mmas * num_k_mmas2 * reg_num_k_tiles, input_frag_size>>;

  static_assert(BN % warp_tile_rows == 0 && BN % WN == 0,
                "KVBuffer: BN is a multiple of 32 and of WN");
  static_assert(num_threads % warp_size == 0 && num_warps > 0,
                "KVBuffer: num_threads is a multiple of warp_size");
  static_assert(MMA_K * MMA_N % warp_size == 0,
                "KVBuffer: the lanes of a warp share an MMA tile evenly");
  static_assert(num_smem_stages >= 2, "KVBuffer: at least two stages");
  static_assert(smem_depth >= depth && smem_depth % bk_smem == 0,
                "KVBuffer: smem_depth holds depth in whole blocks of bk_smem");
  static_assert(!transpose || bk_smem % BK == 0 || (full_kv && BK == 2 * bk_smem),
                "KVBuffer: a strip of K lies in one block of bk_smem columns, or is two of them in "
                "a full stage");
  static_assert(full_kv || !transpose || BK == bk_smem,
                "KVBuffer: a streamed stage of K holds one strip");
  static_assert(head_dim_offset + depth <= cache_depth || head_dim_offset == 0,
                "KVBuffer: head_dim_offset + depth <= cache_depth");
  static_assert(swizzle.bits == 0 || warp_tile_rows * bk_smem / simd_width % swizzle.period() == 0,
                "KVBuffer: 32 rows of a block are whole periods of the swizzle");

  /// Whether unit `t` of warp `warp`, t < tiles_per_warp, exists; its number among the units of all
  /// warps.
  FOLIO_HOST_DEVICE static constexpr int unit_of(int warp, int t) { return warp + t * num_warps; }
  /// Where unit `u` < total_tiles lies: all blocks of 32 rows, then the next 32.
  FOLIO_HOST_DEVICE static constexpr kv_buffer::LoadUnit load_unit(int u) {
    return {u / blocks_per_stage, u % blocks_per_stage};
  }

  /// Elements from the start of a stage to (row, column), before the swizzle and with it.
  FOLIO_HOST_DEVICE static FOLIO_ALWAYS_INLINE constexpr int64_t block_offset(int row, int column) {
    return (int64_t{column / bk_smem} * BN + row) * bk_smem + column % bk_smem;
  }
  FOLIO_HOST_DEVICE static FOLIO_ALWAYS_INLINE constexpr int64_t smem_offset(int row, int column) {
    const int64_t plain = block_offset(row, column);
    if constexpr (swizzle.bits == 0) return plain;
    constexpr tma::XorSwizzle units = swizzle;  // device code has no static data members
    return units(plain / simd_width) * simd_width + plain % simd_width;
  }
};

}  // namespace folio::inline v1

namespace folio::inline v1 {  // flat names, for one release
using kv_buffer::LoadUnit;
}  // namespace folio::inline v1
