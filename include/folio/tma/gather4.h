// SPDX-License-Identifier: Apache-2.0
/// folio/tma/gather4.h: four rows per copy, each at a coordinate of its own: sparse attention over
/// cached rows (sm_100 and later).
///
///   dimensions, fastest first   columns of a row, rows
///   coordinates                 first column, row, row, row, row
///
/// Row coordinates are get_tma_row's: -1 and num_rows() are out of bounds and read as zero. The
/// columns of a tile are cut into groups one box wide; what the last group holds past tile_width is
/// out of bounds too, even where the row goes on.
#pragma once

#include <cstdint>

#include "folio/tma/row_tiles.h"
#include "folio/tma/tile.h"

namespace folio::inline v1::tma {

struct Gather4Spec {
  int32_t tile_height = 4;  ///< rows of the tile, a multiple of 4
  int32_t tile_width = 0;   ///< columns, in elements of the map
  int32_t tile_stride = 0;  ///< elements of a whole row, all heads; 0: tile_width
  Swizzle swizzle = Swizzle::none;
  /// invalid: the cache's; another type sees the row's bytes as its elements
  DataType tma_dtype = DataType::invalid;
  L2Promotion l2_promotion = L2Promotion::none;
};

/// Without a swizzle a box is as wide as the tile: shared memory is then a plain matrix. With one
/// it is the swizzle's span.
FOLIO_HOST_DEVICE constexpr int32_t gather4_box_width(DataType dtype, int32_t width, Swizzle mode) {
  if (mode == Swizzle::none || element_bytes(dtype) == 0) return width;
  return swizzle_bytes(mode) / element_bytes(dtype);
}
/// Boxes side by side.
FOLIO_HOST_DEVICE constexpr int32_t gather4_num_col_groups(DataType dtype, int32_t width,
                                                           Swizzle mode) {
  const int32_t box = gather4_box_width(dtype, width, mode);
  return box < 1 ? 0 : (width + box - 1) / box;
}

/// Rows of the plane by fours. The layout covers all column groups; tile_shape is that of one, as
/// in the seeds.
FOLIO_HOST_DEVICE constexpr TMATensorTile<2> gather4_tile(const PlaneGeometry& plane,
                                                          const Gather4Spec& spec) {
  TMATensorTile<2> tile;
  tile.refused = rows_fault(plane);
  if (!tile.refused.is_none()) return tile;
  const DataType type =
      spec.tma_dtype == DataType::invalid ? data_type_of(plane.dtype) : spec.tma_dtype;
  const int32_t bytes = element_bytes(type);
  const int64_t stride = spec.tile_stride != 0 ? spec.tile_stride : spec.tile_width;
  if (bytes == 0)
    tile.refused = {Rule::dtype, 0, static_cast<int64_t>(type),
                    static_cast<int64_t>(DataType::tf32_ftz)};
  if (spec.tile_width < 1) tile.refused = {Rule::extent, 7, spec.tile_width, 1};
  if (spec.tile_height < 4 || spec.tile_height % 4 != 0)
    tile.refused = {Rule::group, 0, spec.tile_height, 4};
  if (!tile.refused.is_none()) return tile;
  if (stride < spec.tile_width) tile.refused = {Rule::depth, 2, spec.tile_width, stride};
  if (stride * bytes != plane.slot_stride_bytes)
    tile.refused = {Rule::row_pitch, 1, stride * bytes, plane.slot_stride_bytes};
  if (!tile.refused.is_none()) return tile;

  const int32_t box = gather4_box_width(type, spec.tile_width, spec.swizzle);
  const int32_t groups = gather4_num_col_groups(type, spec.tile_width, spec.swizzle);
  tile.layout = {spec.tile_height, groups * box, box, bytes, spec.swizzle, spec.tile_height};
  if (!tile.layout.takes_boxes_of(4))
    tile.refused = {Rule::box_destination, 0, 4 * tile.layout.chunk_bytes(), 128};
  tile.map.base = plane.base;
  tile.map.rank = 2;
  tile.map.dtype = type;
  tile.map.swizzle = spec.swizzle;
  tile.map.l2_promotion = spec.l2_promotion;
  tile.map.use = Use::gather4;
  set_dim(tile.map, 0, spec.tile_width, bytes, box);
  set_dim(tile.map, 1, plane.num_rows(), plane.slot_stride_bytes, 1);
  tile.tile_shape = {{spec.tile_height, box}};
  tile.box_shape = {{1, box}};
  return tile;
}

struct RopeGather4Spec {
  int32_t tile_height = 4;
  int32_t tile_width = 0;    ///< bf16 elements of rope
  int32_t padded_depth = 0;  ///< bytes of content in front of them
  Swizzle swizzle = Swizzle::none;
  L2Promotion l2_promotion = L2Promotion::none;
};

/// The rope part of rows of one head. The pitch is the whole row, (padded_depth + 2 * tile_width) /
/// 2 elements.
FOLIO_HOST_DEVICE constexpr TMATensorTile<2> rope_gather4_tile(const PlaneGeometry& plane,
                                                               const RopeGather4Spec& spec) {
  TMATensorTile<2> tile;
  tile.refused = rope_fault(plane, spec.padded_depth, spec.tile_width);
  if (!tile.refused.is_none()) return tile;
  const PlaneGeometry rope = rope_plane(plane, spec.padded_depth, spec.tile_width);
  const auto pitch = static_cast<int32_t>((spec.padded_depth + int64_t{spec.tile_width} * 2) / 2);
  return gather4_tile(rope, {spec.tile_height, spec.tile_width, pitch, spec.swizzle, DataType::bf16,
                             spec.l2_promotion});
}

}  // namespace folio::inline v1::tma
