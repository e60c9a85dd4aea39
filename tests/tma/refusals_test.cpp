// SPDX-License-Identifier: Apache-2.0
/// tests/tma/refusals_test.cpp: what cannot be described is refused, and the message says what came
/// and what is allowed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "folio/tma/gather4.h"
#include "folio/tma/page_tile.h"
#include "folio/tma/ragged_tile.h"
#include "folio/tma/row_tiles.h"
#include "tma/planes.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

template <class Tile>
void expect_refused(const Tile& tile, tma::Rule rule, const char* message) {
  EXPECT_EQ(tile.fault().rule, rule) << message;
  const Status status = tile.check("create");
  EXPECT_EQ(status.code(), Errc::invalid_argument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(std::string("create: ") + message));
}
tma::TileSpec spec(int32_t rows) { return {.swizzle = tma::Swizzle::b128, .rows = rows}; }
tma::PlaneGeometry changed(void (*change)(tma::PlaneGeometry&)) {
  tma::PlaneGeometry plane = plane_of({});
  change(plane);
  return plane;
}

TEST(Plane, without_a_tma_type_is_refused) {
  for (const DType dtype : {DType::f4_e2m1, DType::i4, DType::invalid}) {
    tma::PlaneGeometry plane = plane_of({});
    plane.dtype = dtype;
    const std::string message =
        std::string("elements of type ") + name(dtype) + " have no TMA type";
    expect_refused(tma::cache_tile(plane, spec(16)), tma::Rule::cache_dtype, message.c_str());
    expect_refused(tma::page_tile(plane, spec(16)), tma::Rule::cache_dtype, message.c_str());
    expect_refused(tma::ragged_tile(plane, spec(16)), tma::Rule::cache_dtype, message.c_str());
    expect_refused(tma::folded_tile(plane, spec(16)), tma::Rule::cache_dtype, message.c_str());
    expect_refused(tma::row_major_tile(plane, spec(16)), tma::Rule::cache_dtype, message.c_str());
    expect_refused(tma::gather4_tile(plane, {.tile_width = 64}), tma::Rule::cache_dtype,
                   message.c_str());
    expect_refused(tma::rope_tile(plane, {}), tma::Rule::cache_dtype, message.c_str());
    expect_refused(tma::scale_tile(storage, dtype, 64, 64), tma::Rule::cache_dtype,
                   message.c_str());
  }
}
TEST(Plane, without_extent_is_refused) {
  const auto refused = [](void (*change)(tma::PlaneGeometry&), const char* message) {
    expect_refused(tma::cache_tile(changed(change), spec(16)), tma::Rule::extent, message);
    expect_refused(tma::page_tile(changed(change), spec(16)), tma::Rule::extent, message);
  };
  refused([](tma::PlaneGeometry& p) { p.num_heads = 0; }, "num_heads is 0, expected at least 1");
  refused([](tma::PlaneGeometry& p) { p.head_size = 0; }, "head_size is 0, expected at least 1");
  refused([](tma::PlaneGeometry& p) { p.num_pages = 0; }, "num_pages is 0, expected at least 1");
  refused([](tma::PlaneGeometry& p) { p.page_size = -1; }, "page_size is -1, expected at least 1");
  refused([](tma::PlaneGeometry& p) { p.slot_stride_bytes = 0; },
          "slot_stride_bytes is 0, expected at least 1");
  expect_refused(tma::cache_tile(plane_of({}), spec(0)), tma::Rule::extent,
                 "tile rows is 0, expected at least 1");
  expect_refused(tma::scale_tile(storage, DType::f32, 0, 64), tma::Rule::extent,
                 "number of scales is 0, expected at least 1");
}
TEST(Plane, of_more_rows_than_coordinates_is_refused) {
  // S = 2048
  tma::PlaneGeometry plane =
      plane_of({.page_size = 16, .num_pages = int64_t{1} << 20, .num_layers = 64});
  const char* message =
      "1048576 pages, 2048 rows apart, do not fit TMA's 32-bit coordinates; expected a product of "
      "at most 2147483647";
  expect_refused(tma::cache_tile(plane, spec(16)), tma::Rule::coordinates, message);
  expect_refused(tma::gather4_tile(plane, {.tile_width = 256, .swizzle = tma::Swizzle::b128}),
                 tma::Rule::coordinates, message);
  expect_refused(tma::ragged_tile(plane, spec(16)), tma::Rule::coordinates, message);
  EXPECT_TRUE(tma::page_tile(plane, spec(16)).check().is_ok()) << "page ids are smaller than rows";
  --plane.num_pages;
  EXPECT_TRUE(tma::cache_tile(plane, spec(16)).check().is_ok());
  expect_refused(tma::scale_tile(storage, DType::f32, int64_t{1} << 31, 64), tma::Rule::coordinates,
                 "1 pages, 2147483648 rows apart, do not fit");
}
TEST(Plane, of_pages_between_rows_is_refused) {
  const tma::PlaneGeometry plane =
      changed([](tma::PlaneGeometry& p) { p.page_stride_bytes += 16; });
  expect_refused(tma::cache_tile(plane, spec(16)), tma::Rule::whole_rows,
                 "pages are 49168 bytes apart, expected a multiple of the slot stride, 512");
  tma::PlaneGeometry single = plane;
  single.num_pages = 1;
  EXPECT_TRUE(tma::cache_tile(single, spec(16)).check().is_ok()) << "one page has no next one";
}
TEST(Tile, whose_rows_and_pages_do_not_divide_one_another_is_refused) {
  const tma::PlaneGeometry plane = plane_of({.page_size = 48});
  const char* message = "tile rows 64 and page size 48 do not divide one another";
  expect_refused(tma::cache_tile(plane, spec(64)), tma::Rule::tile_rows, message);
  expect_refused(tma::page_tile(plane, spec(64)), tma::Rule::tile_rows, message);
  expect_refused(tma::folded_tile(plane, spec(64)), tma::Rule::tile_rows, message);
  expect_refused(tma::ragged_tile(plane, spec(64)), tma::Rule::tile_rows, message);
  EXPECT_TRUE(tma::cache_tile(plane, spec(96)).check().is_ok());
  EXPECT_TRUE(tma::cache_tile(plane, spec(24)).check().is_ok());
}
TEST(Tile, of_more_rows_than_a_box_is_refused) {
  expect_refused(tma::cache_tile(plane_of({.page_size = 512}), spec(512)), tma::Rule::box,
                 "box[2] is 512, expected 1 to 256");
  EXPECT_TRUE(tma::cache_tile(plane_of({.page_size = 512}), spec(256)).check().is_ok());
}
TEST(Tile, of_broken_chunks_is_refused) {
  expect_refused(
      tma::cache_tile(plane_of({}), {.swizzle = tma::Swizzle::b128, .rows = 16, .columns = 96}),
      tma::Rule::tile_columns,
      "the tile has 96 columns, expected a multiple of the swizzle chunk, 64");
  const tma::PlaneGeometry plane = plane_of({.head_size = 72});
  const char* message = "the head shows 72 columns, expected a multiple of the swizzle chunk, 64";
  expect_refused(tma::folded_tile(plane, spec(16)), tma::Rule::tile_columns, message);
  expect_refused(tma::page_tile(plane, spec(16)), tma::Rule::tile_columns, message);
  expect_refused(tma::row_major_tile(plane, spec(16)), tma::Rule::tile_columns, message);
}
TEST(Tile, of_columns_outside_the_head_is_refused) {
  const tma::PlaneGeometry plane = plane_of({});
  expect_refused(tma::cache_tile(plane, {.rows = 16, .depth = 136}), tma::Rule::depth,
                 "depth is 136, the head has 128 columns there");
  expect_refused(tma::cache_tile(plane, {.rows = 16, .first_column = 64, .depth = 72}),
                 tma::Rule::depth, "depth is 72, the head has 64 columns there");
  expect_refused(tma::cache_tile(plane, {.rows = 16, .first_column = -8, .depth = 8}),
                 tma::Rule::depth, "first_column is -8, expected 0 to 127");
  expect_refused(tma::cache_tile(plane, {.rows = 16, .first_column = 128}), tma::Rule::depth,
                 "first_column is 128, expected 0 to 127");
  expect_refused(tma::cache_tile(plane, {.rows = 16, .first_column = 4}), tma::Rule::base_alignment,
                 "base is 8 bytes past a multiple of 16");
}
TEST(Tile, whose_copies_begin_between_128_bytes_is_refused) {
  const tma::PlaneGeometry plane = plane_of({.page_size = 1});
  expect_refused(
      tma::cache_tile(plane, {.swizzle = tma::Swizzle::b32, .rows = 16}),
      tma::Rule::box_destination,
      "copies of one tile begin 32 bytes apart in shared memory, expected a multiple of 128");
  expect_refused(
      tma::page_tile(plane, {.swizzle = tma::Swizzle::b32, .rows = 16}, tma::ChunksPerCopy::one),
      tma::Rule::box_destination, "copies of one tile begin 32 bytes apart");
  expect_refused(tma::ragged_tile(plane, {.swizzle = tma::Swizzle::b32, .rows = 16}),
                 tma::Rule::box_destination, "copies of one tile begin 32 bytes apart");
}
TEST(Tile, of_misaligned_storage_is_refused) {
  expect_refused(tma::cache_tile(changed([](tma::PlaneGeometry& p) { p.base += 2; }), spec(16)),
                 tma::Rule::base_alignment, "base is 2 bytes past a multiple of 16");
  expect_refused(tma::cache_tile(changed([](tma::PlaneGeometry& p) { p.base = 0; }), spec(16)),
                 tma::Rule::base_null, "base is null");
  expect_refused(tma::cache_tile(plane_of({.head_size = 20}), {.rows = 16, .columns = 24}),
                 tma::Rule::stride_alignment, "stride_bytes[1] is 40, expected a multiple of 16");
}
TEST(Tile, of_an_unknown_swizzle_is_refused) {
  expect_refused(
      tma::cache_tile(plane_of({}), {.swizzle = static_cast<tma::Swizzle>(200), .rows = 16}),
      tma::Rule::enumerator, "swizzle is 200, expected 0 to 3");
}
TEST(RowMajorTile, of_broken_atoms_is_refused) {
  expect_refused(tma::row_major_tile(plane_of({.page_size = 4}), spec(16)), tma::Rule::tile_rows,
                 "4 rows are no whole atoms, expected a multiple of 8");
  expect_refused(tma::row_major_tile(rows_of(DType::bf16, 44, 2, 128), spec(16)),
                 tma::Rule::tile_rows, "44 rows are no whole atoms, expected a multiple of 8");
  expect_refused(tma::row_major_tile(plane_of({}), spec(4)), tma::Rule::tile_rows,
                 "4 rows are no whole atoms");
}
TEST(RopeTile, that_does_not_fill_its_head_is_refused) {
  const tma::PlaneGeometry plane = plane_of({DType::f8_e4m3, 1, 656, 64, 5, 1, 1});
  const char* message = "the head is described as 640 bytes, it has 656";
  expect_refused(
      tma::rope_tile(
          plane, {.swizzle = tma::Swizzle::b128, .rows = 64, .columns = 64, .padded_depth = 512}),
      tma::Rule::row_pitch, message);
  expect_refused(tma::rope_gather4_tile(
                     plane, {.tile_width = 64, .padded_depth = 512, .swizzle = tma::Swizzle::b128}),
                 tma::Rule::row_pitch, message);
}
TEST(Gather4Tile, of_impossible_rows_is_refused) {
  const tma::PlaneGeometry plane = plane_of({.num_heads = 1, .head_size = 576, .kv = 1});
  expect_refused(tma::gather4_tile(plane, {.tile_width = 512, .swizzle = tma::Swizzle::b128}),
                 tma::Rule::row_pitch, "the row is described as 1024 bytes, it has 1152");
  expect_refused(tma::gather4_tile(
                     plane, {.tile_width = 640, .tile_stride = 576, .swizzle = tma::Swizzle::b128}),
                 tma::Rule::depth, "tile_width is 640, expected at most tile_stride, 576");
  expect_refused(tma::gather4_tile(
                     plane, {.tile_height = 6, .tile_width = 576, .swizzle = tma::Swizzle::b128}),
                 tma::Rule::group, "tile_height is 6, expected a positive multiple of 4");
  expect_refused(tma::gather4_tile(plane, {.tile_width = 0}), tma::Rule::extent,
                 "gather4 tile_width is 0, expected at least 1");
  expect_refused(tma::gather4_tile(plane, {.tile_width = 576}), tma::Rule::box,
                 "box[0] is 576, expected 1 to 256");
  expect_refused(
      tma::gather4_tile(plane, {.tile_width = 144, .tma_dtype = static_cast<tma::DataType>(99)}),
      tma::Rule::dtype, "dtype is 99, which is no TMA type");
  EXPECT_TRUE(tma::gather4_tile(plane, {.tile_width = 144, .tma_dtype = tma::DataType::i64})
                  .check()
                  .is_ok());
}
TEST(RaggedTile, of_broken_groups_is_refused) {
  const tma::PlaneGeometry plane = rows_of(DType::bf16, 40, 6, 128);
  expect_refused(tma::ragged_tile(plane, spec(16), 3), tma::Rule::group,
                 "the tile has 16 rows, expected a multiple of group, 3");
  expect_refused(tma::ragged_tile(plane, spec(16), 4), tma::Rule::group,
                 "the plane has 6 heads, expected a multiple of group, 4");
  expect_refused(tma::ragged_tile(plane, spec(16), 0), tma::Rule::group,
                 "the plane has 6 heads, expected a multiple of group, 0");
}
TEST(RaggedTile, of_rows_wider_than_2_to_34_bytes_is_refused) {
  tma::PlaneGeometry plane = rows_of(DType::bf16, 4, 1, 128);
  plane.slot_stride_bytes = int64_t{1} << 34;
  plane.page_stride_bytes = 4 * plane.slot_stride_bytes;
  expect_refused(tma::ragged_tile(plane, spec(16)), tma::Rule::stride_limit,
                 "stride_bytes[2] is 17179869184");
}
TEST(ScaleTile, of_broken_boxes_is_refused) {
  expect_refused(tma::scale_tile(storage, DType::f16, 100, 12), tma::Rule::box_inner_bytes,
                 "box[0] is 24 bytes");
  expect_refused(tma::scale_tile(storage, DType::f32, 100, 260), tma::Rule::box,
                 "box[0] is 260, expected 1 to 256");
  expect_refused(tma::scale_tile(0, DType::f32, 100, 64), tma::Rule::base_null, "base is null");
}

}  // namespace
}  // namespace folio::test
