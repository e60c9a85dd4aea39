// SPDX-License-Identifier: Apache-2.0
/// folio/tma/tile.h: the plane that tiles are taken from, what is asked of a tile, and the tile's
/// description.
///
/// The functions of tma/ that make descriptions are pure: constexpr, host and device, on numbers
/// alone; addresses are never dereferenced. What cannot be described comes back as a description
/// whose check() says why, and which nothing encodes.
///
/// A tile's async_* members are its device side. Their `Machine` is a thread of a kernel (see
/// barrier.h); one thread calls for a whole tile. `encoded` is the tile's map as the machine reads
/// it: encode(tile) on a GPU, emulator::encode(tile.map) in the emulator. Addresses in shared
/// memory are multiples of layout.alignment(); of what was written there by ordinary stores,
/// t.fence_async() comes between those and a copy.
#pragma once

#include <cstdint>

#include "folio/core/dtype.h"
#include "folio/core/host_device.h"
#include "folio/core/status.h"
#include "folio/tma/barrier.h"
#include "folio/tma/swizzle.h"
#include "folio/tma/tensor_map.h"
#include "folio/tma/tile_layout.h"

namespace folio::inline v1 {
namespace tma {

/// TMA coordinates are signed 32-bit numbers.
inline constexpr int64_t max_coordinate = INT32_MAX;

/// Where the bytes of one plane are; element (page, slot, head, d) at base + page * page_stride +
/// slot * slot_stride + head * head_stride + d * element size. Contiguous keys are one page of all
/// of them.
struct PlaneGeometry {
  uint64_t base = 0;  ///< address
  DType dtype = DType::invalid;
  int32_t num_heads = 0;
  int32_t head_size = 0;
  int64_t num_pages = 0;
  int64_t page_size = 0;  ///< slots
  int64_t page_stride_bytes = 0;
  int64_t slot_stride_bytes = 0;
  int64_t head_stride_bytes = 0;
  bool is_paged = true;  ///< false: keys of a sequence follow one another, a tile is one piece

  /// Rows, a slot's record each, from one page to the next: S. Meaningful where the page stride is
  /// a multiple of the slot stride.
  FOLIO_HOST_DEVICE constexpr int64_t row_stride() const {
    return page_stride_bytes / slot_stride_bytes;
  }
  /// Rows from the first of the plane to its last; row num_rows() is out of bounds.
  FOLIO_HOST_DEVICE constexpr int64_t num_rows() const {
    return (num_pages - 1) * row_stride() + page_size;
  }
  /// Rows of one box of a tile of `tile_rows`: those in one page.
  FOLIO_HOST_DEVICE constexpr int32_t box_rows(int32_t tile_rows) const {
    return is_paged && page_size < tile_rows ? static_cast<int32_t>(page_size) : tile_rows;
  }
  FOLIO_HOST_DEVICE constexpr int32_t element_bytes() const { return bit_width(dtype) / 8; }
  bool operator==(const PlaneGeometry&) const = default;
};

/// What a kernel asks of a tile.
struct TileSpec {
  Swizzle swizzle = Swizzle::none;
  int32_t rows = 0;          ///< keys of the tile
  int32_t columns = 0;       ///< of the tile, whole chunks; 0: depth rounded up
  int32_t first_column = 0;  ///< of the head
  /// columns of the head that the tile sees, the others read as zero; 0: all from first_column on
  int32_t depth = 0;
  L2Promotion l2_promotion = L2Promotion::none;
  OobFill oob_fill = OobFill::zero;
};

}  // namespace tma

/// A tensor map and the shapes a kernel needs with it; shapes are slowest first, as the seeds write
/// them, the map's fields fastest first.
template <int Rank>
struct TMATensorTile {
  static constexpr int rank = Rank;
  tma::TensorMap map = {};
  IndexList<Rank> tile_shape = {};  ///< in shared memory
  IndexList<Rank> box_shape = {};   ///< of one copy
  tma::TileLayout layout = {};      ///< where its elements are then
  tma::Fault refused = {};          ///< why there is no map

  FOLIO_HOST_DEVICE constexpr tma::Fault fault() const {
    return refused.is_none() ? map.fault() : refused;
  }
  /// ok, or invalid_argument with the field, what came and what is allowed. `function` begins the
  /// message.
  [[nodiscard]] Status check(const char* function = "TMATensorTile") const noexcept {
    return describe(function, fault());
  }
  bool operator==(const TMATensorTile&) const = default;

