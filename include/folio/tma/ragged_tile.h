// SPDX-License-Identifier: Apache-2.0
/// folio/tma/ragged_tile.h: tiles of one sequence among many in a row-ragged tensor, clipped where
/// the sequence ends.
///
/// The rows of all sequences follow one another, [rows, heads, depth], and one map serves them all.
/// A copy of BM rows that reaches past its sequence must not bring, and above all not overwrite,
/// the rows of the next one. The number of rows is known at run time only, the map is made before:
/// so the *row* dimension has a fixed extent E, the coordinate is chosen so that the sequence ends
/// where the dimension does, and two further dimensions bring the address back to where the
/// sequence lies:
///
///   dimension      extent      stride (bytes)    a tile that begins at row `first` of a sequence
///                                                of n rows, itself at row `start`
///   column         depth       element           first >= 0                         first < 0
///   head           heads       head_stride       head                               head
///   row            E = 2^30    s                 E - n' + first                     first
///   sequence       rows + 1    s                 start + n'                         start
///   back           2^30 + 1    2^34 - s          2^30                               0
///                                                n' = min(n, first + BM)
///
///   first >= 0:  (E - n' + first + r) * s + (start + n') * s + 2^30 * (2^34 - s) = (start + first
///                + r) * s + 2^64
///
/// Box row r is then row first + r of the sequence, in bounds exactly for first + r < n. With first
/// < 0 it is in bounds exactly for first + r >= 0. The base is the tensor's own, so no memory in
/// front of it is needed; coordinates are never used with strides that lead out of it, because an
/// out-of-bounds coordinate makes no access and start + n' <= rows is itself a bound of the map.
///
/// A box is in bounds for one range of rows whose length the map fixes, so no single copy clips a
/// range shorter than the box at both ends: a tile that begins before its sequence must end in it
/// (`clips_in_one_copy`). Tiles aligned to either end of the sequence always qualify, and so does
/// any tile of one row.
///
/// Source: the return of the address through 2^64 is that of Triton's ragged descriptors; the
/// seeds' RaggedTMA3DTile moves the base back by BM rows instead and reads that memory's page
/// tables.
#pragma once

#include <cstdint>

#include "folio/tma/row_tiles.h"
#include "folio/tma/tile.h"

namespace folio::inline v1 {

namespace tma {

/// Which rows a copy is to bring or to take, as numbers of the ragged tensor.
struct RaggedRows {
  int64_t start = 0;   ///< row of the tensor where the sequence begins
  int64_t length = 0;  ///< rows of the sequence, n
  int64_t first = 0;   ///< row of the sequence where the tile begins; may be negative
};

}  // namespace tma

struct RaggedTMA3DTile {
  /// Extent of the row dimension: more than any tile, and 2^30 * 2^34 = 2^64.
  static constexpr int64_t row_extent = int64_t{1} << 30;

  tma::TensorMap map = {};
  tma::TileLayout layout = {};  ///< row index: sequence row * group + head of the group
  int32_t tile_rows = 0;        ///< BM: sequence rows times group
  int32_t tile_columns = 0;     ///< BN
  int32_t group = 1;            ///< adjacent heads that a tile holds
  tma::Fault refused = {};

  FOLIO_HOST_DEVICE constexpr tma::Fault fault() const {
    return refused.is_none() ? map.fault() : refused;
  }
  [[nodiscard]] Status check(const char* function = "RaggedTMA3DTile") const noexcept {
    return describe(function, fault());
  }

  /// Where a copy begins whose first `length` rows are those from row `start` of the tensor on, and
  /// whose other rows are out of bounds. length <= rows of a copy, start + length <= rows of the
  /// tensor.
  FOLIO_HOST_DEVICE static constexpr tma::Coordinates<5> clipped(int64_t start, int32_t length,
                                                                 int32_t head, int32_t column) {
    return {{column, head, static_cast<int32_t>(row_extent) - length,
             static_cast<int32_t>(start) + length, static_cast<int32_t>(row_extent)}};
  }
  /// Rows of a sequence in one copy, BM / group.
  FOLIO_HOST_DEVICE constexpr int32_t sequence_rows() const { return map.box[2]; }
  FOLIO_HOST_DEVICE constexpr bool clips_in_one_copy(const tma::RaggedRows& rows) const {
    return rows.first >= 0 || rows.first + sequence_rows() <= rows.length ||
           rows.first + sequence_rows() <= 0;
  }
  /// Where the copy of chunk `chunk` of heads [head_group * group, + group) begins. Requires
  /// clips_in_one_copy and 0 <= start, start + length <= rows of the tensor.
  FOLIO_HOST_DEVICE constexpr tma::Coordinates<5> coordinates(const tma::RaggedRows& rows,
                                                              int32_t head_group,
                                                              int32_t chunk) const {
    const int32_t column = chunk * map.box[0];
    const int32_t head = head_group * group;
    if (rows.first < 0) {
      const int64_t first = rows.first < -row_extent ? -row_extent : rows.first;
      return {{column, head, static_cast<int32_t>(first), static_cast<int32_t>(rows.start), 0}};
    }
    const int64_t end = rows.first + sequence_rows();
    int64_t length = rows.length < end ? rows.length : end;  // rows past the tile need no clipping
    if (length < 0) length = 0;
    // a tile behind the sequence begins at the extent
    const int64_t past = rows.first < length ? rows.first : length;
    return {{column, head, static_cast<int32_t>(row_extent - length + past),
             static_cast<int32_t>(rows.start + length), static_cast<int32_t>(row_extent)}};
  }

