// SPDX-License-Identifier: Apache-2.0
/// folio/tma/tile_layout.h: where the element (row, column) of a tile lies in shared memory.
///
/// The one type that loaders (where does this box go), fragment readers (where is this element) and
/// the emulator share; nothing else knows about swizzles. A tile is cut into chunks of columns, one
/// box wide, and into blocks of rows:
///
///     [row / block_rows][column / chunk][row % block_rows][column % chunk]      before the swizzle
///
///   block_rows = rows        chunk after chunk, each over all rows: one box per page and chunk
///                            (create_tma_tile)
///   block_rows = page rows   page after page, each with all its chunks: one box per page
///                            (page-aware and folded maps)
///   block_rows = 8           atoms of eight rows (row-major folded maps)
///
/// Offsets are shared-memory addresses for a tile that begins at a multiple of alignment().
#pragma once

#include <cstdint>

#include "folio/core/host_device.h"
#include "folio/tma/swizzle.h"

namespace folio::inline v1 {

/// A fixed number of extents, slowest dimension first: the seeds' IndexList.
template <int Rank>
struct IndexList {
  static constexpr int rank = Rank;
  int32_t extent[Rank] = {};
  FOLIO_HOST_DEVICE constexpr int32_t& operator[](int i) { return extent[i]; }
  FOLIO_HOST_DEVICE constexpr int32_t operator[](int i) const { return extent[i]; }
  bool operator==(const IndexList&) const = default;
};

namespace tma {

/// The tile in shared memory: the last extent rounded up to whole chunks.
template <int Rank>
FOLIO_HOST_DEVICE constexpr IndexList<Rank> padded_shape(DType dtype, IndexList<Rank> tile,
                                                         Swizzle mode) {
  tile[Rank - 1] = padded_depth(dtype, mode, tile[Rank - 1]);
  return tile;
}
/// The box of one copy: the last extent is one chunk.
template <int Rank>
FOLIO_HOST_DEVICE constexpr IndexList<Rank> ragged_shape(DType dtype, IndexList<Rank> tile,
                                                         Swizzle mode) {
  tile[Rank - 1] = swizzle_granularity(dtype, mode);
  return tile;
}

struct TileLayout {
  int32_t rows = 0;
  int32_t columns = 0;        ///< a multiple of chunk
  int32_t chunk = 0;          ///< elements
  int32_t element_bytes = 0;  ///< of the elements that columns count
  Swizzle swizzle = Swizzle::none;
  int32_t block_rows = 0;  ///< divides rows

  FOLIO_HOST_DEVICE constexpr int32_t chunk_bytes() const { return chunk * element_bytes; }
  FOLIO_HOST_DEVICE constexpr int32_t num_chunks() const { return columns / chunk; }
  /// Shared memory of the tile.
  FOLIO_HOST_DEVICE constexpr int64_t bytes() const {
    return int64_t{rows} * columns * element_bytes;
  }
  /// Where the tile may begin: at whole periods of the swizzle, and where TMA may write.
  FOLIO_HOST_DEVICE constexpr int32_t alignment() const {
    return swizzle_period_bytes(swizzle) > 128 ? swizzle_period_bytes(swizzle) : 128;
  }
  /// The destination of a box whose first element is (row, chunk_index * chunk): not swizzled, the
  /// copy does that.
  FOLIO_HOST_DEVICE constexpr int64_t box_offset(int32_t row, int32_t chunk_index) const {
    const int64_t block = row / block_rows;
    const int64_t chunk_rows = (block * num_chunks() + chunk_index) * block_rows + row % block_rows;
    return chunk_rows * chunk_bytes();
  }
  /// The byte at which the element lies once a box has been copied.
  FOLIO_HOST_DEVICE constexpr int64_t offset(int32_t row, int32_t column) const {
    const int64_t unswizzled =
        box_offset(row, column / chunk) + int64_t{column % chunk} * element_bytes;
    return folio::tma::swizzle(swizzle, unswizzled);
  }
  /// Whether boxes of `box_rows` rows begin at multiples of 128 bytes wherever they stand in the
  /// tile.
  FOLIO_HOST_DEVICE constexpr bool takes_boxes_of(int32_t box_rows) const {
    return (box_rows == rows && num_chunks() == 1) || int64_t{box_rows} * chunk_bytes() % 128 == 0;
  }
  bool operator==(const TileLayout&) const = default;
};

/// The layout of a tile whose chunks lie one after the other. `columns` is rounded up to whole
/// chunks. block_rows 0: rows.
FOLIO_HOST_DEVICE constexpr TileLayout tile_layout(DType dtype, Swizzle mode, int32_t rows,
                                                   int32_t columns, int32_t block_rows = 0) {
  return {rows,
          padded_depth(dtype, mode, columns),
          swizzle_granularity(dtype, mode),
          bit_width(dtype) / 8,
          mode,
          block_rows == 0 ? rows : block_rows};
}

}  // namespace tma
}  // namespace folio::inline v1
