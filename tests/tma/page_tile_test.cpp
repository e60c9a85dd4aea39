// SPDX-License-Identifier: Apache-2.0
/// tests/tma/page_tile_test.cpp: a tile copied by page ids holds, where its layout says, the
/// elements of its tokens.
#include "folio/tma/page_tile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tma/map_walk.h"
#include "tma/planes.h"

namespace folio::test {
namespace {

using tma::ChunksPerCopy;

TEST(PageTile, describes_pages_as_a_dimension) {
  const TMATensorTile<5> tile =
      tma::page_tile(plane_of({}, 1, 2), {.swizzle = tma::Swizzle::b128, .rows = 64});
  ASSERT_TRUE(tile.check().is_ok()) << tile.check().message();
  EXPECT_THAT(tile.map.dim, testing::ElementsAre(64, 16, 2, 2, 5));
  EXPECT_THAT(tile.map.stride_bytes, testing::ElementsAre(2, 512, 128, 256, 6 * 16 * 512));
  EXPECT_THAT(tile.map.box, testing::ElementsAre(64, 16, 2, 1, 1));
  EXPECT_EQ(tile.tile_shape, (IndexList<5>{{4, 1, 2, 16, 64}}));
}

TEST(PageTile, brings_every_token_in_both_orders_of_storage) {
  for (const bool head_major : {false, true}) {
    for (const int64_t page_size : {1, 3, 8, 16, 64}) {
      for (const tma::Swizzle mode :
           {tma::Swizzle::none, tma::Swizzle::b32, tma::Swizzle::b64, tma::Swizzle::b128}) {
        for (const ChunksPerCopy per_copy : {ChunksPerCopy::all, ChunksPerCopy::one}) {
          const tma::PlaneGeometry plane =
              plane_of({.head_size = 192, .page_size = page_size, .head_major = head_major}, 1, 1);
          const TMATensorTile<5> tile =
              tma::page_tile(plane, {.swizzle = mode, .rows = 48}, per_copy);
          // 48 tokens are no whole pages of 64; copies of few rows of one chunk would not begin at
          // multiples of 128 bytes.
          const bool illegal = page_size == 64 || (per_copy == ChunksPerCopy::one &&
                                                   page_size * swizzle_bytes(mode) % 128 != 0);
          ASSERT_EQ(tile.fault().is_none(), !illegal) << tile.check().message();
          if (illegal) continue;
          const tma::TileLayout& layout = tile.layout;
          const int32_t box_rows = tile.box_shape[3];
          const int32_t step = per_copy == ChunksPerCopy::all ? layout.num_chunks() : 1;
          std::map<int64_t, Landed> shared;
          for (int32_t row = 0; row < layout.rows; row += box_rows) {
            for (int32_t chunk = 0; chunk < layout.num_chunks(); chunk += step) {
              const tma::Coordinates<5> at{{0, 0, chunk, 1, (row / box_rows * 3 + 1) % 5}};
              ASSERT_EQ(layout.box_offset(row, chunk) % 128, 0);
              for (const auto& place : walk(tile.map, at, layout.box_offset(row, chunk)))
                ASSERT_TRUE(shared.insert(place).second);
            }
          }
          for (int32_t row = 0; row < layout.rows; ++row) {
            for (int32_t column = 0; column < layout.columns; ++column) {
              const Landed& landed = shared.at(layout.offset(row, column));
              ASSERT_TRUE(landed.in_bounds);
              ASSERT_EQ(landed.address,
                        address(plane, (row / box_rows * 3 + 1) % 5, row % box_rows, 1, column));
            }
          }
        }
      }
    }
  }
}

TEST(PageTile, of_an_unassigned_page_is_out_of_bounds) {
  const TMATensorTile<5> tile =
      tma::page_tile(plane_of({}), {.swizzle = tma::Swizzle::b128, .rows = 16});
  for (const int32_t page : {5, -1, INT32_MAX}) {
    for (const auto& [byte, landed] : walk(tile.map, tma::Coordinates<5>{{0, 0, 0, 0, page}}))
      EXPECT_FALSE(landed.in_bounds);
  }
}
TEST(PageTile, stops_at_the_end_of_the_page) {
  const TMATensorTile<5> tile =
      tma::page_tile(plane_of({}), {.swizzle = tma::Swizzle::b128, .rows = 16});
  const auto shared = walk(tile.map, tma::Coordinates<5>{{0, 10, 0, 0, 2}});
  for (int32_t row = 0; row < 16; ++row)
    EXPECT_EQ(shared.at(tile.layout.offset(row, 0)).in_bounds, row < 6);
}
TEST(PageTile, takes_pages_at_any_distance) {
  tma::PlaneGeometry plane = plane_of({});
  plane.page_stride_bytes += 16;
  EXPECT_TRUE(tma::page_tile(plane, {.swizzle = tma::Swizzle::b128, .rows = 16}).check().is_ok());
  EXPECT_EQ(tma::cache_tile(plane, {.swizzle = tma::Swizzle::b128, .rows = 16}).fault().rule,
            tma::Rule::whole_rows);
}
TEST(PageTile, sees_the_latent_part_of_a_row) {
  const tma::PlaneGeometry plane =
      plane_of({.num_heads = 1, .head_size = 576, .page_size = 64, .kv = 1});
  const TMATensorTile<5> tile =
      tma::page_tile(plane, {.swizzle = tma::Swizzle::b128, .rows = 64, .depth = 512});
  ASSERT_TRUE(tile.check().is_ok());
  EXPECT_EQ(tile.map.dim[2], 8);
  EXPECT_EQ(tile.layout.columns, 512);
}

}  // namespace
}  // namespace folio::test
