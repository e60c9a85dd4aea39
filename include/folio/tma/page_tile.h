// SPDX-License-Identifier: Apache-2.0
/// folio/tma/page_tile.h: tiles whose map knows about pages: the page id is a coordinate.
///
///   dimensions, fastest first   chunk, page_size, chunks, heads, pages
///   coordinates                 0, slot in the page, first chunk, head, page id
///
/// A kernel does no row arithmetic, pages have any size and any distance, and storage is
/// token-major or head-major. A box that hangs over the end of its page is out of bounds there,
/// instead of in another plane; so is the page id of an unassigned entry.
#pragma once

#include <cstdint>

#include "folio/tma/row_tiles.h"
#include "folio/tma/tile.h"

namespace folio::inline v1::tma {

/// Whether a copy brings a page's rows of one chunk or of all.
enum class ChunksPerCopy : uint8_t {
  all = 0,  ///< shared memory: page after page
  /// shared memory: chunk after chunk over all rows of the tile, what one matrix descriptor can
  /// walk
  one = 1,
};

/// The head is a whole number of chunks. `rows` of the tile: pages of the tile, or a part of one
/// page.
FOLIO_HOST_DEVICE constexpr TMATensorTile<5> page_tile(
    const PlaneGeometry& plane, const TileSpec& spec, ChunksPerCopy per_copy = ChunksPerCopy::all) {
  TMATensorTile<5> tile;
  tile.refused = plane_fault(plane);
  if (tile.refused.is_none()) tile.refused = tile_rows_fault(plane, spec.rows);
  if (tile.refused.is_none() && plane.num_pages > max_coordinate)
    tile.refused = {Rule::coordinates, 1, plane.num_pages, 1};
  if (!tile.refused.is_none()) return tile;
  const TileColumns columns = tile_columns(plane, spec);
  tile.refused = columns.fault;
  if (tile.refused.is_none() && columns.depth % columns.chunk != 0)
    tile.refused = {Rule::tile_columns, 1, columns.depth, columns.chunk};
  if (!tile.refused.is_none()) return tile;

  const bool all = per_copy == ChunksPerCopy::all;
  const int32_t box_rows = plane.box_rows(spec.rows);
  const int32_t chunks = columns.columns / columns.chunk;
  tile.layout =
      tile_layout(plane.dtype, spec.swizzle, spec.rows, columns.columns, all ? box_rows : 0);
  const int64_t chunk_bytes = tile.layout.chunk_bytes();
  // from one copy's destination to the next
  const int64_t step = box_rows * chunk_bytes * (all ? chunks : 1);
  const bool one_copy = box_rows == spec.rows && (all || chunks == 1);
  if (!one_copy && step % 128 != 0) tile.refused = {Rule::box_destination, 0, step, 128};
  tile.map = plane_map(plane, spec, columns, 5);
  tile.map.dim[0] = columns.chunk;
  set_dim(tile.map, 1, plane.page_size, plane.slot_stride_bytes, box_rows);
  set_dim(tile.map, 2, columns.depth / columns.chunk, chunk_bytes, all ? chunks : 1);
  set_dim(tile.map, 3, plane.num_heads, head_stride(plane), 1);
  // A plane of one page has no next one: any legal stride.
  set_dim(tile.map, 4, plane.num_pages,
          plane.num_pages > 1 ? plane.page_stride_bytes : plane.slot_stride_bytes, 1);
  tile.tile_shape = {{spec.rows / box_rows, 1, chunks, box_rows, columns.chunk}};
  tile.box_shape = {{1, 1, tile.map.box[2], box_rows, columns.chunk}};
  return tile;
}

}  // namespace folio::inline v1::tma
