// SPDX-License-Identifier: Apache-2.0
/// tests/seed_members/kv_buffer_test.cpp: one compile-time line and one behaviour for every field
/// and method of the seed's KVBuffer.
#include <gtest/gtest.h>

#include <limits>
#include <type_traits>
#include <vector>

#include "support/kv_buffer_run.h"

namespace folio::test {
namespace {

using View = ViewMHAOperand<DType::bf16>;
using Keys = KVBuffer<View, SeedBf16Depth128>;
using Latent = KVBuffer<ViewMHAOperand<DType::f8_e4m3>, SeedFp8Latent>;

template <class B> concept LoadsAllStrips = requires(B b) { b.load_from_shared(0); };
template <class B> concept PadsLastStrip = requires(B b) { b.zero_partial_tile_pad(); };
/// Of its last strip 48 columns of 64 are there.
struct MoreThanHalf : SeedPartialStrip {
  static constexpr int depth = 112;
};

// ---- fields

TEST(KVBuffer_kv_mma_op, multiplies_what_it_holds) {
  static_assert(std::is_same_v<decltype(Keys::kv_mma_op), Keys::KVMmaOpType>);
  BufferRun<SeedBf16Depth128> run;
  run.warp().load_from_shared(0);
  std::vector<bf16> a(32 * 16);  // one row of queries, M = 32
  for (size_t k = 0; k < 16; ++k) a[k] = from_float<bf16>(static_cast<float>(k) - 7.0f);
  std::vector<float> c(2 * 32 * 32, 1.0f);
  run.warp().kv_mma_op.mma<1, 2>(a.data(), 1, c.data());
  float expected = 1.0f;  // score of key 37 over dims 2 * 32 + 16 ..
  for (int k = 0; k < 16; ++k) expected += (static_cast<float>(k) - 7.0f) * run.key(37, 80 + k);
  EXPECT_EQ(c[1 * 32 * 32 + 0 * 32 + 5], expected);
}
TEST(KVBuffer_smem_tile, is_the_memory_given) {
  static_assert(std::is_same_v<decltype(Keys::smem_tile), Keys::SmemParentType>);
  BufferRun<SeedBf16Depth128> run;
  EXPECT_EQ(run.warp(3).smem_tile.data, run.block.smem());
}
TEST(KVBuffer_kv_cache_iter, gives_the_rows_of_the_next_tile) {
  static_assert(std::is_same_v<decltype(Keys::kv_cache_iter), Keys::KVCacheIteratorType>);
  BufferRun<SeedBf16Depth128> run(150);
  auto& iterator = run.warp().kv_cache_iter;
  EXPECT_EQ(iterator.tile_start_row(), 64) << "the first tile is loaded";
  iterator.increment();
  EXPECT_EQ(iterator.next_tile().valid(), 150 - 128);
  EXPECT_EQ(iterator.next_tile().valid(), 0) << "and reads nothing past the end";
}
TEST(KVBuffer_warp_id, chooses_the_share_of_loads_and_of_keys) {
  static_assert(std::is_same_v<decltype(Keys::warp_id), uint32_t>);
  BufferRun<SeedFp8Latent, DType::f8_e4m3> run;
  for (size_t warp = 0; warp < 4; ++warp) {
    EXPECT_EQ(run.warp(warp).warp_id, warp);
    run.warp(warp).load_from_shared<0>(0);
    EXPECT_EQ((run.reg<0, 0>(0, 0, 0, warp)), run.key(static_cast<int64_t>(warp) * 32, 0))
        << "keys of column warp % (BN / WN)";
  }
}

// ---- methods

TEST(KVBuffer_init, takes_cache_sequence_head_staging_end_and_warp) {
  static_assert(
      std::is_constructible_v<Keys, const View&, int, int, Keys::SmemParentType, int, uint32_t>);
  BufferRun<SeedValues> run(64);
  const uint32_t rows[2] = {run.pool.table()[1], run.pool.table()[0]};  // two sequences of one page
  const View operand{run.pool.view(), {rows, 1, nullptr}, nullptr, 0};
  KVBuffer<View, SeedValues> buffer(operand, 1, 0, {run.block.smem(), {}}, 5);
  buffer.load_from_dram<0>();
  EXPECT_EQ(run.block.at(0, 4, 0), run.pool.expected(4, 0, 0)) << "head 0 of sequence 1";
  EXPECT_EQ(run.block.at(0, 5, 0), 0.0f) << "which ends there";
}
TEST(KVBuffer_smem_block_tile, is_a_row_major_part_of_a_block) {
  static_assert(std::is_same_v<decltype(std::declval<Keys>().smem_block_tile<16>(0, 0)),
                               TensorView<bf16, Layout<IntTuple<16, 32>>>>);
  BufferRun<SeedValues> run(128);
  run.block.load(1);
  const auto tile = run.warp().smem_block_tile<16>(2, 4 + 1);
  EXPECT_EQ(tile.stride(0), 32);
  EXPECT_EQ(to_float(tile(3, 7)), run.key(64 + 2 * 16 + 3, 32 + 7))
      << "rows 32 .. 47 of block 1 of stage 1";
}
TEST(KVBuffer_load_from_dram, brings_one_tile_after_the_other_into_a_stage) {
  static_assert(std::is_void_v<decltype(std::declval<Keys&>().load_from_dram<1>())>);
  BufferRun<SeedBf16Depth128> run(70);
  for (size_t warp = 0; warp < 4; ++warp) run.warp(warp).load_from_dram<1>();
  EXPECT_EQ(run.block.at(0, 5, 100), run.key(5, 100)) << "stage 0 still holds the first";
  EXPECT_EQ(run.block.at(1, 5, 100), run.key(69, 100));
  EXPECT_EQ(run.block.at(1, 6, 100), 0.0f) << "past the end";
}
TEST(KVBuffer_load_from_shared, loads_all_strips_or_one) {
  static_assert(LoadsAllStrips<Keys> && !LoadsAllStrips<KVBuffer<View, SeedStreamedKeys>>,
                "registers hold 4 of 16 strips");
  BufferRun<SeedBf16Depth128> run(128);
  run.block.load(1);
  run.warp().load_from_shared(0);
  run.warp().load_from_shared<2>(1);
  EXPECT_EQ((run.reg<0, 1>(0, 0)), run.key(0, 32));
  EXPECT_EQ((run.reg<0, 2>(0, 0)), run.key(64, 64)) << "this strip of the other stage";
  EXPECT_EQ((run.reg<0, 3>(0, 0)), run.key(0, 96));
}
TEST(KVBuffer_get_mma_tile, is_the_fragment_of_a_lane) {
  static_assert(
      std::is_same_v<decltype(std::declval<Keys>().get_mma_tile<0, 0>()), Keys::MMATileType>);
  BufferRun<SeedBf16Depth128> run;
  run.warp().load_from_shared(0);
  for (int lane = 0; lane < 64; ++lane)  // column-major over (32 keys, 2 groups of 8 dims)
    for (int e = 0; e < 8; ++e)
      EXPECT_EQ((run.reg<1, 0>(1, e, lane)), run.key(32 + lane % 32, 16 + lane / 32 * 8 + e));
}
TEST(KVBuffer_mma_subtile, is_another_name_of_get_mma_tile) {
  static_assert(
      std::is_same_v<decltype(std::declval<Keys>().mma_subtile<0, 0>()), Keys::MMATileType>);
  BufferRun<SeedBf16Depth128> run;
  EXPECT_EQ((run.warp().mma_subtile<1, 3>(9).data), (run.warp().get_mma_tile<1, 3>(9).data));
}
TEST(KVBuffer_zero_partial_tile_pad, zeroes_the_upper_half_of_the_last_strips_fragments) {
  static_assert(Latent::depth % Latent::BK == 64 && PadsLastStrip<Latent> &&
                !PadsLastStrip<KVBuffer<View, MoreThanHalf>>);
  BufferRun<SeedFp8Latent, DType::f8_e4m3> run;
  auto& buffer = run.warp();
  const auto nan = from_float<f8_e4m3>(std::numeric_limits<float>::quiet_NaN());
  for (int lane = 0; lane < 64; ++lane)
    for (int mma = 0; mma < 2; ++mma)
      for (int e = 0; e < 32; ++e) buffer.get_mma_tile<0, 4>(lane)(mma, e) = nan;
  buffer.load_from_shared(0);
  buffer.zero_partial_tile_pad();
  for (int lane = 0; lane < 64; ++lane) {
    for (int e = 0; e < 16; ++e)  // keep 32 * 64 / 128 = 16
      EXPECT_EQ((run.reg<0, 4>(1, e, lane)), run.key(16 + lane % 16, 512 + lane / 16 * 16 + e));
    for (int e = 16; e < 32; ++e) EXPECT_EQ((run.reg<0, 4>(1, e, lane)), 0.0f);
  }
  EXPECT_EQ((run.reg<0, 3>(0, 31)), run.key(0, 3 * 128 + 64 + 15)) << "whole strips are left alone";
}

}  // namespace
}  // namespace folio::test
