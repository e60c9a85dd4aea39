// SPDX-License-Identifier: Apache-2.0
/// tests/seed_members/kv_buffer_parameters_test.cpp: one compile-time line and one behaviour for
/// every parameter and constant of the seed's KVBuffer.
/// tests/attention/kv_buffer_constants_test.cpp has the constants of more configurations.
#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

#include "support/kv_buffer_run.h"

namespace folio::test {
namespace {

using View = ViewMHAOperand<DType::bf16>;
template <class Config>
using Buffer = KVBuffer<View, Config>;
using Keys = Buffer<SeedBf16Depth128>;
using Values = Buffer<SeedValues>;

TEST(KVBuffer, brings_keys_from_pages_through_staging_to_registers) {
  static_assert(std::is_base_of_v<KVBufferShape<View, SeedBf16Depth128>, Keys> &&
                !std::is_copy_constructible_v<Keys>);
  BufferRun<SeedBf16Depth128> run;
  run.warp().load_from_shared(0);
  EXPECT_EQ((run.reg<0, 0>(0, 0)), run.key(0, 0));
  EXPECT_EQ((run.reg<1, 3>(1, 7, 63)), run.key(63, 127)) << "the last element of the last lane";
}

// ---- parameters

TEST(KVBuffer_kv_t_parameter, decides_where_keys_lie) {
  static_assert(std::is_same_v<Keys::operand_type, View>);
  BufferRun<SeedBf16Depth128> paged;
  std::vector<bf16> dense(64 * 2 * 128);
  for (int64_t token = 0; token < 64; ++token)
    for (int64_t d = 0; d < 128; ++d)
      dense[static_cast<size_t>((token * 2 + 1) * 128 + d)] = from_float<bf16>(paged.key(token, d));
  using Tensor = TensorMHAOperand<DType::bf16>;
  const Tensor tensor{{dense.data(), row_major<Tensor::shape>(1, 64, 2, 128)}, {}};
  std::vector<bf16> smem(2 * 64 * 128);
  for (uint32_t warp = 0; warp < 4; ++warp) {
    KVBuffer<Tensor, SeedBf16Depth128> buffer(tensor, 0, 1, {smem.data(), {}}, 64, warp);
    buffer.load_from_dram<0>();
  }
  EXPECT_TRUE(std::equal(smem.begin(), smem.begin() + 64 * 128, paged.block.smem()))
      << "the same stage from both";
}
TEST(KVBuffer_mma_shape_parameter, is_M_N_K_of_the_unit) {
  static_assert(Keys::mma_shape == IndexList<3>{32, 32, 16} && Keys::MMA_M == 32);
  BufferRun<SeedBf16Depth128> run;
  run.warp().load_from_shared(0);
  EXPECT_EQ((run.reg<0, 0>(1, 0)), run.key(32, 0)) << "the second tile begins N keys later";
  EXPECT_EQ((run.reg<1, 0>(0, 0)), run.key(0, 16)) << "the next step begins K dims later";
}
TEST(KVBuffer_swizzle_parameter, permutes_units_of_16_bytes_of_a_stage) {
  static_assert(Keys::swizzle == tma::XorSwizzle{3, 0, 4} && Values::swizzle == tma::XorSwizzle{});
  BufferRun<SeedBf16Depth128> keys;
  BufferRun<SeedValues> values;
  // Row 5, column 8: unit 5 * 4 + 1 = 21 = 0b10101; bits 4 .. 6 go onto bits 0 .. 2: 21 ^ 1 = 20.
  EXPECT_EQ(keys.raw(20 * 8 + 3), keys.key(5, 8 + 3));
  EXPECT_EQ(values.raw(21 * 8 + 3), values.key(5, 8 + 3));
}
TEST(KVBuffer_BN_parameter, is_the_number_of_keys_of_a_tile) {
  static_assert(Keys::BN == 64 && Buffer<SeedBf16Depth256>::BN == 128);
  BufferRun<SeedValues> run(100);
  run.block.load(1);
  EXPECT_EQ(run.block.at(1, 0, 0), run.key(64, 0)) << "the second tile begins BN keys later";
}
TEST(KVBuffer_WN_parameter, is_the_number_of_keys_of_a_warp) {
  static_assert(Keys::WN == 64 && Buffer<SeedStreamedKeys>::WN == 32);
  BufferRun<SeedStreamedKeys> run;
  run.warp(1).load_from_shared<0>(0);
  EXPECT_EQ((run.reg<0, 0>(0, 0, 0, 1)), run.key(32, 0)) << "warp 1 has keys 32 .. 63";
}
TEST(KVBuffer_BK_parameter, is_the_width_of_a_strip) {
  static_assert(Keys::BK == 32 && Values::BK == 32);
  BufferRun<SeedBf16Depth128> keys;
  BufferRun<SeedValues> values;
  keys.warp().load_from_shared(0);
  values.warp().load_from_shared(0);
  EXPECT_EQ((keys.reg<0, 1>(0, 0)), keys.key(0, 32)) << "dims of K";
  EXPECT_EQ((values.reg<0, 1>(0, 0)), values.key(32, 0)) << "keys of V";
}
TEST(KVBuffer_num_threads_parameter, shares_a_stage_among_warps) {
  static_assert(Keys::num_threads == 256 && Keys::num_warps == 4);
  BufferRun<SeedValues> run;
  run.block.clear();
  KVBuffer<View, SeedValues> second(run.pool.operand(), 0, run.head, {run.block.smem(), {}}, 64, 1);
  second.load_from_dram<0>();
  EXPECT_EQ(run.block.at(0, 0, 32), run.key(0, 32)) << "warp 1 loads block 1 of rows 0 .. 31";
  EXPECT_EQ(run.block.at(0, 0, 0), 0.0f) << "and nothing of block 0";
}
TEST(KVBuffer_depth_parameter, is_the_number_of_columns_that_are_used) {
  static_assert(Keys::depth == 128 && Buffer<SeedPartialStrip>::depth == 80);
  BufferRun<SeedPartialStrip> run;
  EXPECT_EQ(run.block.at(0, 3, 79), run.key(3, 79));
  EXPECT_NE(run.key(3, 79), 0.0f);
  EXPECT_EQ(run.block.at(0, 3, 80), 0.0f);
}
TEST(KVBuffer_kv_num_heads_parameter, is_part_of_the_type_of_the_iterator) {
  static_assert(Keys::kv_num_heads == 2);
  static_assert(
      std::is_same_v<Keys::KVCacheIteratorType, KVCacheIterator<View, 64, 2, 128, 128, 0>>);
  std::vector<bf16> dense(4 * 2 * 128);
  using Tensor = TensorMHAOperand<DType::bf16>;
  KVCacheIterator<Tensor, 64, 2, 128> iterator(
      {{dense.data(), row_major<Tensor::shape>(1, 4, 2, 128)}, {}}, 0, 1, 4);
  EXPECT_EQ(iterator.next_tile().group<4>(0).stride_bytes, 2 * 128 * 2)
      << "kv_num_heads * cache_depth elements";
}
TEST(KVBuffer_transpose_parameter, tells_K_from_V) {
  static_assert(Keys::transpose && !Values::transpose);
  BufferRun<SeedBf16Depth128> keys;
  BufferRun<SeedValues> values;
  keys.warp().load_from_shared(0);
  values.warp().load_from_shared(0);
  EXPECT_EQ((keys.reg<0, 0>(0, 0, 5)), keys.key(5, 0)) << "columns of an MMA tile are keys";
  EXPECT_EQ((values.reg<0, 0>(0, 0, 5)), values.key(0, 5)) << "columns of an MMA tile are dims";
}
TEST(KVBuffer_full_kv_parameter, decides_whether_a_stage_holds_a_tile_or_a_strip) {
  static_assert(Keys::full_kv && !Buffer<SeedStreamedKeys>::full_kv);
  BufferRun<SeedStreamedKeys> run;
  run.block.load(1);
  EXPECT_EQ(run.block.at(0, 9, 5), run.key(9, 5));
  EXPECT_EQ(run.block.at(1, 9, 5), run.key(9, 32 + 5)) << "the next strip of the same keys";
}
struct ReadsLess : ThreadKeys<64> {
  static constexpr int cache_depth = 48;
};
TEST(KVBuffer_cache_depth_parameter, bounds_what_is_read_of_a_row) {
  static_assert(Keys::cache_depth == 128 && Buffer<SeedRopeKeys>::cache_depth == 576);
  BufferRun<ReadsLess> run;  // rows of 64
  EXPECT_EQ(run.block.at(0, 3, 47), run.key(3, 47));
  EXPECT_EQ(run.block.at(0, 3, 48), 0.0f);
}
TEST(KVBuffer_head_dim_offset_parameter, is_the_first_column_that_is_used) {
  static_assert(Keys::head_dim_offset == 0 && Buffer<SeedRopeKeys>::head_dim_offset == 512);
  BufferRun<SeedRopeKeys> run;
  const auto view = run.pool.view();
  bf16 element;
  std::memcpy(&element,
              PageCursor::rows(view, {0, 1, run.pool.table()[0], 3}, run.head).data + (512 + 9) * 2,
              2);
  EXPECT_EQ(run.block.at(0, 3, 9), to_float(element)) << "column 9 is dim 521";
}
TEST(KVBuffer_reg_chunk_depth_parameter, bounds_the_strips_in_registers) {
  static_assert(Buffer<SeedStreamedKeys>::reg_chunk_depth == 128 &&
                Buffer<SeedStreamedKeys>::reg_num_k_tiles == 4);
  BufferRun<SeedStreamedKeys> run;
  run.warp().load_from_shared<0>(0);
  for (int strip = 1; strip <= 4; ++strip) run.block.load(strip % 2);
  run.warp().load_from_shared<4>(0);
  EXPECT_EQ((run.reg<0, 4>(0, 0)), run.key(0, 4 * 32));
  EXPECT_EQ((run.reg<0, 0>(0, 0)), run.key(0, 4 * 32)) << "strip 4 has the slot of strip 0";
}
TEST(KVBuffer_smem_depth_parameter, is_the_width_of_a_stage) {
  static_assert(Keys::smem_depth == 128 && Buffer<SeedNarrowValues>::smem_depth == 32);
  BufferRun<SeedNarrowValues> run;
  run.warp().load_from_shared(0);
  EXPECT_EQ(run.raw(7 * 32 + 15), run.key(7, 15)) << "rows are smem_depth wide";
  EXPECT_EQ(run.raw(7 * 32 + 16), 0.0f) << "of which depth columns are read";
  EXPECT_EQ((run.reg<0, 0>(0, 0, 15)), run.key(0, 15)) << "depth sizes the registers";
}
TEST(KVBuffer_bk_smem_parameter, is_the_width_of_a_block) {
  static_assert(Buffer<SeedFp8Latent>::bk_smem == 64 && Buffer<SeedFp8Latent>::BK == 128);
  BufferRun<SeedFp8Latent, DType::f8_e4m3> run;
  EXPECT_EQ(run.raw((1 * 128 + 5) * 64 + 2), run.key(5, 64 + 2))
      << "block 1 lies behind all rows of block 0";
  run.warp().load_from_shared(0);
  EXPECT_EQ((run.reg<0, 0>(0, 16)), run.key(0, 64)) << "a strip is two blocks";
}

// ---- constants

TEST(KVBuffer_input_frag_size, is_a_lanes_share_of_an_MMA_tile) {
  static_assert(Keys::input_frag_size == 32 * 16 / 64 &&
                Buffer<ThreadKeys<64>>::input_frag_size == 16 * 32);
  BufferRun<SeedBf16Depth128> run;
  EXPECT_EQ((run.warp().get_mma_tile<0, 0>().extent(1)), 8);
}
TEST(KVBuffer_KVMmaOpType, holds_registers_and_multiplies) {
  static_assert(std::is_same_v<Keys::KVMmaOpType, KVMmaOp<KVBufferShape<View, SeedBf16Depth128>>>);
  static_assert(std::is_same_v<decltype(Keys::kv_mma_op), Keys::KVMmaOpType>);
  EXPECT_EQ(sizeof(Keys::KVMmaOpType), size_t{64} * 2 * 2 * 4 * 8 * 2)
      << "lanes, tiles, steps, strips, fragment, bytes";
}
TEST(KVBuffer_MMA_K, is_the_third_of_mma_shape) {
  static_assert(Keys::MMA_K == 16 && Buffer<SeedFp8Latent>::MMA_K == 128);
  EXPECT_EQ(Keys::BK / Keys::MMA_K, Keys::num_k_mmas2);
}
TEST(KVBuffer_mma_layout, is_row_major_in_registers_and_fragments) {
  static_assert(std::is_same_v<Keys::mma_layout, Layout<IntTuple<2 * 2 * 4, 8>>>);
  BufferRun<SeedBf16Depth128> run;
  const auto* const first = run.warp().get_mma_tile<0, 0>().data;
  EXPECT_EQ((run.warp().get_mma_tile<1, 2>().data), first + ((2 * 2 + 1) * 2) * 8)
      << "row (strip * steps + step) * tiles";
}
TEST(KVBuffer_MMA_N, is_the_second_of_mma_shape) {
  static_assert(Keys::MMA_N == 32 && Buffer<SeedFp8Latent>::MMA_N == 16);
  EXPECT_EQ(Keys::WN / Keys::MMA_N, Keys::num_mmas);
}
TEST(KVBuffer_MMATileType, is_a_view_of_num_mmas_fragments) {
  static_assert(std::is_same_v<Keys::MMATileType, TensorView<bf16, Layout<IntTuple<2, 8>>>>);
  BufferRun<SeedBf16Depth128> run;
  const Keys::MMATileType tile = run.warp().get_mma_tile<0, 0>();
  EXPECT_EQ(tile.pointer(1, 0), tile.data + 8);
}
TEST(KVBuffer_num_k_mmas2, is_the_number_of_steps_of_a_strip) {
  static_assert(Keys::num_k_mmas2 == 2 && Buffer<SeedFp8Latent>::num_k_mmas2 == 1);
  EXPECT_EQ(Buffer<SeedPartialStrip>::num_k_mmas2, 4);
}
TEST(KVBuffer_num_k_tiles, is_the_number_of_strips) {
  static_assert(Keys::num_k_tiles == 4 && Values::num_k_tiles == 2);
  EXPECT_EQ(Buffer<SeedPartialStrip>::num_k_tiles, 2) << "the last one partial";
}
TEST(KVBuffer_num_mmas, is_the_number_of_tiles_along_N) {
  static_assert(Keys::num_mmas == 2 && Values::num_mmas == 4 &&
                Buffer<SeedNarrowValues>::num_mmas == 1);
  BufferRun<SeedValues> run;
  EXPECT_EQ((run.warp().get_mma_tile<0, 0>().extent(0)), 4);
}
TEST(KVBuffer_num_repeats, is_the_number_of_blocks_of_smem_depth) {
  static_assert(Keys::num_repeats == 4 && Buffer<SeedFp8Latent>::num_repeats == 9);
  BufferRun<SeedValues> run;
  EXPECT_EQ(run.warp().smem_block_tile<64>(0, Values::num_repeats).data,
            run.block.smem() + Values::smem_stage_size)
      << "so many blocks on begins the next stage";
}
TEST(KVBuffer_simd_width, is_16_bytes_of_elements) {
  static_assert(Keys::simd_width == 8);
  EXPECT_EQ((KVBuffer<ViewMHAOperand<DType::f8_e5m2>, SeedFp8Depth128>::simd_width), 16);
}
TEST(KVBuffer_smem_cols, is_what_a_stage_holds_of_a_row) {
  static_assert(Keys::smem_cols == 128 && Buffer<SeedStreamedKeys>::smem_cols == 32);
  EXPECT_EQ(Keys::smem_cols, Keys::blocks_per_stage * Keys::bk_smem);
}
TEST(KVBuffer_smem_stage_size, is_counted_in_elements) {
  static_assert(Keys::smem_stage_size == 64 * 128 && Keys::smem_elements == 2 * 64 * 128);
  BufferRun<SeedValues> run(128);
  run.block.load(1);
  EXPECT_EQ(run.raw(Values::smem_stage_size), run.key(64, 0));
}
TEST(KVBuffer_SmemParentType, is_a_view_of_all_stages) {
  static_assert(std::is_same_v<Keys::SmemParentType,
                               TensorView<bf16, Layout<IntTuple<64, 2 * 128>, IntTuple<32, 64>>>>);
  BufferRun<SeedValues> run(128);
  run.block.load(1);
  const auto& parent = run.warp().smem_tile;
  EXPECT_EQ(to_float(parent(3, 0)), run.key(3, 0));
  EXPECT_EQ(to_float(parent(3, 32)), run.key(3, 32)) << "columns go by blocks";
  EXPECT_EQ(to_float(parent(3, 128 + 64)), run.key(64 + 3, 64)) << "and through the stages";
}
template <class Config, DType D = DType::bf16>
std::vector<int> steps_of_warps() {
  BufferRun<Config, D> run;
  std::vector<int> steps;
  for (int warp = 0; warp < Buffer<Config>::num_warps; ++warp) {
    run.warp(static_cast<size_t>(warp)).begin_load(1);
    steps.push_back(0);
    while (run.warp(static_cast<size_t>(warp)).load_from_dram_step()) ++steps.back();
  }
  return steps;
}
TEST(KVBuffer_vm_instrs_per_load, is_zero_when_warps_share_unevenly) {
  static_assert(Keys::vm_instrs_per_load == 4 &&
                Buffer<SeedFp8LatentUneven>::vm_instrs_per_load == 0);
  EXPECT_EQ(steps_of_warps<SeedBf16Depth128>(), (std::vector<int>{2, 2, 2, 2}))
      << "two loads for each";
  EXPECT_EQ((steps_of_warps<SeedFp8LatentUneven, DType::f8_e4m3>()),
            (std::vector<int>{8, 7, 7, 7, 7}));
}
TEST(KVBuffer_warp_tile_rows, are_loaded_by_one_warp_at_once) {
  static_assert(Keys::warp_tile_rows == 32);
  BufferRun<SeedValues> run;
  run.block.clear();
  KVBuffer<View, SeedValues> fresh(run.pool.operand(), 0, run.head, {run.block.smem(), {}}, 64);
  fresh.begin_load(0);
  EXPECT_TRUE(fresh.load_from_dram_step());
  EXPECT_EQ(run.block.at(0, 31, 0), run.key(31, 0));
  EXPECT_EQ(run.block.at(0, 32, 0), 0.0f);
}
TEST(KVBuffer_wtile_dim0, is_WN) {
  static_assert(Keys::wtile_dim0 == 64 && Buffer<SeedStreamedKeys>::wtile_dim0 == 32);
  EXPECT_EQ(Buffer<SeedFp8Latent>::wtile_dim0, 32);
}
TEST(KVBuffer_wtile_dim1, is_BK) {
  static_assert(Keys::wtile_dim1 == 32 && Buffer<SeedBf16Depth256>::wtile_dim1 == 64);
  EXPECT_EQ(Buffer<SeedFp8Latent>::wtile_dim1, 128);
}

}  // namespace
}  // namespace folio::test
