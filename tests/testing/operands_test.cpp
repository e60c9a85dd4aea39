// SPDX-License-Identifier: Apache-2.0
/// tests/testing/operands_test.cpp: blocks of tiles as operands of matrix instructions, for every
/// order of blocks; what one descriptor cannot walk is refused.
#include "folio/testing/operands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "folio/tma/tile_layout.h"

namespace folio::test {
namespace {

using namespace emulator;
using ::testing::HasSubstr;

constexpr int64_t tile_address = 8192;

/// Element by element, for blocks of all rows, of eight rows, and of pages.
TEST(Operands, descriptors_find_the_elements_of_the_layout) {
  for (const int block_rows : {64, 8, 16}) {
    for (const tma::Swizzle mode :
         {tma::Swizzle::none, tma::Swizzle::b32, tma::Swizzle::b64, tma::Swizzle::b128}) {
      const tma::TileLayout layout = tile_layout(DType::bf16, mode, 64, 128, block_rows);
      const int rows = block_rows == 16 ? 16 : 64;  // inside a page
      for (int first = 0; first < 64; first += rows) {
        for (int column = 0; column < 128; column += 16) {
          const Result<WgmmaOperand> keys =
              k_major_operand(layout, tile_address, {first, column, rows, 16});
          ASSERT_TRUE(keys.has_value()) << keys.error().message();
          for (int mn = 0; mn < rows; ++mn) {
            for (int k = 0; k < 16; ++k) {
              ASSERT_EQ(wgmma_operand_address(keys->descriptor, Major::k, 16, mn, k),
                        tile_address + layout.offset(first + mn, column + k));
            }
          }
        }
        for (int step = first; step < first + rows; step += 16) {
          const Result<WgmmaOperand> values =
              mn_major_operand(layout, tile_address, {step, 0, 16, 128});
          ASSERT_TRUE(values.has_value()) << values.error().message();
          for (int mn = 0; mn < 128; ++mn) {
            for (int k = 0; k < 16; ++k) {
              ASSERT_EQ(wgmma_operand_address(values->descriptor, Major::mn, 16, mn, k),
                        tile_address + layout.offset(step + k, mn));
            }
          }
        }
      }
    }
  }
}

TEST(Operands, blocks_that_one_descriptor_cannot_walk_are_refused) {
  const auto keys = [](const tma::TileLayout& layout, const TileBlock& block) {
    return std::string(k_major_operand(layout, 0, block).error().message());
  };
  const tma::TileLayout whole = tile_layout(DType::bf16, tma::Swizzle::b128, 64, 128);
  const tma::TileLayout pages = tile_layout(DType::bf16, tma::Swizzle::b128, 64, 128, 16);
  const tma::TileLayout small = tile_layout(DType::bf16, tma::Swizzle::b128, 64, 128, 4);
  EXPECT_EQ(keys(whole, {0, 0, 64, 16}), "");
  EXPECT_THAT(keys(whole, {0, 120, 64, 16}), HasSubstr("leave a tile of 64 by 128"));
  EXPECT_THAT(keys(whole, {56, 0, 16, 16}), HasSubstr("rows [56, 72)"));
  EXPECT_THAT(keys(whole, {0, 8, 64, 16}), HasSubstr("expected one step of 16"));
  EXPECT_THAT(keys(whole, {0, 0, 64, 32}), HasSubstr("expected one step of 16"));
  EXPECT_THAT(keys(whole, {4, 0, 16, 16}), HasSubstr("groups of eight rows from row 4"));
  EXPECT_THAT(keys(pages, {0, 0, 64, 16}),
              HasSubstr("not equally far apart from row 0 to 64: blocks have 16 rows"));
  EXPECT_EQ(keys(pages, {16, 0, 16, 16}), "");
  EXPECT_THAT(keys(small, {0, 0, 16, 16}), HasSubstr("are cut by blocks of 4 rows"));

  const auto values = [](const tma::TileLayout& layout, const TileBlock& block) {
    return std::string(mn_major_operand(layout, 0, block).error().message());
  };
  EXPECT_THAT(values(whole, {0, 0, 32, 128}), HasSubstr("32 rows from column 0, expected 16"));
  EXPECT_THAT(values(whole, {0, 32, 16, 64}), HasSubstr("a multiple of the chunk 64"));
  EXPECT_THAT(values(whole, {0, 0, 16, 256}), HasSubstr("leave a tile"));
  EXPECT_EQ(
      mn_major_operand(tile_layout(DType::f8_e4m3, tma::Swizzle::b128, 64, 128), 0, {0, 0, 16, 128})
          .error()
          .code(),
      Errc::unsupported);
}

TEST(Operands, ldmatrix_rows_are_addresses_of_the_corners_rows) {
  const tma::TileLayout layout = tile_layout(DType::bf16, tma::Swizzle::b128, 64, 128);
  const auto rows =
      ldmatrix_rows<2>(layout, tile_address, {MatrixElement{8, 16}, MatrixElement{40, 72}});
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(rows[static_cast<size_t>(i)], tile_address + layout.offset(8 + i, 16));
    EXPECT_EQ(rows[static_cast<size_t>(8 + i)], tile_address + layout.offset(40 + i, 72));
  }
}

}  // namespace
}  // namespace folio::test
