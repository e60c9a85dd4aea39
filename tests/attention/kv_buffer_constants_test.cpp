// SPDX-License-Identifier: Apache-2.0
/// tests/attention/kv_buffer_constants_test.cpp: every derived constant of KVBuffer, for the seed's
/// configurations and for ours.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "folio/attention/operand.h"
#include "support/kv_buffer_configs.h"

namespace folio::test {
namespace {

template <DType D, class Config>
using Shape = KVBufferShape<ViewMHAOperand<D>, Config>;

/// frag, repeats, blocks of a stage, units, units per warp, loads in flight: the columns of the
/// table.
template <class S>
constexpr std::array<int, 6> row_of_table = {S::input_frag_size,  S::num_repeats,
                                             S::blocks_per_stage, S::total_tiles,
                                             S::tiles_per_warp,   S::vm_instrs_per_load};
using Row = std::array<int, 6>;

TEST(KVBufferConstants, are_those_of_the_seeds_table) {
  EXPECT_EQ((row_of_table<Shape<DType::bf16, SeedBf16Depth128>>), (Row{8, 4, 4, 8, 2, 4}));
  EXPECT_EQ((row_of_table<Shape<DType::bf16, SeedBf16Depth64>>), (Row{8, 2, 2, 4, 1, 2}));
  EXPECT_EQ((row_of_table<Shape<DType::f8_e4m3, SeedFp8Depth128>>), (Row{32, 2, 2, 4, 1, 2}));
  EXPECT_EQ((row_of_table<Shape<DType::f8_e4m3, SeedFp8Latent>>), (Row{32, 9, 9, 36, 9, 18}));
  EXPECT_EQ((row_of_table<Shape<DType::f8_e4m3, SeedFp8LatentUneven>>), (Row{32, 9, 9, 36, 8, 0}));
  EXPECT_EQ((row_of_table<Shape<DType::bf16, SeedBf16Depth256>>), (Row{8, 4, 4, 16, 2, 4}));
}

/// num_mmas, num_k_mmas2, num_k_tiles, reg_num_k_tiles, smem_cols, smem_stage_size, rows of
/// mma_layout, num_strips.
template <class S>
constexpr std::array<int, 8> sizes_of = {S::num_mmas,
                                         S::num_k_mmas2,
                                         S::num_k_tiles,
                                         S::reg_num_k_tiles,
                                         S::smem_cols,
                                         S::smem_stage_size,
                                         static_cast<int>(typename S::mma_layout{}.extent(0)),
                                         S::num_strips};
using Sizes = std::array<int, 8>;

TEST(KVBufferConstants, of_registers_and_stages_follow_their_formulas) {
  EXPECT_EQ((sizes_of<Shape<DType::bf16, SeedBf16Depth128>>),
            (Sizes{2, 2, 4, 4, 128, 8192, 16, 1}));
  EXPECT_EQ((sizes_of<Shape<DType::f8_e4m3, SeedFp8Latent>>),
            (Sizes{2, 1, 5, 5, 576, 73728, 10, 1}));
  EXPECT_EQ((sizes_of<Shape<DType::bf16, SeedBf16Depth256>>),
            (Sizes{8, 2, 4, 4, 256, 32768, 64, 1}));
  EXPECT_EQ((sizes_of<Shape<DType::bf16, SeedValues>>), (Sizes{4, 2, 2, 2, 128, 8192, 16, 1}));
  EXPECT_EQ((sizes_of<Shape<DType::bf16, SeedNarrowValues>>), (Sizes{1, 1, 1, 1, 32, 2048, 1, 1}));
  EXPECT_EQ((sizes_of<Shape<DType::bf16, SeedStreamedKeys>>),
            (Sizes{1, 2, 16, 4, 32, 2048, 8, 16}));
  EXPECT_EQ((sizes_of<Shape<DType::bf16, SeedStreamedValues>>),
            (Sizes{4, 2, 2, 2, 32, 2048, 16, 4}));
  EXPECT_EQ((sizes_of<Shape<DType::bf16, SeedPartialStrip>>),
            (Sizes{2, 4, 2, 2, 128, 8192, 16, 1}));
  EXPECT_EQ((sizes_of<Shape<DType::bf16, ThreadKeys<576>>>),
            (Sizes{4, 1, 18, 18, 576, 36864, 72, 1}));
  EXPECT_EQ((sizes_of<Shape<DType::bf16, ThreadValues<512>>>),
            (Sizes{32, 1, 2, 2, 512, 32768, 64, 1}));
}

TEST(KVBufferConstants, of_streamed_stages_count_one_block) {
  using S = Shape<DType::bf16, SeedStreamedKeys>;
  EXPECT_EQ((row_of_table<S>), (Row{8, 16, 1, 2, 1, 2}));
  EXPECT_EQ((row_of_table<Shape<DType::bf16, SeedStreamedValues>>), (Row{8, 4, 1, 2, 1, 2}));
  EXPECT_EQ(S::total_cols, 2 * 32);
  EXPECT_EQ((Shape<DType::bf16, SeedStreamedValues>::total_cols), 3 * 32) << "three stages";
}

TEST(KVBufferConstants, of_one_thread_hold_whole_tiles) {
  using S = Shape<DType::bf16, ThreadKeys<128>>;
  EXPECT_EQ(S::warp_size, 1);
  EXPECT_EQ(S::num_warps, 1);
  EXPECT_EQ(S::input_frag_size, 512) << "a B tile of 1 KB";
  EXPECT_EQ((row_of_table<S>), (Row{512, 4, 4, 8, 8, 16}));
  EXPECT_EQ((row_of_table<Shape<DType::bf16, ThreadValues<128>>>), (Row{512, 1, 1, 2, 2, 4}));
}

struct Converted : ThreadKeys<64> {
  static constexpr DType smem_dtype = DType::bf16;
};

TEST(KVBufferConstants, of_widths_follow_the_staged_type) {
  EXPECT_EQ((Shape<DType::bf16, ThreadKeys<64>>::simd_width), 8);
  EXPECT_EQ((Shape<DType::f8_e5m2, ThreadKeys<64>>::simd_width), 16);
  EXPECT_EQ((Shape<DType::f32, ThreadKeys<64>>::simd_width), 4);
  EXPECT_EQ((Shape<DType::i8, Converted>::simd_width), 8);
}

struct Least {
  static constexpr IndexList<3> mma_shape{16, 16, 16};
  static constexpr int BN = 96, BK = 48, depth = 48;
  static constexpr bool transpose = true;
};

TEST(KVBufferConstants, left_out_have_their_defaults) {
  using S = Shape<DType::bf16, Least>;
  EXPECT_EQ((std::array{S::WN, S::num_threads, S::kv_num_heads, S::cache_depth, S::head_dim_offset,
                        S::reg_chunk_depth}),
            (std::array{96, 1, dynamic, 48, 0, 48}));
  EXPECT_EQ(
      (std::array{S::reg_chunk_keys, S::smem_depth, S::bk_smem, S::num_smem_stages, S::warp_size}),
      (std::array{96, 48, 48, 2, 1}));
  EXPECT_TRUE(S::full_kv);
  EXPECT_EQ(S::swizzle, tma::XorSwizzle{});
  EXPECT_EQ(S::smem_dtype, DType::bf16);
}

/// Every 32 rows of every block, once.
template <class S>
void expect_units_cover_a_stage() {
  std::vector<int> seen(static_cast<size_t>(S::total_tiles));
  for (int warp = 0; warp < S::num_warps; ++warp) {
    for (int t = 0; t < S::tiles_per_warp; ++t) {
      const int unit = S::unit_of(warp, t);
      if (unit >= S::total_tiles) continue;
      const LoadUnit part = S::load_unit(unit);
      ASSERT_LT(part.row_group, S::BN / 32);
      ASSERT_LT(part.block, S::blocks_per_stage);
      ++seen[static_cast<size_t>(part.row_group * S::blocks_per_stage + part.block)];
    }
  }
  EXPECT_EQ(seen, std::vector<int>(static_cast<size_t>(S::total_tiles), 1));
}

TEST(KVBufferConstants, share_a_stage_among_warps_without_gap_or_overlap) {
  expect_units_cover_a_stage<Shape<DType::bf16, SeedBf16Depth128>>();
  expect_units_cover_a_stage<Shape<DType::bf16, SeedBf16Depth64>>();
  expect_units_cover_a_stage<Shape<DType::f8_e4m3, SeedFp8Latent>>();
  expect_units_cover_a_stage<Shape<DType::f8_e4m3, SeedFp8LatentUneven>>();
  expect_units_cover_a_stage<Shape<DType::bf16, SeedStreamedKeys>>();
  expect_units_cover_a_stage<Shape<DType::bf16, ThreadKeys<128>>>();
  using TwoBlocks = Shape<DType::bf16, SeedBf16Depth64>;
  EXPECT_EQ(TwoBlocks::load_unit(3), (LoadUnit{1, 1}))
      << "warp w of a 64-wide stage: rows w / 2, block w % 2";
}

}  // namespace
}  // namespace folio::test
