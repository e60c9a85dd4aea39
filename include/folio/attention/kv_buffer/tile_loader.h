// SPDX-License-Identifier: Apache-2.0
/// folio/attention/kv_buffer/tile_loader.h: staging as ready MMA tiles: K packed, V interleaved,
/// 8-bit pages converted.
///
/// A tile is what a tile unit loads as its B operand: MMA_K x MMA_N elements, `pack` = 32 / bits
/// neighbours along K side by side:
///
///     K   [BN / MMA_N][smem_cols / MMA_K]   tiles of   [MMA_K / pack dims][MMA_N keys][pack]
///     V   [smem_cols / MMA_N][BN / MMA_K]   tiles of   [MMA_K / pack keys][MMA_N dims][pack]
#pragma once

#include <cstdint>

#include "folio/attention/kv_buffer/convert_row.h"
#include "folio/attention/kv_buffer/source.h"
#include "folio/core/host_device.h"
#include "folio/core/tensor_view.h"

namespace folio::inline v1::kv_buffer {

/// The places of the elements of a stage. ISA-safe.
template <class Shape>
struct MmaTiles {
  static constexpr int pack = 32 / bit_width(Shape::smem_dtype);
  static constexpr int tile_elements = Shape::MMA_K * Shape::MMA_N;
  /// tiles along N
  static constexpr int num_n = (Shape::transpose ? Shape::BN : Shape::smem_cols) / Shape::MMA_N;
  /// tiles along K
  static constexpr int num_k = (Shape::transpose ? Shape::smem_cols : Shape::BN) / Shape::MMA_K;
  static_assert(Shape::MMA_K % pack == 0 &&
                    Shape::BN % (Shape::transpose ? Shape::MMA_N : Shape::MMA_K) == 0 &&
                    Shape::smem_cols % (Shape::transpose ? Shape::MMA_K : Shape::MMA_N) == 0,
                "MmaTiles: a stage is whole tiles");
  static_assert(Shape::bk_smem == Shape::smem_cols || Shape::full_kv, "MmaTiles: tiles of a stage");

  /// Elements from the start of a stage to tile (n, k).
  FOLIO_HOST_DEVICE static FOLIO_ALWAYS_INLINE constexpr int64_t tile_offset(int n, int k) {
    return (int64_t{n} * num_k + k) * tile_elements;
  }
  /// Within a tile.
  FOLIO_HOST_DEVICE static FOLIO_ALWAYS_INLINE constexpr int element_offset(int n, int k) {
    return (k / pack * Shape::MMA_N + n) * pack + k % pack;
  }
  FOLIO_HOST_DEVICE static FOLIO_ALWAYS_INLINE constexpr int64_t offset(int key, int column) {
    const int n = Shape::transpose ? key : column, k = Shape::transpose ? column : key;
    return tile_offset(n / Shape::MMA_N, k / Shape::MMA_K) +
           element_offset(n % Shape::MMA_N, k % Shape::MMA_K);
  }
};

/// A unit is one tile: unit u is tile (u / num_k, u % num_k). For one warp or several.
template <class Shape>
class TileLoader {
 public:
  using smem_type = typename Shape::smem_type;
  using Tiles = MmaTiles<Shape>;
  static constexpr int num_steps = Tiles::num_n * Tiles::num_k;

  FOLIO_HOST_DEVICE explicit TileLoader(smem_type* smem) : smem_(smem) {}

  FOLIO_HOST_DEVICE void begin(int, const KVSource<Shape>&) {}

  FOLIO_HOST_DEVICE void load(int stage, const KVSource<Shape>& source, int step) {
    constexpr int keys = Shape::transpose ? Shape::MMA_N : Shape::MMA_K;
    constexpr int columns = Shape::transpose ? Shape::MMA_K : Shape::MMA_N;
    const int n = step / Tiles::num_k, k = step % Tiles::num_k;
    const int first_key = (Shape::transpose ? n : k) * keys,
              first_column = (Shape::transpose ? k : n) * columns;
    smem_type* tile = smem_ + int64_t{stage} * Shape::smem_stage_size + Tiles::tile_offset(n, k);
    for (int key = 0; key < keys; ++key) {
      smem_type row[columns];
      ConvertRow::run<Shape>(source, first_key + key, first_column, columns, row);
      for (int c = 0; c < columns; ++c) {
        tile[Shape::transpose ? Tiles::element_offset(key, c) : Tiles::element_offset(c, key)] =
            row[c];
      }
    }
  }

  FOLIO_HOST_DEVICE smem_type at(int stage, int key, int column) const {
    return stage_of(stage)[Tiles::offset(key, column)];
  }
  FOLIO_HOST_DEVICE const smem_type* stage_of(int stage) const {
    return smem_ + int64_t{stage} * Shape::smem_stage_size;
  }

 private:
  smem_type* smem_;
};

/// Fragments that stay where they are: a register tile is a row of MMA tiles in staging, for units
/// that load them from memory. The loader keeps MmaTiles' order of tiles (what is inside a tile is
/// its own affair) and has `stage_of`.
template <class Shape>
class StagedTiles {
 public:
  using smem_type = typename Shape::smem_type;
  using Tiles = MmaTiles<Shape>;
  /// [num_mmas][input_frag_size]; the tiles of one K lie num_k tiles apart.
  using MMATileType =
      TensorView<const smem_type, Layout<IntTuple<Shape::num_mmas, Shape::input_frag_size>,
                                         IntTuple<Tiles::tile_offset(1, 0), 1>>>;
  static_assert(Shape::warp_size == 1 && Shape::BK % Shape::MMA_K == 0,
                "StagedTiles: whole tiles, for one thread");
  static_assert(Shape::full_kv || Shape::transpose, "StagedTiles: V in full stages");

  /// Remembers where strip `bk_tile` lies. `first_column`: of the stage.
  template <int bk_tile, class Loader>
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void load(const Loader& loader, int stage, int first_column,
                                                  int first_key) {
    const int k =
        bk_tile * Shape::num_k_mmas2 - (Shape::transpose ? first_column / Shape::MMA_K : 0);
    const int64_t offset = Shape::transpose ? Tiles::tile_offset(first_key / Shape::MMA_N, k)
                                            : Tiles::tile_offset(0, first_key / Shape::MMA_K + k);
    slot_[bk_tile % Shape::reg_num_k_tiles] = loader.stage_of(stage) + offset;
  }
  template <int k_mma_tile_idx, int bk_tile_idx>
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE MMATileType tile(int = 0) const {
    return {slot_[bk_tile_idx % Shape::reg_num_k_tiles] + k_mma_tile_idx * Tiles::tile_elements,
            {}};
  }
  /// Staged columns from `depth` on are zero already.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void zero_partial_tile_pad() {}

 private:
  const smem_type* slot_[Shape::reg_num_k_tiles] = {};
};

}  // namespace folio::inline v1::kv_buffer

namespace folio::inline v1 {  // flat names, for one release
using kv_buffer::MmaTiles;
using kv_buffer::StagedTiles;
using kv_buffer::TileLoader;
}  // namespace folio::inline v1