  /// The device side, as TMATensorTile's: all columns of the tile, rows outside of the sequence as
  /// zero. Requires clips_in_one_copy.
  template <class Machine>
  FOLIO_DEVICE_FUNCTION void async_copy(Machine& t, const typename Machine::TileMap& tensor_map,
                                        uint32_t to, SharedMemBarrier barrier,
                                        const tma::RaggedRows& rows, int32_t head_group) const {
    for (int32_t chunk = 0; chunk < layout.num_chunks(); ++chunk)
      t.template copy_tile<5>(tensor_map, coordinates(rows, head_group, chunk),
                              to + static_cast<uint32_t>(layout.box_offset(0, chunk)),
                              barrier.address);
  }
  /// The way back: rows outside of the sequence are not written.
  template <class Machine>
  FOLIO_DEVICE_FUNCTION void async_store(Machine& t, const typename Machine::TileMap& tensor_map,
                                         uint32_t from, const tma::RaggedRows& rows,
                                         int32_t head_group) const {
    for (int32_t chunk = 0; chunk < layout.num_chunks(); ++chunk)
      t.template store_tile<5>(tensor_map, coordinates(rows, head_group, chunk),
                               from + static_cast<uint32_t>(layout.box_offset(0, chunk)));
  }
  /// Bytes that async_copy reports to its barrier.
  FOLIO_HOST_DEVICE constexpr uint32_t copied_bytes() const {
    return static_cast<uint32_t>(layout.bytes());
  }
  bool operator==(const RaggedTMA3DTile&) const = default;
};

namespace tma {

/// A tile of spec.rows rows, each a head of a row of a sequence: spec.rows / group rows of a
/// sequence by `group` adjacent heads. The plane's rows are those of create_tma_tile; in a paged
/// plane the tile is clipped within its page.
FOLIO_HOST_DEVICE constexpr RaggedTMA3DTile ragged_tile(const PlaneGeometry& plane,
                                                        const TileSpec& spec, int32_t group = 1) {
  RaggedTMA3DTile tile;
  tile.refused = rows_fault(plane);
  if (!tile.refused.is_none()) return tile;
  if (group < 1 || spec.rows % group != 0) tile.refused = {Rule::group, 1, spec.rows, group};
  if (group < 1 || plane.num_heads % group != 0)
    tile.refused = {Rule::group, 2, plane.num_heads, group};
  if (tile.refused.is_none()) tile.refused = tile_rows_fault(plane, spec.rows / group);
  if (!tile.refused.is_none()) return tile;
  const TileColumns columns = tile_columns(plane, spec);
  tile.refused = columns.fault;
  if (tile.refused.is_none() && plane.num_rows() == max_coordinate)
    tile.refused = {Rule::coordinates, 0, 1, plane.num_rows()};
  if (tile.refused.is_none() && plane.slot_stride_bytes >= int64_t{1} << 34)
    tile.refused = {Rule::stride_limit, 2, plane.slot_stride_bytes, (int64_t{1} << 34) - 1};
  if (!tile.refused.is_none()) return tile;

  const int32_t box_rows = plane.box_rows(spec.rows / group);
  const int64_t s = plane.slot_stride_bytes;
  tile.layout = tile_layout(plane.dtype, spec.swizzle, spec.rows, columns.columns);
  if (!tile.layout.takes_boxes_of(box_rows * group))
    tile.refused = {Rule::box_destination, 0, int64_t{box_rows} * group * tile.layout.chunk_bytes(),
                    128};
  tile.map = plane_map(plane, spec, columns, 5);
  set_dim(tile.map, 1, plane.num_heads, head_stride(plane), group);
  set_dim(tile.map, 2, RaggedTMA3DTile::row_extent, s, box_rows);
  set_dim(tile.map, 3, plane.num_rows() + 1, s, 1);
  set_dim(tile.map, 4, RaggedTMA3DTile::row_extent + 1, (int64_t{1} << 34) - s, 1);
  tile.tile_rows = spec.rows;
  tile.tile_columns = columns.columns;
  tile.group = group;
  return tile;
}

}  // namespace tma
}  // namespace folio::inline v1