  /// Bytes that async_copy reports to its barrier: whole boxes, out of bounds or not.
  FOLIO_HOST_DEVICE constexpr uint32_t copied_bytes() const {
    return static_cast<uint32_t>(layout.bytes());
  }
  /// Brings the map near, once, before it is first used.
  template <class Machine>
  FOLIO_DEVICE_FUNCTION static void prefetch_descriptor(Machine& t,
                                                        const typename Machine::TileMap& encoded) {
    t.prefetch_map(encoded);
  }
  /// The whole tile whose first element is at these coordinates, box by box, chunk after chunk.
  /// Rows must follow one another: keys in several pages are PagedRowIndices::tma_copy_k's.
  template <class Machine>
  FOLIO_DEVICE_FUNCTION void async_copy(Machine& t, const typename Machine::TileMap& encoded,
                                        uint32_t to, SharedMemBarrier barrier,
                                        const tma::Coordinates<Rank>& first) const {
    each_box(first, [&](const tma::Coordinates<Rank>& at, uint32_t offset) {
      t.template copy_tile<Rank>(encoded, at, to + offset, barrier.address);
    });
  }
  /// The same boxes into the L2 cache only.
  template <class Machine>
  FOLIO_DEVICE_FUNCTION void async_prefetch(Machine& t, const typename Machine::TileMap& encoded,
                                            const tma::Coordinates<Rank>& first) const {
    each_box(first, [&](const tma::Coordinates<Rank>& at, uint32_t) {
      t.template prefetch_tile<Rank>(encoded, at);
    });
  }
  /// The way back; what is out of bounds is not written. Completed by commit_group and wait_group.
  template <class Machine>
  FOLIO_DEVICE_FUNCTION void async_store(Machine& t, const typename Machine::TileMap& encoded,
                                         uint32_t from, const tma::Coordinates<Rank>& first) const {
    each_box(first, [&](const tma::Coordinates<Rank>& at, uint32_t offset) {
      t.template store_tile<Rank>(encoded, at, from + offset);
    });
  }
  template <class Machine>
  FOLIO_DEVICE_FUNCTION static void commit_group(Machine& t) {
    t.commit_stores();
  }
  /// All but the last `Pending` groups of this thread have been written.
  template <int Pending = 0, class Machine>
  FOLIO_DEVICE_FUNCTION static void wait_group(Machine& t) {
    t.template wait_stores<Pending>();
  }

  /// Four rows from column `column` on, one box; rows that are out of bounds read as zero. sm_100.
  template <class Machine>  // NOLINTNEXTLINE(readability-function-size): the seeds' arguments
  FOLIO_DEVICE_FUNCTION void async_copy_gather4(Machine& t,
                                                const typename Machine::TileMap& encoded,
                                                uint32_t to, SharedMemBarrier barrier,
                                                int32_t column, int32_t row0, int32_t row1,
                                                int32_t row2, int32_t row3) const
    requires(Rank == 2)
  {
    t.copy_gather4(encoded, tma::Coordinates<5>{{column, row0, row1, row2, row3}}, to,
                   barrier.address);
  }
  /// All rows of the tile and all its columns: row i is row_of(i), as get_tma_row gives it.
  template <class Machine, class RowOf>
  FOLIO_DEVICE_FUNCTION void async_copy_gather4_tile(Machine& t,
                                                     const typename Machine::TileMap& encoded,
                                                     uint32_t to, SharedMemBarrier barrier,
                                                     RowOf row_of) const
    requires(Rank == 2)
  {
    for (int32_t row = 0; row < layout.rows; row += 4) {
      const int32_t rows[4] = {row_of(row), row_of(row + 1), row_of(row + 2), row_of(row + 3)};
      for (int32_t group = 0; group < layout.num_chunks(); ++group)
        async_copy_gather4(t, encoded, to + static_cast<uint32_t>(layout.box_offset(row, group)),
                           barrier, group * layout.chunk, rows[0], rows[1], rows[2], rows[3]);
    }
  }

