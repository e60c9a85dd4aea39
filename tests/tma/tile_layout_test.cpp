// SPDX-License-Identifier: Apache-2.0
/// tests/tma/tile_layout_test.cpp: a tile layout has a place of its own for every element, in the
/// order it promises.
#include "folio/tma/tile_layout.h"

#include <gtest/gtest.h>

#include <set>

namespace folio::test {
namespace {

constexpr tma::Swizzle modes[] = {tma::Swizzle::none, tma::Swizzle::b32, tma::Swizzle::b64,
                                  tma::Swizzle::b128};

TEST(Shapes, pad_and_cut_the_last_extent) {
  constexpr IndexList<3> tile{{64, 1, 72}};
  static_assert(padded_shape(DType::bf16, tile, tma::Swizzle::b128) == IndexList<3>{{64, 1, 128}});
  static_assert(ragged_shape(DType::bf16, tile, tma::Swizzle::b128) == IndexList<3>{{64, 1, 64}});
  EXPECT_EQ(padded_shape(DType::bf16, tile, tma::Swizzle::none), (IndexList<3>{{64, 1, 72}}));
  EXPECT_EQ(ragged_shape(DType::i8, tile, tma::Swizzle::b32), (IndexList<3>{{64, 1, 32}}));
}

TEST(TileLayout, has_a_place_of_its_own_for_every_element) {
  for (const tma::Swizzle mode : modes) {
    for (const DType dtype : {DType::bf16, DType::f32, DType::i8}) {
      for (const int block_rows : {0, 1, 4, 8}) {
        const tma::TileLayout layout = tile_layout(dtype, mode, 16, 160, block_rows);
        std::set<int64_t> places;
        for (int32_t row = 0; row < layout.rows; ++row) {
          for (int32_t column = 0; column < layout.columns; ++column) {
            const int64_t at = layout.offset(row, column);
            EXPECT_EQ(at % layout.element_bytes, 0);
            EXPECT_TRUE(at >= 0 && at < layout.bytes());
            places.insert(at);
          }
        }
        EXPECT_EQ(places.size() * static_cast<size_t>(layout.element_bytes),
                  static_cast<size_t>(layout.bytes()));
      }
    }
  }
}
TEST(TileLayout, keeps_a_chunk_of_all_rows_together) {
  constexpr tma::TileLayout layout = tile_layout(DType::bf16, tma::Swizzle::b128, 64, 128);
  static_assert(layout.num_chunks() == 2 && layout.chunk_bytes() == 128 &&
                layout.bytes() == 64 * 128 * 2);
  static_assert(layout.box_offset(0, 1) == 64 * 128 && layout.box_offset(16, 0) == 16 * 128);
  EXPECT_EQ(layout.offset(0, 64), 64 * 128);
  EXPECT_EQ(layout.offset(3, 8), 3 * 128 + ((1 ^ 3) * 16));
  EXPECT_EQ(layout.offset(9, 65), 64 * 128 + 9 * 128 + 16 + 2);
}
TEST(TileLayout, keeps_the_chunks_of_a_page_together_in_blocks) {
  constexpr tma::TileLayout layout = tile_layout(DType::bf16, tma::Swizzle::b128, 64, 128, 16);
  static_assert(layout.box_offset(16, 0) == 16 * 256 &&
                layout.box_offset(16, 1) == 16 * 256 + 16 * 128);
  EXPECT_EQ(layout.offset(17, 64), 16 * 256 + 16 * 128 + 128 + 16);
}
TEST(TileLayout, of_a_tile_in_one_block_is_that_of_chunks) {
  const tma::TileLayout chunks = tile_layout(DType::f16, tma::Swizzle::b64, 32, 96),
                        block = tile_layout(DType::f16, tma::Swizzle::b64, 32, 96, 32);
  EXPECT_EQ(chunks, block);
}
TEST(TileLayout, begins_at_a_whole_period) {
  EXPECT_EQ(tile_layout(DType::bf16, tma::Swizzle::none, 8, 8).alignment(), 128);
  EXPECT_EQ(tile_layout(DType::bf16, tma::Swizzle::b32, 8, 16).alignment(), 256);
  EXPECT_EQ(tile_layout(DType::bf16, tma::Swizzle::b64, 8, 32).alignment(), 512);
  EXPECT_EQ(tile_layout(DType::bf16, tma::Swizzle::b128, 8, 64).alignment(), 1024);
}
TEST(TileLayout, takes_boxes_that_begin_at_multiples_of_128_bytes) {
  const tma::TileLayout wide = tile_layout(DType::bf16, tma::Swizzle::b128, 64, 128);
  EXPECT_TRUE(wide.takes_boxes_of(1));
  const tma::TileLayout narrow = tile_layout(DType::bf16, tma::Swizzle::none, 64, 16);
  EXPECT_TRUE(narrow.takes_boxes_of(8));
  EXPECT_FALSE(narrow.takes_boxes_of(4));
  EXPECT_TRUE(tile_layout(DType::bf16, tma::Swizzle::none, 1, 8).takes_boxes_of(1))
      << "one box is the tile";
  EXPECT_FALSE(tile_layout(DType::bf16, tma::Swizzle::none, 1, 16).takes_boxes_of(1))
      << "the second chunk begins at byte 16";
}

}  // namespace
}  // namespace folio::test
