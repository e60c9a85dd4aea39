// SPDX-License-Identifier: Apache-2.0
/// tests/tma/ragged_tile_test.cpp: a tile of one sequence among many touches its sequence and
/// nothing else.
#include "folio/tma/ragged_tile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tma/map_walk.h"
#include "tma/planes.h"

namespace folio::test {
namespace {

/// Every element of every chunk: in bounds exactly for rows of the sequence, and then that row's.
void expect_clipped(const tma::PlaneGeometry& plane, const RaggedTMA3DTile& tile,
                    const tma::RaggedRows& rows, int32_t head_group) {
  ASSERT_TRUE(tile.clips_in_one_copy(rows));
  for (int32_t chunk = 0; chunk < tile.layout.num_chunks(); ++chunk) {
    const auto at = tile.coordinates(rows, head_group, chunk);
    const auto shared = walk(tile.map, at, tile.layout.box_offset(0, chunk));
    for (int32_t i = 0; i < tile.tile_rows; ++i) {
      const int64_t row = rows.first + i / tile.group;
      const int32_t head = head_group * tile.group + i % tile.group;
      for (int32_t column = chunk * tile.layout.chunk; column < (chunk + 1) * tile.layout.chunk;
           ++column) {
        const Landed& landed = shared.at(tile.layout.offset(i, column));
        const bool exists = row >= 0 && row < rows.length && column < plane.head_size;
        ASSERT_EQ(landed.in_bounds, exists)
            << "start " << rows.start << " n " << rows.length << " row " << row;
        if (exists) {
          ASSERT_EQ(landed.address, address(plane, 0, rows.start + row, head, column));
        }
      }
    }
  }
}

TEST(RaggedTile, has_the_listed_rows) {
  struct Listed {
    int64_t start, n;
    int32_t head, chunk;
    int rows;
    uint64_t element;
  };
  const tma::PlaneGeometry plane = rows_of(DType::bf16, 200, 8, 128);
  const RaggedTMA3DTile tile = tma::ragged_tile(plane, {.swizzle = tma::Swizzle::b128, .rows = 64});
  ASSERT_TRUE(tile.check().is_ok()) << tile.check().message();
  for (const Listed& c : {Listed{0, 1, 0, 0, 1, 0},
                          {0, 64, 7, 1, 64, 960},
                          {100, 17, 3, 0, 17, 102784},
                          {5, 0, 0, 0, 0, 5120}}) {
    const auto shared = walk(tile.map, tile.coordinates({c.start, c.n, 0}, c.head, c.chunk));
    int rows = 0;
    for (int32_t row = 0; row < 64; ++row)
      rows += shared.at(tile.layout.offset(row, 0)).in_bounds ? 1 : 0;
    EXPECT_EQ(rows, c.rows);
    EXPECT_EQ(shared.at(0).address, plane.base + 2 * c.element) << "modulo 2^64";
  }
}
TEST(RaggedTile, begins_at_the_tensor_itself) {
  for (const DType dtype : {DType::bf16, DType::f32, DType::f8_e4m3}) {
    const tma::PlaneGeometry plane = rows_of(dtype, 50, 2, 64);
    const RaggedTMA3DTile tile =
        tma::ragged_tile(plane, {.swizzle = tma::Swizzle::b128, .rows = 16});
    EXPECT_TRUE(tile.check().is_ok());
    EXPECT_EQ(tile.map.base, plane.base);
  }
}
TEST(RaggedTile, clips_at_both_ends_wherever_the_sequence_lies) {
  const tma::PlaneGeometry plane = rows_of(DType::bf16, 23, 2, 16);
  const RaggedTMA3DTile tile = tma::ragged_tile(plane, {.swizzle = tma::Swizzle::b32, .rows = 8});
  ASSERT_TRUE(tile.check().is_ok()) << tile.check().message();
  int clipped_in_front = 0;
  for (int64_t start = 0; start <= 23; ++start) {
    for (int64_t n = 0; start + n <= 23; ++n) {
      for (int64_t first = -9; first <= n + 9; ++first) {
        const tma::RaggedRows rows{start, n, first};
        const bool crosses_both = first < 0 && first + 8 > 0 && first + 8 > n;
        ASSERT_EQ(tile.clips_in_one_copy(rows), !crosses_both);
        if (crosses_both) continue;
        clipped_in_front += first < 0 ? 1 : 0;
        expect_clipped(plane, tile, rows, 1);
      }
    }
  }
  EXPECT_GT(clipped_in_front, 100);
}
TEST(RaggedTile, of_one_row_clips_everywhere) {
  const tma::PlaneGeometry plane = rows_of(DType::bf16, 11, 1, 64);
  const RaggedTMA3DTile tile = tma::ragged_tile(plane, {.swizzle = tma::Swizzle::b128, .rows = 1});
  for (int64_t n = 0; n <= 6; ++n) {
    for (int64_t first = -3; first < 9; ++first) expect_clipped(plane, tile, {5, n, first}, 0);
  }
}
TEST(RaggedTile, holds_the_heads_of_a_group) {
  for (const int32_t group : {1, 2, 4, 8}) {
    const tma::PlaneGeometry plane = rows_of(DType::bf16, 40, 8, 72);
    const RaggedTMA3DTile tile =
        tma::ragged_tile(plane, {.swizzle = tma::Swizzle::b128, .rows = 32}, group);
    ASSERT_TRUE(tile.check().is_ok()) << tile.check().message();
    EXPECT_EQ(tile.sequence_rows(), 32 / group);
    EXPECT_EQ(tile.map.transaction_bytes(), 32 * 64 * 2);
    for (int32_t head_group = 0; head_group < 8 / group; ++head_group) {
      for (const int64_t n : {0, 3, 17}) {
        for (const int64_t first : {-32, 0, 2, 16})
          expect_clipped(plane, tile, {20, n, first}, head_group);
      }
    }
  }
}
TEST(RaggedTile, reaches_the_last_row_of_a_large_tensor) {
  std::mt19937 rng(7);
  const tma::PlaneGeometry plane = rows_of(DType::bf16, tma::max_coordinate - 1, 2, 64);
  const RaggedTMA3DTile tile = tma::ragged_tile(plane, {.swizzle = tma::Swizzle::b128, .rows = 4});
  ASSERT_TRUE(tile.check().is_ok()) << tile.check().message();
  for (int i = 0; i < 50; ++i) {
    const int64_t start = static_cast<int64_t>(rng() % (tma::max_coordinate - 1)),
                  n = tma::max_coordinate - 1 - start;
    for (const int64_t first : {int64_t{0}, n / 2, n - 1, n, n + 5})
      expect_clipped(plane, tile, {start, n, first}, 1);
    if (n >= 2) expect_clipped(plane, tile, {start, n, -2}, 1);
  }
  EXPECT_FALSE(tma::ragged_tile(rows_of(DType::bf16, tma::max_coordinate, 2, 64),
                                {.swizzle = tma::Swizzle::b128, .rows = 4})
                   .check()
                   .is_ok());
}
TEST(RaggedTile, never_reads_behind_the_tensor) {
  const tma::PlaneGeometry plane = rows_of(DType::bf16, 20, 1, 64);
  const RaggedTMA3DTile tile = tma::ragged_tile(plane, {.swizzle = tma::Swizzle::b128, .rows = 8});
  for (const tma::RaggedRows& rows :
       {tma::RaggedRows{15, 6, 0}, tma::RaggedRows{20, 1, 0}, tma::RaggedRows{15, 8, 0}}) {
    for (const auto& [byte, landed] : walk(tile.map, tile.coordinates(rows, 0, 0)))
      EXPECT_FALSE(landed.in_bounds) << rows.start;
  }
}
TEST(RaggedTile, ends_the_valid_rows_of_a_page) {
  const tma::PlaneGeometry plane = plane_of({.num_heads = 1, .page_size = 16, .num_pages = 4});
  const RaggedTMA3DTile tile = tma::ragged_tile(plane, {.swizzle = tma::Swizzle::b128, .rows = 64});
  ASSERT_TRUE(tile.check().is_ok());
  EXPECT_EQ(tile.sequence_rows(), 16) << "a copy stays in its page";
  for (int64_t page = 0; page < 4; ++page) {
    for (int64_t valid = 0; valid <= 16; ++valid) {
      const auto shared =
          walk(tile.map, tile.coordinates({page * plane.row_stride(), valid, 0}, 0, 1));
      for (int32_t row = 0; row < 16; ++row) {
        const Landed& landed = shared.at(swizzle(tma::Swizzle::b128, row * 128));
        ASSERT_EQ(landed.in_bounds, row < valid);
        if (row < valid) {
          ASSERT_EQ(landed.address, address(plane, page, row, 0, 64));
        }
      }
    }
  }
  for (const auto& [byte, landed] :
       walk(tile.map, tile.coordinates({plane.num_rows(), 16, 0}, 0, 0)))
    EXPECT_FALSE(landed.in_bounds) << "the row of an unassigned page";
}

}  // namespace
}  // namespace folio::test