 private:
  FOLIO_HOST_DEVICE constexpr int32_t boxes(int i) const {
    return (tile_shape[i] + box_shape[i] - 1) / box_shape[i];
  }
  /// `copy(coordinates, bytes from the tile's start)` of every box.
  template <class Copy>
  FOLIO_DEVICE_FUNCTION void each_box(const tma::Coordinates<Rank>& first, Copy copy) const {
    if constexpr (Rank == 2) {
      copy(first, 0u);  // a row of scales
    } else {
      // Shapes are slowest first: rows, head, columns; head, chunks, rows; and with five
      // dimensions either pages or blocks of rows in front, of shape[3] rows each.
      constexpr int chunk_dim = Rank == 3 ? 2 : Rank == 4 ? 1 : 2;
      constexpr int row_dim = Rank == 4 ? 2 : 0;
      for (int32_t chunk = 0; chunk < boxes(chunk_dim); ++chunk) {
        for (int32_t i = 0; i < boxes(row_dim); ++i) {
          for (int32_t k = 0; k < (Rank == 5 ? boxes(1) : 1); ++k) {
            tma::Coordinates<Rank> at = first;
            at.at[Rank - 1 - chunk_dim] += chunk * box_shape[chunk_dim];
            at.at[Rank - 1 - row_dim] += i * box_shape[row_dim];
            int32_t row = i * box_shape[row_dim];
            if constexpr (Rank == 5) {
              at.at[Rank - 2] += k * box_shape[1];
              row = (row + k * box_shape[1]) * tile_shape[3];
            }
            const int32_t column = Rank == 3 ? chunk : chunk * box_shape[chunk_dim];
            copy(at, static_cast<uint32_t>(layout.box_offset(row, column)));
          }
        }
      }
    }
  }
};

namespace tma {

/// Why no tile can be taken from a plane, whatever the tile.
FOLIO_HOST_DEVICE constexpr Fault plane_fault(const PlaneGeometry& plane) {
  if (data_type_of(plane.dtype) == DataType::invalid)
    return {Rule::cache_dtype, 0, static_cast<int64_t>(plane.dtype), 0};
  const int64_t extents[4] = {plane.num_heads, plane.head_size, plane.num_pages, plane.page_size};
  for (int i = 0; i < 4; ++i) {
    if (extents[i] < 1) return {Rule::extent, i, extents[i], 1};
  }
  if (plane.slot_stride_bytes < 1) return {Rule::extent, 4, plane.slot_stride_bytes, 1};
  return {};
}

/// Why the plane is no matrix of rows that 32-bit coordinates can name.
FOLIO_HOST_DEVICE constexpr Fault rows_fault(const PlaneGeometry& plane) {
  if (const Fault fault = plane_fault(plane); !fault.is_none()) return fault;
  if (plane.num_pages > 1 && (plane.page_stride_bytes < plane.slot_stride_bytes ||
                              plane.page_stride_bytes % plane.slot_stride_bytes != 0))
    return {Rule::whole_rows, 0, plane.page_stride_bytes, plane.slot_stride_bytes};
  const int64_t stride =
      plane.row_stride() > plane.page_size ? plane.row_stride() : plane.page_size;
  if (plane.num_pages > max_coordinate / stride)
    return {Rule::coordinates, 0, stride, plane.num_pages};
  return {};
}

/// The columns of a tile: chunks, and what of the head they see.
struct TileColumns {
  int32_t chunk = 0;
  int32_t columns = 0;
  int32_t depth = 0;
  Fault fault = {};
};
FOLIO_HOST_DEVICE constexpr TileColumns tile_columns(const PlaneGeometry& plane,
                                                     const TileSpec& spec) {
  TileColumns out;
  out.chunk = swizzle_granularity(plane.dtype, spec.swizzle);
  if (spec.first_column < 0 || spec.first_column >= plane.head_size) {
    out.fault = {Rule::depth, 0, spec.first_column, plane.head_size - 1};
    return out;
  }
  const int32_t rest = plane.head_size - spec.first_column;
  out.depth = spec.depth != 0 ? spec.depth : rest;
  if (out.depth < 1 || out.depth > rest) out.fault = {Rule::depth, 1, out.depth, rest};
  out.columns =
      spec.columns != 0 ? spec.columns : padded_depth(plane.dtype, spec.swizzle, out.depth);
  if (out.fault.is_none() && (out.columns < 1 || out.columns % out.chunk != 0))
    out.fault = {Rule::tile_columns, 0, out.columns, out.chunk};
  return out;
}

/// Whether a tile of these rows is made of whole pieces of pages.
FOLIO_HOST_DEVICE constexpr Fault tile_rows_fault(const PlaneGeometry& plane, int32_t rows) {
  if (rows < 1) return {Rule::extent, 5, rows, 1};
  if (plane.is_paged && rows % plane.page_size != 0 && plane.page_size % rows != 0)
    return {Rule::tile_rows, 0, rows, plane.page_size};
  return {};
}

/// The stride of heads; of a single head any legal number, since only coordinate 0 is in bounds.
FOLIO_HOST_DEVICE constexpr int64_t head_stride(const PlaneGeometry& plane) {
  return plane.num_heads > 1 ? plane.head_stride_bytes : plane.slot_stride_bytes;
}

/// A map of the plane's elements from `first_column` on; dimension 0 is set, and is the chunk's
/// box.
FOLIO_HOST_DEVICE constexpr TensorMap plane_map(const PlaneGeometry& plane, const TileSpec& spec,
                                                const TileColumns& columns, int32_t rank) {
  TensorMap map;
  map.base = plane.base + static_cast<uint64_t>(int64_t{spec.first_column} * plane.element_bytes());
  map.rank = rank;
  map.dtype = data_type_of(plane.dtype);
  map.swizzle = spec.swizzle;
  map.l2_promotion = spec.l2_promotion;
  map.oob_fill = spec.oob_fill;
  map.dim[0] = columns.depth;
  map.stride_bytes[0] = plane.element_bytes();
  map.box[0] = columns.chunk;
  return map;
}

FOLIO_HOST_DEVICE constexpr void set_dim(TensorMap& map, int i, int64_t dim, int64_t stride_bytes,
                                         int32_t box) {
  map.dim[i] = dim;
  map.stride_bytes[i] = stride_bytes;
  map.box[i] = box;
}

}  // namespace tma
}  // namespace folio::inline v1
