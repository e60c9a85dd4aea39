// SPDX-License-Identifier: Apache-2.0
/// folio/testing/operands.h: how matrix instructions walk a tile in shared memory: from a
/// TileLayout to addresses and descriptors.
///
///   scores S = Q * K^T   B is K^T: keys are columns of B, neighbours along K lie in a row
///                        -> k_major_operand, ldmatrix
///   output O = P * V     B is V: keys are rows of B (K), dimensions its columns
///                        -> mn_major_operand, ldmatrix.trans
///
/// A wgmma descriptor knows one distance between groups of eight rows and one between chunks; a
/// layout that needs more is refused.
#pragma once

#include <array>
#include <cstdint>

#include "folio/core/status.h"
#include "folio/testing/mma_sync.h"
#include "folio/testing/wgmma.h"
#include "folio/tma/tile_layout.h"

namespace folio::inline v1::emulator {

/// A rectangle of a tile: `rows` keys by `columns` elements.
struct TileBlock {
  int32_t row = 0;
  int32_t column = 0;
  int32_t rows = 0;
  int32_t columns = 0;
};

/// Row addresses for ldmatrix: matrix m begins at element `corners[m]` of a tile at `tile_address`.
template <size_t Count>
[[nodiscard]] constexpr std::array<int64_t, warp_lanes> ldmatrix_rows(
    const tma::TileLayout& layout, int64_t tile_address,
    const std::array<MatrixElement, Count>& corners) noexcept {
  std::array<int64_t, warp_lanes> addresses{};
  for (size_t lane = 0; lane < 8 * Count; ++lane) {
    const MatrixElement& corner = corners[lane / 8];
    addresses[lane] =
        tile_address + layout.offset(corner.row + static_cast<int32_t>(lane % 8), corner.column);
  }
  return addresses;
}

namespace detail {

/// Bytes from a group of eight rows to the next, from `row` on over `rows` rows; negative if they
/// are not equally far apart.
[[nodiscard]] constexpr int64_t row_group_stride(const tma::TileLayout& layout, int32_t row,
                                                 int32_t rows) noexcept {
  if (rows <= 8) return 8 * layout.chunk_bytes();
  const int64_t stride = layout.box_offset(row + 8, 0) - layout.box_offset(row, 0);
  for (int32_t r = row; r + 8 < row + rows; r += 8) {
    if (layout.box_offset(r + 8, 0) - layout.box_offset(r, 0) != stride) return -1;
  }
  return stride;
}

[[nodiscard]] inline Status check_block(const char* function, const tma::TileLayout& layout,
                                        const TileBlock& block) noexcept {
  if (block.row < 0 || block.rows < 1 || block.row + block.rows > layout.rows || block.column < 0 ||
      block.columns < 1 || block.column + block.columns > layout.columns)
    return fail(Errc::invalid_argument,
                "{}: rows [{}, {}) and columns [{}, {}) leave a tile of {} by {}", function,
                block.row, block.row + block.rows, block.column, block.column + block.columns,
                layout.rows, layout.columns);
  if (block.row % 8 != 0 ||
      (layout.block_rows % 8 != 0 && layout.block_rows < block.row + block.rows))
    return fail(Errc::invalid_argument,
                "{}: groups of eight rows from row {} are cut by blocks of {} rows", function,
                block.row, layout.block_rows);
  if (row_group_stride(layout, block.row, block.rows) < 0)
    return fail(
        Errc::invalid_argument,
        "{}: groups of eight rows are not equally far apart from row {} to {}: blocks have {} rows",
        function, block.row, block.row + block.rows, layout.block_rows);
  return {};
}

}  // namespace detail

/// The rows of the block as mn, its columns as one K step of 32 bytes.
/// Errors: invalid_argument for a block that leaves the tile or that one descriptor cannot walk.
[[nodiscard]] inline Result<WgmmaOperand> k_major_operand(const tma::TileLayout& layout,
                                                          int64_t tile_address,
                                                          const TileBlock& block) noexcept {
  if (Status status = detail::check_block("k_major_operand", layout, block); !status.is_ok())
    return status;
  const int32_t step = 32 / layout.element_bytes;
  if (block.columns != step || block.column % step != 0)
    return fail(Errc::invalid_argument,
                "k_major_operand: columns [{}, {}), expected one step of {}", block.column,
                block.column + block.columns, step);
  WgmmaOperand operand;
  operand.major = Major::k;
  operand.descriptor.swizzle = layout.swizzle;
  operand.descriptor.stride_byte_offset = detail::row_group_stride(layout, block.row, block.rows);
  const int32_t chunk = block.column / layout.chunk;
  operand.descriptor.start_address = tile_address + layout.box_offset(block.row, chunk) +
                                     int64_t{block.column % layout.chunk} * layout.element_bytes;
  if (layout.swizzle == tma::Swizzle::none)  // a chunk is one unit of 16 bytes, a step two of them
    operand.descriptor.leading_byte_offset =
        layout.box_offset(block.row, chunk + 1) - layout.box_offset(block.row, chunk);
  return operand;
}

/// The columns of the block as mn, whole chunks; its rows as one K step of 16. Elements of 16 bits.
/// Errors: as k_major_operand; unsupported for other elements.
[[nodiscard]] inline Result<WgmmaOperand> mn_major_operand(const tma::TileLayout& layout,
                                                           int64_t tile_address,
                                                           const TileBlock& block) noexcept {
  if (layout.element_bytes != 2)
    return fail(Errc::unsupported, "mn_major_operand: elements of {} bytes, expected 2",
                layout.element_bytes);
  if (Status status = detail::check_block("mn_major_operand", layout, block); !status.is_ok())
    return status;
  if (block.rows != 16 || block.column % layout.chunk != 0)
    return fail(
        Errc::invalid_argument,
        "mn_major_operand: {} rows from column {}, expected 16 and a multiple of the chunk {}",
        block.rows, block.column, layout.chunk);
  const int32_t chunk = block.column / layout.chunk;
  const int64_t groups = detail::row_group_stride(layout, block.row, block.rows);
  const int64_t chunks = chunk + 1 < layout.num_chunks() ? layout.box_offset(block.row, chunk + 1) -
                                                               layout.box_offset(block.row, chunk)
                                                         : 0;
  const bool swizzled = layout.swizzle != tma::Swizzle::none;
  WgmmaOperand operand;
  operand.major = Major::mn;
  operand.descriptor = {tile_address + layout.box_offset(block.row, chunk),
                        swizzled ? chunks : groups, swizzled ? groups : chunks, 0, layout.swizzle};
  return operand;
}

}  // namespace folio::inline v1::emulator
