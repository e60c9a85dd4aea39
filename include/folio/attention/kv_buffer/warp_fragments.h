// SPDX-License-Identifier: Apache-2.0
/// folio/attention/kv_buffer/warp_fragments.h: register tiles of one lane, as ldmatrix brings them
/// and mma.sync takes them.
///
/// An MMA tile is B[16, 8]: of K dims by keys, of V keys by dims. Lane l holds column l / 4 and, in
/// register r, rows 8 * r + 2 * (l % 4) and the next: two registers, four elements. The object is
/// the lane's own registers and nothing else.
#pragma once

#include <cstdint>

#include "folio/attention/kv_buffer/mma_op.h"
#include "folio/core/dtype.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::kv_buffer {

/// Register tiles of num_mmas MMA tiles side by side, by value.
template <class Shape>
struct WarpTile {
  using smem_type = typename Shape::smem_type;
  uint32_t registers[Shape::num_mmas][2] = {};

  /// Element `e` of the lane's four of MMA tile `mma`.
  FOLIO_DEVICE_FUNCTION smem_type operator()(int mma, int e) const {
    const auto bits = static_cast<uint16_t>(registers[mma][e / 2] >> (e % 2 * 16));
    return __builtin_bit_cast(smem_type, bits);
  }
};

/// Elements of 16 bits, stages of a lane loader, mma_shape {16, 8, 16}.
template <class Shape>
class WarpFragments {
 public:
  using MMATileType = WarpTile<Shape>;
  static constexpr int MMA_M = Shape::MMA_M;
  static constexpr int MMA_N = Shape::MMA_N;
  static constexpr int MMA_K = Shape::MMA_K;
  static constexpr int registers_per_lane =
      Shape::reg_num_k_tiles * Shape::num_k_mmas2 * Shape::num_mmas * 2;
  static_assert(MMA_M == 16 && MMA_N == 8 && MMA_K == 16 && Shape::warp_size == 32,
                "WarpFragments: mma_shape is {16, 8, 16}, of warps of 32 lanes");
  static_assert(bit_width(Shape::smem_dtype) == 16, "WarpFragments: staged elements have 16 bits");
  static_assert(Shape::BK % MMA_K == 0 && Shape::WN % (Shape::transpose ? MMA_N : MMA_K) == 0,
                "WarpFragments: a strip and a warp's keys are whole MMA tiles");
  static_assert(!Shape::transpose || !Shape::full_kv ||
                    Shape::num_k_tiles * Shape::BK <= Shape::smem_cols,
                "WarpFragments: a full stage holds all strips of K, the last one's pad too");
  static_assert(Shape::transpose || Shape::depth % MMA_N == 0,
                "WarpFragments: V's depth is whole MMA tiles");

  /// What element `e` of lane `lane` is.
  FOLIO_HOST_DEVICE static constexpr MmaElement element_of(int lane, int e) {
    return {e / 2 * 8 + lane % 4 * 2 + e % 2, lane / 4};
  }

  /// Strip `bk_tile` of a stage into its register slot. By all lanes of the warp.
  template <int bk_tile, class Loader>
  FOLIO_DEVICE_FUNCTION void load(const Loader& loader, int stage, int first_column,
                                  int first_key) {
    constexpr int slot = bk_tile % Shape::reg_num_k_tiles;
    auto& t = loader.machine();
    // Lane 8 * m + r gives the address of row r of matrix m; m % 2: rows of B, m / 2: its tiles.
    const int lane = t.lane(), row = lane % 8, half = lane / 8 % 2, next = lane / 16;
    FOLIO_UNROLL
    for (int k = 0; k < Shape::num_k_mmas2; ++k) {
      FOLIO_UNROLL
      for (int mma = 0; mma < Shape::num_mmas; mma += 2) {
        // An odd number of tiles: the last one is read twice.
        const int tile = mma + next < Shape::num_mmas ? mma + next : mma;
        const int b_row = bk_tile * Shape::BK + k * MMA_K + half * 8;
        uint32_t out[4];
        if constexpr (Shape::transpose) {
          const int column = b_row - first_column;
          t.template load_matrices<false>(
              out, loader.address_of(stage, first_key + tile * MMA_N + row, column));
        } else {
          // A streamed stage brings its own columns.
          const int column = mma * MMA_N - first_column;
          if (column < 0 || column >= Shape::smem_cols) continue;
          const int mine = tile * MMA_N - first_column;
          t.template load_matrices<true>(
              out, loader.address_of(stage, first_key + b_row + row,
                                     mine < Shape::smem_cols ? mine : column));
        }
        registers_[slot][k].registers[mma][0] = out[0];
        registers_[slot][k].registers[mma][1] = out[1];
        if (mma + 1 < Shape::num_mmas) {
          registers_[slot][k].registers[mma + 1][0] = out[2];
          registers_[slot][k].registers[mma + 1][1] = out[3];
        }
      }
    }
  }

  /// The register tile of K = [k_mma * 16, + 16) of strip `bk_tile`: that of the calling lane.
  template <int k_mma_tile_idx, int bk_tile_idx>
  FOLIO_DEVICE_FUNCTION MMATileType tile(int = 0) const {
    return registers_[bk_tile_idx % Shape::reg_num_k_tiles][k_mma_tile_idx];
  }
  /// Staged columns from `depth` on are zero already.
  FOLIO_DEVICE_FUNCTION void zero_partial_tile_pad() {}

  /// c[n] += a * b[n] for the register tiles b[n] of (k_mma, bk_tile): 16 rows of A in registers,
  /// accumulators as mma.sync has them. By all lanes of the warp.
  template <int k_mma_tile_idx, int bk_tile_idx, class Machine>
  FOLIO_DEVICE_FUNCTION void mma(Machine& t, const uint32_t (&a)[4],
                                 float (&c)[Shape::num_mmas][4]) const {
    const MMATileType b = tile<k_mma_tile_idx, bk_tile_idx>();
    FOLIO_UNROLL
    for (int n = 0; n < Shape::num_mmas; ++n)
      t.template multiply<Shape::smem_dtype>(c[n], a, b.registers[n][0], b.registers[n][1]);
  }

 private:
  MMATileType registers_[Shape::reg_num_k_tiles][Shape::num_k_mmas2];
};

}  // namespace folio::inline v1::kv_buffer

namespace folio::inline v1 {  // flat names, for one release
using kv_buffer::WarpFragments;
using kv_buffer::WarpTile;
}  // namespace folio::inline v1
