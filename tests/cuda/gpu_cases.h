// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/gpu_cases.h: the reduced grid of copies that a GPU and the emulator both do, to be
/// compared byte for byte.
///
/// Each case is one tile: the map of a builder and the copies that fill the tile from pages in
/// random order, some of them unassigned. Nothing here needs a GPU; a test runs all cases in the
/// emulator alone.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/listed_copy.h"
#include "folio/tma/gather4.h"
#include "folio/tma/page_tile.h"
#include "folio/tma/ragged_tile.h"
#include "folio/tma/row_tiles.h"
#include "support/random.h"
#include "tma/planes.h"

namespace folio::test {

inline constexpr int64_t gpu_storage_bytes = int64_t{16} << 20;
inline constexpr int32_t gpu_tile_rows = 64;
/// The first part of the storage holds the tensor that is stored to.
inline constexpr int64_t gpu_stored_bytes = int64_t{1} << 20;
/// What the storage and the grid are drawn from on a GPU and wherever its records are replayed.
inline constexpr uint64_t gpu_storage_seed = 20240607, gpu_grid_seed = 7;

struct GpuCase {
  std::string name;
  tma::TensorMap map = {};
  tma::TileLayout layout = {};
  std::vector<ListedCopy> copies;
  bool is_store = false;  ///< of a ragged tile
};

/// Collects cases; tiles that a builder refuses are counted, not kept.
class GpuCases {
 public:
  GpuCases(uint64_t base, uint64_t seed) : base_(base), rng_(seed) {}

  std::vector<GpuCase> cases;
  int refused = 0;

  void add_all() {
    for (const int32_t head_size : {64, 72, 128, 576}) {
      for (const int64_t page_size : {1, 16, 64}) {
        for (const DType dtype : {DType::bf16, DType::f32, DType::f8_e4m3}) {
          for (const bool head_major : {false, true}) {
            CacheShape shape{dtype, 2, head_size, page_size, num_pages(page_size),
                             2,     2, head_major};
            tma::PlaneGeometry plane = plane_of(shape, 1, 1);
            plane.base += base_ - storage;
            for (const tma::Swizzle mode :
                 {tma::Swizzle::none, tma::Swizzle::b32, tma::Swizzle::b64, tma::Swizzle::b128})
              add_plane(plane, mode, head_major);
          }
        }
      }
    }
    for (const int32_t scales : {4, 64, 256}) add_scales(scales);
  }

 private:
  static int64_t num_pages(int64_t page_size) { return page_size == 64 ? 5 : 80 / page_size; }

  void add_plane(const tma::PlaneGeometry& plane, tma::Swizzle mode, bool head_major) {
    const tma::TileSpec spec{.swizzle = mode, .rows = gpu_tile_rows};
    const std::string at = std::string(name(plane.dtype)) + " head " +
                           std::to_string(plane.head_size) + " page " +
                           std::to_string(plane.page_size) +
                           (head_major ? " head-major " : " token-major ") + name(mode);
    // Head-major planes are no matrices of rows, except through page ids.
    if (!head_major) {
      add_rows("rows " + at, plane, tma::cache_tile(plane, spec));
      tma::TileSpec part = spec;
      part.depth = 40;
      part.columns = padded_depth(plane.dtype, mode, plane.head_size);
      add_rows("depth " + at, plane, tma::cache_tile(plane, part));
      if (plane.dtype == DType::f8_e4m3 && plane.head_size == 576)
        add_rows("rope " + at, plane,
                 tma::rope_tile(
                     plane,
                     {.swizzle = mode, .rows = gpu_tile_rows, .columns = 32, .padded_depth = 512}));
      add_folded("folded " + at, plane, tma::folded_tile(plane, spec));
      add_row_major("row-major " + at, plane, tma::row_major_tile(plane, spec));
      add_gather("gather4 " + at, plane, mode);
      tma::PlaneGeometry ragged = rows_of(plane.dtype, 200, plane.num_heads, plane.head_size);
      ragged.base = base_;
      for (const int32_t group : {1, 2})
        add_ragged(at + " group " + std::to_string(group), tma::ragged_tile(ragged, spec, group));
    }
    add_pages("page " + at, plane, tma::page_tile(plane, spec, tma::ChunksPerCopy::all));
    add_pages("page and chunk " + at, plane, tma::page_tile(plane, spec, tma::ChunksPerCopy::one));
  }

  /// One piece of a page for each piece of the tile: page ids, of which num_pages and -1 are
  /// unassigned, and the first slot.
  struct Piece {
    int32_t page = 0;
    int32_t slot = 0;
    int32_t row = 0;
  };
  std::vector<Piece> pieces(const tma::PlaneGeometry& plane) {
    std::vector<Piece> out;
    const int32_t rows = plane.box_rows(gpu_tile_rows);
    for (int32_t first = 0; first < gpu_tile_rows; first += rows) {
      Piece piece{rng_.int_between(0, plane.num_pages - 1), 0, 0};
      if (rng_.chance(0.15))
        piece.page = rng_.chance(0.5) ? -1 : static_cast<int32_t>(plane.num_pages);
      const bool is_assigned = piece.page >= 0 && piece.page < plane.num_pages;
      piece.row =
          static_cast<int32_t>(is_assigned ? piece.page * plane.row_stride() : plane.num_rows());
      out.push_back(piece);
    }
    return out;
  }

