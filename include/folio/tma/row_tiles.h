// SPDX-License-Identifier: Apache-2.0
/// folio/tma/row_tiles.h: tiles of a plane seen as a matrix of rows: create_tma_tile, its folded
/// forms, rope and scales.
///
///   map             rank   dimensions, fastest first           coordinates
///   cache_tile      3      depth, heads, rows                  first column, head, row
///   folded_tile     4      chunk, rows, chunks, heads          0, row, first chunk, head
///   row_major_tile  5      chunk, 8, chunks, rows / 8, heads   0, 0, first chunk, row / 8, head
///   scale_tile      2      scales, 1                           first scale, 0
///
/// Rows are those of `populate`, `row_idx` and `get_tma_row`: slot o of page p is row p * S + o.
/// Between two pages of a plane lie rows of other planes; a box must not leave its page, which is
/// why a tile of several pages is copied page by page. Columns at or past `depth`, heads past the
/// last and rows past num_rows() are out of bounds.
#pragma once

#include <cstdint>

#include "folio/tma/tile.h"

namespace folio::inline v1::tma {

/// One copy per page and chunk of columns.
FOLIO_HOST_DEVICE constexpr TMATensorTile<3> cache_tile(const PlaneGeometry& plane,
                                                        const TileSpec& spec) {
  TMATensorTile<3> tile;
  tile.refused = rows_fault(plane);
  if (tile.refused.is_none()) tile.refused = tile_rows_fault(plane, spec.rows);
  if (!tile.refused.is_none()) return tile;
  const TileColumns columns = tile_columns(plane, spec);
  tile.refused = columns.fault;
  if (!tile.refused.is_none()) return tile;
  const int32_t box_rows = plane.box_rows(spec.rows);
  tile.layout = tile_layout(plane.dtype, spec.swizzle, spec.rows, columns.columns);
  if (!tile.layout.takes_boxes_of(box_rows))
    tile.refused = {Rule::box_destination, 0, int64_t{box_rows} * tile.layout.chunk_bytes(), 128};
  tile.map = plane_map(plane, spec, columns, 3);
  set_dim(tile.map, 1, plane.num_heads, head_stride(plane), 1);
  set_dim(tile.map, 2, plane.num_rows(), plane.slot_stride_bytes, box_rows);
  tile.tile_shape = {{spec.rows, 1, columns.columns}};
  tile.box_shape = {{box_rows, 1, columns.chunk}};
  return tile;
}

/// The checks that both folded forms share: whole chunks in the head, at least two in the tile.
FOLIO_HOST_DEVICE constexpr Fault fold_fault(const PlaneGeometry& plane, const TileSpec& spec,
                                             const TileColumns& columns) {
  if (const Fault fault = rows_fault(plane); !fault.is_none()) return fault;
  if (const Fault fault = tile_rows_fault(plane, spec.rows); !fault.is_none()) return fault;
  if (!columns.fault.is_none()) return columns.fault;
  // A chunk that hung over the head's end would bring the next head's columns.
  if (columns.depth % columns.chunk != 0)
    return {Rule::tile_columns, 1, columns.depth, columns.chunk};
  return {};
}

/// One copy per page brings all chunks. Shared memory: page after page, each chunk after chunk; a
/// tile within one page has the same layout as cache_tile's.
FOLIO_HOST_DEVICE constexpr TMATensorTile<4> folded_tile(const PlaneGeometry& plane,
                                                         const TileSpec& spec) {
  TMATensorTile<4> tile;
  tile.refused = plane_fault(plane);
  if (!tile.refused.is_none()) return tile;
  const TileColumns columns = tile_columns(plane, spec);
  tile.refused = fold_fault(plane, spec, columns);
  if (!tile.refused.is_none()) return tile;
  const int32_t box_rows = plane.box_rows(spec.rows);
  const int32_t chunks = columns.columns / columns.chunk;
  tile.layout = tile_layout(plane.dtype, spec.swizzle, spec.rows, columns.columns, box_rows);
  const int64_t chunk_bytes = tile.layout.chunk_bytes();
  const int64_t step = box_rows * chunk_bytes * chunks;  // from one copy's destination to the next
  if (box_rows != spec.rows && step % 128 != 0)
    tile.refused = {Rule::box_destination, 0, step, 128};
  tile.map = plane_map(plane, spec, columns, 4);
  tile.map.dim[0] = columns.chunk;
  set_dim(tile.map, 1, plane.num_rows(), plane.slot_stride_bytes, box_rows);
  set_dim(tile.map, 2, columns.depth / columns.chunk, chunk_bytes, chunks);
  set_dim(tile.map, 3, plane.num_heads, head_stride(plane), 1);
  tile.tile_shape = {{1, chunks, spec.rows, columns.chunk}};
  tile.box_shape = {{1, chunks, box_rows, columns.chunk}};
  return tile;
}

/// One copy per page brings all chunks as atoms of eight rows, the order in which matrix
/// instructions walk a row-major operand. Pages hold whole atoms.
FOLIO_HOST_DEVICE constexpr TMATensorTile<5> row_major_tile(const PlaneGeometry& plane,
                                                            const TileSpec& spec) {
  TMATensorTile<5> tile;
  tile.refused = plane_fault(plane);
  if (!tile.refused.is_none()) return tile;
  const TileColumns columns = tile_columns(plane, spec);
  tile.refused = fold_fault(plane, spec, columns);
  if (!tile.refused.is_none()) return tile;
  const int32_t box_rows = plane.box_rows(spec.rows);
  const int64_t must_be_atoms[3] = {box_rows, plane.page_size,
                                    plane.num_pages > 1 ? plane.row_stride() : 8};
  for (const int64_t rows : must_be_atoms) {
    if (rows % 8 != 0) tile.refused = {Rule::tile_rows, 1, rows, 8};
  }
  if (!tile.refused.is_none()) return tile;
  const int32_t chunks = columns.columns / columns.chunk;
  tile.layout = tile_layout(plane.dtype, spec.swizzle, spec.rows, columns.columns, 8);
  const int64_t chunk_bytes = tile.layout.chunk_bytes();
  tile.map = plane_map(plane, spec, columns, 5);
  tile.map.dim[0] = columns.chunk;
  set_dim(tile.map, 1, 8, plane.slot_stride_bytes, 8);
  set_dim(tile.map, 2, columns.depth / columns.chunk, chunk_bytes, chunks);
  set_dim(tile.map, 3, plane.num_rows() / 8, 8 * plane.slot_stride_bytes, box_rows / 8);
  set_dim(tile.map, 4, plane.num_heads, head_stride(plane), 1);
  tile.tile_shape = {{1, spec.rows / 8, chunks, 8, columns.chunk}};
  tile.box_shape = {{1, box_rows / 8, chunks, 8, columns.chunk}};
  return tile;
}

/// Heads that hold `padded_depth` bytes of content, then `columns` bf16 elements of rope (SnapMLA:
/// 512 + 64 * 2 = 640 bytes).
struct RopeSpec {
  Swizzle swizzle = Swizzle::none;
  int32_t rows = 0;
  int32_t columns = 0;       ///< bf16 elements
  int32_t padded_depth = 0;  ///< bytes
  L2Promotion l2_promotion = L2Promotion::none;
};

/// The rope part of a plane as a plane of bf16; its head size is 0 where the parts do not add up to
/// the head.
FOLIO_HOST_DEVICE constexpr PlaneGeometry rope_plane(const PlaneGeometry& plane,
                                                     int32_t padded_depth, int32_t columns) {
  const int64_t head_bytes = int64_t{plane.head_size} * plane.element_bytes();
  PlaneGeometry rope = plane;
  rope.base += static_cast<uint64_t>(padded_depth);
  rope.dtype = DType::bf16;
  rope.head_size =
      padded_depth >= 0 && columns >= 1 && padded_depth + int64_t{columns} * 2 == head_bytes
          ? columns
          : 0;
  return rope;
}

/// Why the plane has no rope part of `columns` behind `padded_depth` bytes.
FOLIO_HOST_DEVICE constexpr Fault rope_fault(const PlaneGeometry& plane, int32_t padded_depth,
                                             int32_t columns) {
  if (const Fault fault = rows_fault(plane); !fault.is_none()) return fault;
  if (rope_plane(plane, padded_depth, columns).head_size != 0) return {};
  return {Rule::row_pitch, 0, padded_depth + int64_t{columns} * 2,
          int64_t{plane.head_size} * plane.element_bytes()};
}

/// The rope columns, as cache_tile.
FOLIO_HOST_DEVICE constexpr TMATensorTile<3> rope_tile(const PlaneGeometry& plane,
                                                       const RopeSpec& spec) {
  TMATensorTile<3> tile;
  tile.refused = rope_fault(plane, spec.padded_depth, spec.columns);
  if (!tile.refused.is_none()) return tile;
  const PlaneGeometry rope = rope_plane(plane, spec.padded_depth, spec.columns);
  return cache_tile(rope, {spec.swizzle, spec.rows, spec.columns, 0, 0, spec.l2_promotion});
}

/// `total` consecutive scales, `tile_scales` of them per copy, from any scale on.
FOLIO_HOST_DEVICE constexpr TMATensorTile<2> scale_tile(uint64_t base, DType dtype, int64_t total,
                                                        int32_t tile_scales) {
  TMATensorTile<2> tile;
  const DataType type = data_type_of(dtype);
  if (type == DataType::invalid)
    tile.refused = {Rule::cache_dtype, 0, static_cast<int64_t>(dtype), 0};
  if (total > max_coordinate) tile.refused = {Rule::coordinates, 1, total, 1};
  if (total < 1) tile.refused = {Rule::extent, 6, total, 1};
  if (!tile.refused.is_none()) return tile;
  const int32_t bytes = element_bytes(type);
  tile.map.base = base;
  tile.map.rank = 2;
  tile.map.dtype = type;
  set_dim(tile.map, 0, total, bytes, tile_scales);
  // The stride of the only row is never used; rounding it up serves any number of scales.
  set_dim(tile.map, 1, 1, (total * bytes + 15) / 16 * 16, 1);
  tile.tile_shape = {{1, tile_scales}};
  tile.box_shape = tile.tile_shape;
  tile.layout = {1, tile_scales, tile_scales, bytes, Swizzle::none, 1};
  return tile;
}

}  // namespace folio::inline v1::tma
