// SPDX-License-Identifier: Apache-2.0
/// tests/tma/row_tiles_test.cpp: a tile copied page by page holds, where its layout says, the
/// elements of its tokens.
#include "folio/tma/row_tiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tma/map_walk.h"
#include "tma/planes.h"

namespace folio::test {
namespace {

constexpr tma::Swizzle modes[] = {tma::Swizzle::none, tma::Swizzle::b32, tma::Swizzle::b64,
                                  tma::Swizzle::b128};

using Shared = std::map<int64_t, Landed>;

/// The pages that hold a tile's tokens: scattered, some twice.
int64_t page_at(int64_t i, int64_t num_pages) { return (i * 3 + 1) % num_pages; }

template <int Rank>
void copy(const tma::TensorMap& map, const tma::Coordinates<Rank>& at, int64_t destination,
          Shared& shared) {
  EXPECT_EQ(destination % 128, 0);
  for (const auto& [byte, landed] : walk(map, at, destination)) {
    EXPECT_TRUE(shared.emplace(byte, landed).second) << "byte " << byte << " is written twice";
  }
}

/// Every element of the tile is in its place: `head` of tokens in the pages page_at(0), page_at(1),
/// ..., zero past `depth`.
void expect_tile(const tma::PlaneGeometry& plane, const tma::TileLayout& layout, int32_t box_rows,
                 int32_t head, int32_t depth, const Shared& shared, int32_t first_column = 0,
                 int64_t first_slot = 0) {
  ASSERT_EQ(shared.size(), static_cast<size_t>(layout.bytes() / layout.element_bytes));
  for (int32_t row = 0; row < layout.rows; ++row) {
    const int64_t page = page_at(row / box_rows, plane.num_pages),
                  slot = first_slot + row % box_rows;
    for (int32_t column = 0; column < layout.columns; ++column) {
      const auto found = shared.find(layout.offset(row, column));
      ASSERT_NE(found, shared.end());
      ASSERT_EQ(found->second.in_bounds, column < depth) << row << " " << column;
      if (column < depth) {
        ASSERT_EQ(found->second.address, address(plane, page, slot, head, first_column + column))
            << row << " " << column;
      }
    }
  }
}

/// The loads of create_tma_tile: one per page and chunk.
Shared copy_rows(const tma::PlaneGeometry& plane, const TMATensorTile<3>& tile, int32_t head,
                 int64_t first_slot = 0) {
  Shared shared;
  const int32_t box_rows = tile.box_shape[0];
  for (int32_t row = 0; row < tile.tile_shape[0]; row += box_rows) {
    const int64_t from = page_at(row / box_rows, plane.num_pages) * plane.row_stride() + first_slot;
    for (int32_t chunk = 0; chunk < tile.layout.num_chunks(); ++chunk) {
      const tma::Coordinates<3> at{{chunk * tile.layout.chunk, head, static_cast<int32_t>(from)}};
      copy(tile.map, at, tile.layout.box_offset(row, chunk), shared);
    }
  }
  return shared;
}

TEST(CacheTile, brings_every_token_of_scattered_pages) {
  for (const DType dtype : {DType::bf16, DType::f32, DType::f8_e4m3}) {
    for (const int32_t head_size : {64, 72, 80, 192}) {
      for (const int64_t page_size : {1, 8, 16, 64}) {
        for (const tma::Swizzle mode : modes) {
          for (const bool head_major : {false, true}) {
            const tma::PlaneGeometry plane =
                plane_of({dtype, 2, head_size, page_size, 5, 3, 2, head_major}, 1, 2);
            const TMATensorTile<3> tile = tma::cache_tile(plane, {.swizzle = mode, .rows = 32});
            // 72 bytes are no stride; copies of few rows would not begin at multiples of 128 bytes.
            const bool one_copy =
                page_size == 64 && head_size * plane.element_bytes() <= swizzle_bytes(mode);
            const bool illegal =
                head_size * plane.element_bytes() % 16 != 0 ||
                (!one_copy && std::min<int64_t>(page_size, 32) * swizzle_bytes(mode) % 128 != 0);
            ASSERT_EQ(tile.fault().is_none(), !illegal) << tile.check().message();
            if (illegal) continue;
            expect_tile(plane, tile.layout, tile.box_shape[0], 1, head_size,
                        copy_rows(plane, tile, 1));
          }
        }
      }
    }
  }
}
TEST(CacheTile, describes_the_matrix_of_rows) {
  const TMATensorTile<3> tile =
      tma::cache_tile(plane_of({}), {.swizzle = tma::Swizzle::b128, .rows = 64});
  ASSERT_TRUE(tile.check().is_ok()) << tile.check().message();
  EXPECT_EQ(tile.map.rank, 3);
  EXPECT_EQ(tile.map.dtype, tma::DataType::bf16);
  EXPECT_THAT(tile.map.dim, testing::ElementsAre(128, 2, 4 * 96 + 16, 1, 1));
  EXPECT_THAT(tile.map.stride_bytes, testing::ElementsAre(2, 256, 512, 0, 0));
  EXPECT_THAT(tile.map.box, testing::ElementsAre(64, 1, 16, 1, 1));
  EXPECT_EQ(tile.tile_shape, (IndexList<3>{{64, 1, 128}}));
  EXPECT_EQ(tile.box_shape, (IndexList<3>{{16, 1, 64}}));
  EXPECT_EQ(tile.map.oob_fill, tma::OobFill::zero);
  EXPECT_EQ(tile.map.l2_promotion, tma::L2Promotion::none);
}
TEST(CacheTile, counts_rows_as_listed) {
  struct Listed {
    int64_t pages, page_size, num_rows;
    int32_t heads, head_size, layers, kv;
  };
  for (const Listed& c : {Listed{4, 2, 38, 2, 4, 3, 2},
                          {5, 128, 1152, 1, 64, 1, 2},
                          {1000, 128, 8183936, 8, 128, 32, 2},
                          {1000, 128, 7800320, 1, 576, 61, 1},
                          {300, 64, 2372928, 16, 256, 62, 2}}) {
    const tma::PlaneGeometry plane =
        plane_of({DType::f32, c.heads, c.head_size, c.page_size, c.pages, c.layers, c.kv});
    EXPECT_EQ(plane.num_rows(), c.num_rows);
    EXPECT_EQ(tma::cache_tile(plane, {.rows = 1}).map.dim[2], c.num_rows);
  }
}
TEST(CacheTile, takes_part_of_a_page) {
  const tma::PlaneGeometry plane = plane_of({.page_size = 64});
  const TMATensorTile<3> tile = tma::cache_tile(plane, {.swizzle = tma::Swizzle::b128, .rows = 16});
  expect_tile(plane, tile.layout, 16, 0, 128, copy_rows(plane, tile, 0, 48), 0, 48);
}
TEST(CacheTile, sees_columns_of_a_latent_row) {
  const tma::PlaneGeometry plane =
      plane_of({.num_heads = 1, .head_size = 576, .page_size = 64, .kv = 1});
  const TMATensorTile<3> latent =
      tma::cache_tile(plane, {.swizzle = tma::Swizzle::b128, .rows = 64, .depth = 512});
  expect_tile(plane, latent.layout, 64, 0, 512, copy_rows(plane, latent, 0));
  const TMATensorTile<3> rope =
      tma::cache_tile(plane, {.swizzle = tma::Swizzle::b128, .rows = 64, .first_column = 512});
  ASSERT_TRUE(rope.check().is_ok());
  EXPECT_EQ(rope.layout.columns, 64);
  expect_tile(plane, rope.layout, 64, 0, 64, copy_rows(plane, rope, 0), 512);
  EXPECT_EQ(rope,
            (tma::rope_tile(
                plane,
                {.swizzle = tma::Swizzle::b128, .rows = 64, .columns = 64, .padded_depth = 1024})));
}
TEST(CacheTile, fills_wider_tiles_with_zeros) {
  const tma::PlaneGeometry plane = plane_of({.head_size = 64});
  const TMATensorTile<3> tile =
      tma::cache_tile(plane, {.swizzle = tma::Swizzle::b128, .rows = 16, .columns = 192});
  expect_tile(plane, tile.layout, 16, 1, 64, copy_rows(plane, tile, 1));
}
TEST(CacheTile, of_rows_without_pages_is_one_piece) {
  const tma::PlaneGeometry plane = rows_of(DType::bf16, 40, 2, 64);
  const TMATensorTile<3> tile = tma::cache_tile(plane, {.swizzle = tma::Swizzle::b128, .rows = 64});
  ASSERT_TRUE(tile.check().is_ok()) << tile.check().message();
  EXPECT_EQ(tile.box_shape[0], 64);
  const Shared shared = walk(tile.map, tma::Coordinates<3>{{0, 1, 30}});
  for (int32_t row = 0; row < 64; ++row)
    EXPECT_EQ(shared.at(tile.layout.offset(row, 0)).in_bounds, row < 10) << row;
}
TEST(CacheTile, never_reads_past_the_last_row_of_its_pages) {
  const tma::PlaneGeometry plane = plane_of({.page_size = 16, .num_pages = 3});
  const TMATensorTile<3> tile = tma::cache_tile(plane, {.swizzle = tma::Swizzle::b128, .rows = 16});
  for (const auto& [byte, landed] :
       walk(tile.map, tma::Coordinates<3>{{0, 0, static_cast<int32_t>(plane.num_rows())}}))
    EXPECT_FALSE(landed.in_bounds) << "the row of an unassigned page";
}
TEST(CacheTile, carries_hints_and_fill) {
  const TMATensorTile<3> tile =
      tma::cache_tile(plane_of({}), {.swizzle = tma::Swizzle::b64,
                                     .rows = 16,
                                     .l2_promotion = tma::L2Promotion::b256,
                                     .oob_fill = tma::OobFill::nan});
  EXPECT_EQ(tile.map.l2_promotion, tma::L2Promotion::b256);
  EXPECT_EQ(tile.map.oob_fill, tma::OobFill::nan);
  EXPECT_TRUE(tile.check().is_ok());
}

TEST(FoldedTile, brings_all_chunks_of_a_page_in_one_copy) {
  for (const int64_t page_size : {4, 16, 64}) {
    for (const tma::Swizzle mode : modes) {
      const tma::PlaneGeometry plane = plane_of({.head_size = 192, .page_size = page_size}, 1);
      const TMATensorTile<4> tile = tma::folded_tile(plane, {.swizzle = mode, .rows = 32});
      ASSERT_TRUE(tile.check().is_ok()) << tile.check().message();
      Shared shared;
      for (int32_t row = 0; row < 32; row += tile.box_shape[2]) {
        const int64_t from = page_at(row / tile.box_shape[2], 5) * plane.row_stride();
        copy(tile.map, tma::Coordinates<4>{{0, static_cast<int32_t>(from), 0, 1}},
             tile.layout.box_offset(row, 0), shared);
      }
      expect_tile(plane, tile.layout, tile.box_shape[2], 1, 192, shared);
    }
  }
}
TEST(FoldedTile, within_a_page_lies_as_the_unfolded_one) {
  const tma::PlaneGeometry plane = plane_of({.page_size = 64});
  const tma::TileSpec spec{.swizzle = tma::Swizzle::b128, .rows = 64};
  EXPECT_EQ(tma::folded_tile(plane, spec).layout, tma::cache_tile(plane, spec).layout);
  EXPECT_EQ(tma::folded_tile(plane, spec).map.transaction_bytes(),
            2 * tma::cache_tile(plane, spec).map.transaction_bytes());
}
TEST(RowMajorTile, brings_atoms_of_eight_rows) {
  for (const int64_t page_size : {8, 16, 64}) {
    for (const tma::Swizzle mode : modes) {
      const tma::PlaneGeometry plane = plane_of({.page_size = page_size}, 1, 1);
      const TMATensorTile<5> tile = tma::row_major_tile(plane, {.swizzle = mode, .rows = 32});
      ASSERT_TRUE(tile.check().is_ok()) << tile.check().message();
      const int32_t box_rows = 8 * tile.box_shape[1];
      Shared shared;
      for (int32_t row = 0; row < 32; row += box_rows) {
        const int64_t from = page_at(row / box_rows, 5) * plane.row_stride();
        copy(tile.map, tma::Coordinates<5>{{0, 0, 0, static_cast<int32_t>(from / 8), 1}},
             tile.layout.box_offset(row, 0), shared);
      }
      expect_tile(plane, tile.layout, box_rows, 1, 128, shared);
    }
  }
}

TEST(RopeTile, sees_bf16_behind_the_content_of_each_head) {
  const tma::PlaneGeometry plane = plane_of({DType::f8_e4m3, 2, 640, 16, 5, 3, 1}, 0, 1);
  const TMATensorTile<3> tile = tma::rope_tile(
      plane, {.swizzle = tma::Swizzle::b128, .rows = 32, .columns = 64, .padded_depth = 512});
  ASSERT_TRUE(tile.check().is_ok()) << tile.check().message();
  EXPECT_EQ(tile.map.dtype, tma::DataType::bf16);
  const Shared shared = copy_rows(plane, tile, 1);
  for (int32_t row = 0; row < 32; ++row) {
    for (int32_t column = 0; column < 64; ++column) {
      const Landed& landed = shared.at(tile.layout.offset(row, column));
      ASSERT_TRUE(landed.in_bounds);
      ASSERT_EQ(landed.address,
                address(plane, page_at(row / 16, 5), row % 16, 1, 512 + 2 * column));
    }
  }
}
TEST(RopeTile, ends_with_the_rope) {
  const tma::PlaneGeometry plane = plane_of({DType::f8_e4m3, 1, 656, 64, 5, 1, 1});
  const TMATensorTile<3> tile = tma::rope_tile(
      plane, {.swizzle = tma::Swizzle::b128, .rows = 64, .columns = 64, .padded_depth = 528});
  ASSERT_TRUE(tile.check().is_ok()) << tile.check().message();
  for (const auto& [byte, landed] : walk(tile.map, tma::Coordinates<3>{{64, 0, 0}}))
    EXPECT_FALSE(landed.in_bounds);
}

TEST(ScaleTile, brings_consecutive_scales_from_anywhere) {
  const TMATensorTile<2> tile = tma::scale_tile(storage, DType::f32, 1001, 64);
  ASSERT_TRUE(tile.check().is_ok()) << tile.check().message();
  EXPECT_EQ(tile.tile_shape, (IndexList<2>{{1, 64}}));
  const Shared shared = walk(tile.map, tma::Coordinates<2>{{970, 0}});
  for (int32_t i = 0; i < 64; ++i) {
    const Landed& landed = shared.at(tile.layout.offset(0, i));
    EXPECT_EQ(landed.in_bounds, i < 31);
    EXPECT_EQ(landed.address, storage + static_cast<uint64_t>(970 + i) * 4);
  }
}
TEST(ScaleTile, serves_every_type_of_scales) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f8_e8m0, DType::f8_e4m3})
    EXPECT_TRUE(tma::scale_tile(storage, dtype, 7, 128).check().is_ok());
}

}  // namespace
}  // namespace folio::test