  bool take(const std::string& title, tma::Fault fault, const tma::TensorMap& map,
            const tma::TileLayout& layout) {
    if (!fault.is_none() || layout.bytes() > 200 * 1024) {
      ++refused;
      return false;
    }
    cases.push_back({title, map, layout, {}, false});
    return true;
  }
  void copy(tma::Coordinates<5> at, int64_t to) {
    cases.back().copies.push_back({at, static_cast<int32_t>(to)});
  }

  void add_rows(const std::string& title, const tma::PlaneGeometry& plane,
                const TMATensorTile<3>& tile) {
    if (!take(title, tile.fault(), tile.map, tile.layout)) return;
    int32_t first = 0;
    for (const Piece& piece : pieces(plane)) {
      for (int32_t chunk = 0; chunk < tile.layout.num_chunks(); ++chunk)
        copy({{chunk * tile.layout.chunk, 1, piece.row}}, tile.layout.box_offset(first, chunk));
      first += tile.box_shape[0];
    }
  }
  void add_folded(const std::string& title, const tma::PlaneGeometry& plane,
                  const TMATensorTile<4>& tile) {
    if (!take(title, tile.fault(), tile.map, tile.layout)) return;
    int32_t first = 0;
    for (const Piece& piece : pieces(plane)) {
      copy({{0, piece.row, 0, 1}}, tile.layout.box_offset(first, 0));
      first += tile.box_shape[2];
    }
  }
  void add_row_major(const std::string& title, const tma::PlaneGeometry& plane,
                     const TMATensorTile<5>& tile) {
    if (!take(title, tile.fault(), tile.map, tile.layout)) return;
    int32_t first = 0;
    for (const Piece& piece : pieces(plane)) {
      copy({{0, 0, 0, (piece.row + 7) / 8, 1}}, tile.layout.box_offset(first, 0));
      first += tile.box_shape[1] * 8;
    }
  }
  void add_pages(const std::string& title, const tma::PlaneGeometry& plane,
                 const TMATensorTile<5>& tile) {
    if (!take(title, tile.fault(), tile.map, tile.layout)) return;
    int32_t first = 0;
    for (const Piece& piece : pieces(plane)) {
      for (int32_t chunk = 0; chunk < tile.layout.num_chunks(); chunk += tile.box_shape[2])
        copy({{0, piece.slot, chunk, 1, piece.page}}, tile.layout.box_offset(first, chunk));
      first += tile.box_shape[3];
    }
  }
  void add_gather(const std::string& title, const tma::PlaneGeometry& plane, tma::Swizzle mode) {
    const int32_t row = plane.num_heads * plane.head_size;
    const auto tile = tma::gather4_tile(plane, {gpu_tile_rows, plane.head_size, row, mode});
    if (!take(title, tile.fault(), tile.map, tile.layout)) return;
    for (int32_t first = 0; first < gpu_tile_rows; first += 4) {
      for (int32_t chunk = 0; chunk < tile.layout.num_chunks(); ++chunk) {
        tma::Coordinates<5> at{{chunk * tile.layout.chunk}};
        for (int i = 1; i < 5; ++i)
          at.at[i] = rng_.chance(0.1) ? -1 : rng_.int_between(0, plane.num_rows());
        copy(at, tile.layout.box_offset(first, chunk));
      }
    }
  }
  /// Sequences that end within, at and behind the tile, tiles that begin before and behind them;
  /// loads and stores.
  void add_ragged(const std::string& at, const RaggedTMA3DTile& tile) {
    const tma::RaggedRows each[] = {{0, 200, 0},    {0, 37, 0},     {37, 100, 64}, {37, 100, 0},
                                    {137, 63, -20}, {137, 63, 100}, {199, 1, 0},   {50, 0, 0}};
    int number = 0;
    for (const tma::RaggedRows& rows : each) {
      ++number;
      for (const bool is_store : {false, true}) {
        if (!tile.clips_in_one_copy(rows)) continue;
        const std::string title =
            (is_store ? "ragged store " : "ragged load ") + at + " rows " + std::to_string(number);
        if (!take(title, tile.fault(), tile.map, tile.layout)) continue;
        cases.back().is_store = is_store;
        for (int32_t chunk = 0; chunk < tile.layout.num_chunks(); ++chunk)
          copy(tile.coordinates(rows, tile.group == 1 ? 1 : 0, chunk),
               tile.layout.box_offset(0, chunk));
      }
    }
  }
  void add_scales(int32_t scales) {
    const auto tile = tma::scale_tile(base_, DType::f32, 1000, scales);
    if (!take("scales " + std::to_string(scales), tile.fault(), tile.map, tile.layout)) return;
    copy({{1000 - scales / 2}}, 0);
  }

  uint64_t base_;
  Rng rng_;
};

}  // namespace folio::test
