// SPDX-License-Identifier: Apache-2.0
/// tests/tma/gather4_test.cpp: four rows per copy, each where its coordinate says.
#include "folio/tma/gather4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tma/map_walk.h"
#include "tma/planes.h"

namespace folio::test {
namespace {

/// One row of a copy: the walk of its map at that row.
std::map<int64_t, Landed> row_of(const TMATensorTile<2>& tile, int32_t first_column, int32_t row,
                                 int64_t destination) {
  return walk(tile.map, tma::Coordinates<2>{{first_column, row}}, destination);
}

const tma::PlaneGeometry latent = plane_of({DType::f8_e4m3, 1, 640, 16, 5, 3, 1}, 0, 1);

TEST(Gather4BoxWidth, follows_the_swizzle) {
  static_assert(tma::gather4_box_width(tma::DataType::u8, 640, tma::Swizzle::none) == 640);
  static_assert(tma::gather4_box_width(tma::DataType::i64, 80, tma::Swizzle::none) == 80);
  EXPECT_EQ(tma::gather4_box_width(tma::DataType::u8, 640, tma::Swizzle::b128), 128);
  EXPECT_EQ(tma::gather4_box_width(tma::DataType::bf16, 64, tma::Swizzle::b64), 32);
  EXPECT_EQ(tma::gather4_num_col_groups(tma::DataType::u8, 640, tma::Swizzle::b128), 5);
  EXPECT_EQ(tma::gather4_num_col_groups(tma::DataType::bf16, 72, tma::Swizzle::b128), 2);
  EXPECT_EQ(tma::gather4_num_col_groups(tma::DataType::bf16, 72, tma::Swizzle::none), 1);
}

TEST(Gather4Tile, brings_rows_of_the_cache) {
  for (const tma::Swizzle mode : {tma::Swizzle::b32, tma::Swizzle::b64, tma::Swizzle::b128}) {
    const TMATensorTile<2> tile =
        tma::gather4_tile(latent, {.tile_height = 8, .tile_width = 640, .swizzle = mode});
    ASSERT_TRUE(tile.check().is_ok()) << tile.check().message();
    EXPECT_EQ(tile.map.use, tma::Use::gather4);
    EXPECT_EQ(tile.map.transaction_bytes(), 4 * swizzle_bytes(mode));
    for (int32_t row = 0; row < 8; ++row) {
      const int32_t page = row % 5, slot = (row * 7) % 16;
      for (int32_t group = 0; group < tile.layout.num_chunks(); ++group) {
        const auto shared = row_of(tile, group * tile.box_shape[1],
                                   static_cast<int32_t>(page * latent.row_stride()) + slot,
                                   tile.layout.box_offset(row, group));
        for (int32_t i = 0; i < tile.box_shape[1]; ++i) {
          const int32_t column = group * tile.box_shape[1] + i;
          const Landed& landed = shared.at(tile.layout.offset(row, column));
          ASSERT_TRUE(landed.in_bounds);
          ASSERT_EQ(landed.address, address(latent, page, slot, 0, column));
        }
      }
    }
  }
}
TEST(Gather4Tile, sees_fp8_rows_as_int64_without_a_swizzle) {
  const TMATensorTile<2> tile = tma::gather4_tile(latent, {.tile_height = 64,
                                                           .tile_width = 80,
                                                           .tma_dtype = tma::DataType::i64,
                                                           .l2_promotion = tma::L2Promotion::b256});
  ASSERT_TRUE(tile.check().is_ok()) << tile.check().message();
  EXPECT_EQ(tile.tile_shape, (IndexList<2>{{64, 80}}));
  EXPECT_EQ(tile.box_shape, (IndexList<2>{{1, 80}}));
  EXPECT_EQ(tile.map.l2_promotion, tma::L2Promotion::b256);
  EXPECT_EQ(tile.layout.offset(3, 5), 3 * 640 + 5 * 8) << "a plain matrix";
  const auto shared = row_of(tile, 0, 97, 0);
  EXPECT_EQ(shared.at(79 * 8).address, latent.base + 97 * 640 + 79 * 8);
}
TEST(Gather4Tile, fills_what_hangs_over_the_tile_even_within_the_row) {
  const TMATensorTile<2> tile = tma::gather4_tile(
      latent, {.tile_width = 576, .tile_stride = 640, .swizzle = tma::Swizzle::b128});
  ASSERT_TRUE(tile.check().is_ok()) << tile.check().message();
  EXPECT_EQ(tile.layout.num_chunks(), 5);
  for (const auto& [byte, landed] : row_of(tile, 512, 3, 0))
    EXPECT_EQ(landed.in_bounds, swizzle(tma::Swizzle::b128, byte) < 64);
}
TEST(Gather4Tile, of_a_row_out_of_bounds_is_zero) {
  const TMATensorTile<2> tile =
      tma::gather4_tile(latent, {.tile_width = 640, .swizzle = tma::Swizzle::b128});
  for (const int64_t row : {int64_t{-1}, latent.num_rows()}) {
    for (const auto& [byte, landed] : row_of(tile, 0, static_cast<int32_t>(row), 0))
      EXPECT_FALSE(landed.in_bounds);
  }
}
TEST(Gather4Tile, walks_all_heads_of_a_row) {
  const tma::PlaneGeometry plane = plane_of({.num_heads = 2, .head_size = 64});
  const TMATensorTile<2> tile =
      tma::gather4_tile(plane, {.tile_width = 128, .swizzle = tma::Swizzle::b128});
  ASSERT_TRUE(tile.check().is_ok());
  const auto shared = row_of(tile, 64, 96 + 2, 0);
  EXPECT_EQ(shared.at(0).address, address(plane, 1, 2, 1, 0));
}

TEST(RopeGather4Tile, is_as_far_apart_as_whole_rows) {
  const TMATensorTile<2> tile = tma::rope_gather4_tile(
      latent,
      {.tile_height = 16, .tile_width = 64, .padded_depth = 512, .swizzle = tma::Swizzle::b128});
  ASSERT_TRUE(tile.check().is_ok()) << tile.check().message();
  EXPECT_EQ(tile.map.dtype, tma::DataType::bf16);
  EXPECT_EQ(tile.map.stride_bytes[1], 640);
  EXPECT_EQ(tile.tile_shape, (IndexList<2>{{16, 64}}));
  const auto shared = row_of(tile, 0, 48 + 3, tile.layout.box_offset(5, 0));
  for (int32_t i = 0; i < 64; ++i)
    EXPECT_EQ(shared.at(tile.layout.offset(5, i)).address, address(latent, 1, 3, 0, 512 + 2 * i));
  for (const auto& [byte, landed] : row_of(tile, 64, 0, 0))
    EXPECT_FALSE(landed.in_bounds) << "behind the rope is the next row";
}

}  // namespace
}  // namespace folio::test
