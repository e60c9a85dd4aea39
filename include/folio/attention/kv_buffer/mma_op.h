// SPDX-License-Identifier: Apache-2.0
/// folio/attention/kv_buffer/mma_op.h: KVMmaOp: register tiles and the tile multiply, in plain C++.
///
/// One object holds the registers of all lanes of a warp, so that it says what each lane would
/// hold. An MMA tile is B[MMA_K, MMA_N]: N counts keys of K, dims of V; K counts dims of K, keys of
/// V. With G = warp_size / MMA_N lanes per column (one lane holds several columns, one after the
/// other, where the warp is smaller than MMA_N), and L = MMA_K / G elements of a column per lane:
///
///     lane l, element e    column l % MMA_N,
///                          row (l / MMA_N) * L + e: one read of 16 bytes; or, in two halves,
///                          row (e / (L/2)) * MMA_K/2 + (l / MMA_N) * (L/2) + e % (L/2): two reads
///
/// V, and K whose L elements are more than 16 bytes, is held in halves: the upper half of a
/// fragment is the upper half of K there.
#pragma once

#include <cstdint>

#include "folio/core/element.h"
#include "folio/core/host_device.h"
#include "folio/core/tensor_view.h"

namespace folio::inline v1::kv_buffer {

/// An element of an MMA tile.
struct MmaElement {
  int32_t k = 0;
  int32_t n = 0;
  bool operator==(const MmaElement&) const = default;
};

}  // namespace folio::inline v1::kv_buffer

namespace folio::inline v1 {

template <class Shape>
class KVMmaOp {
 public:
  using smem_type = typename Shape::smem_type;
  /// [num_mmas][input_frag_size] elements of one lane.
  using MMATileType =
      TensorView<smem_type, Layout<IntTuple<Shape::num_mmas, Shape::input_frag_size>>>;
  static constexpr int MMA_M = Shape::MMA_M;
  static constexpr int MMA_N = Shape::MMA_N;
  static constexpr int MMA_K = Shape::MMA_K;
  static constexpr int registers_per_lane = static_cast<int>(typename Shape::mma_layout{}.size());
  static constexpr int lanes_per_column = Shape::warp_size >= MMA_N ? Shape::warp_size / MMA_N : 1;
  static constexpr int rows_per_lane = MMA_K / lanes_per_column;
  static constexpr bool is_in_halves = lanes_per_column > 1 &&
                                       (!Shape::transpose ||
                                        rows_per_lane * static_cast<int>(sizeof(smem_type)) > 16);
  static_assert(Shape::warp_size >= MMA_N ? Shape::warp_size % MMA_N == 0
                                          : MMA_N % Shape::warp_size == 0,
                "KVMmaOp: a column has whole lanes, or a lane has whole columns");

  /// What element `e` of lane `lane` is.
  FOLIO_HOST_DEVICE static constexpr kv_buffer::MmaElement element_of(int lane, int e) {
    constexpr int columns_per_lane = Shape::warp_size >= MMA_N ? 1 : MMA_N / Shape::warp_size;
    const int n = lane % MMA_N * columns_per_lane + e / rows_per_lane;
    const int group = lane / MMA_N, i = e % rows_per_lane;
    if constexpr (is_in_halves) {
      constexpr int half = rows_per_lane / 2;
      return {i / half * (MMA_K / 2) + group * half + i % half, n};
    }
    return {group * rows_per_lane + i, n};
  }

  /// Strip `bk_tile` of a stage into its register slot. `first_column`: of the stage; `first_key`:
  /// of the warp. What lies past the warp's keys, or past a V's depth, becomes zero; the pad of a
  /// partial strip of K is left alone (zero_partial_tile_pad). A streamed stage of V fills its own
  /// columns.
  template <int bk_tile, class Loader>
  FOLIO_HOST_DEVICE void load(const Loader& loader, int stage, int first_column, int first_key) {
    each_element<bk_tile>([&](smem_type& to, int strip_row, int n) {
      if constexpr (Shape::transpose) {
        const int dim = bk_tile * Shape::BK + strip_row;
        if (strip_row < Shape::BK && dim >= Shape::depth) return;
        to = strip_row < Shape::BK && n < Shape::WN
                 ? loader.at(stage, first_key + n, dim - first_column)
                 : smem_type{};
      } else {
        const int key = bk_tile * Shape::BK + strip_row;
        if (n < first_column || n >= first_column + Shape::smem_cols) {
          if (n >= Shape::depth) to = smem_type{};
          return;
        }
        const bool is_there = strip_row < Shape::BK && key < Shape::WN && n < Shape::depth;
        to = is_there ? loader.at(stage, first_key + key, n - first_column) : smem_type{};
      }
    });
  }

  /// The register tile of K = [k_mma * MMA_K, + MMA_K) of strip `bk_tile`, as lane `lane` holds it.
  template <int k_mma_tile_idx, int bk_tile_idx>
  FOLIO_HOST_DEVICE MMATileType tile(int lane = 0) const {
    constexpr int slot = bk_tile_idx % Shape::reg_num_k_tiles;
    constexpr int row = (slot * Shape::num_k_mmas2 + k_mma_tile_idx) * Shape::num_mmas;
    return {const_cast<smem_type*>(registers_) + int64_t{lane} * registers_per_lane +
                row * Shape::input_frag_size,
            {}};
  }

  /// Zeroes what lies past `depth` in the last strip of K.
  FOLIO_HOST_DEVICE void zero_partial_tile_pad() {
    constexpr int valid = Shape::depth % Shape::BK;
    if constexpr (Shape::transpose && valid != 0) {
      each_element<Shape::depth / Shape::BK>([](smem_type& element, int strip_row, int) {
        if (strip_row >= valid) element = smem_type{};
      });
    }
  }

  /// c[m + n * num_m] += a[m] * b[n] for the register tiles b[n] of (k_mma, bk_tile), in float. a:
  /// [num_m][MMA_M][MMA_K], c: [num_mmas][num_m][MMA_M][MMA_N]. Swap exchanges the operands of the
  /// unit: c's tiles are then [MMA_N][MMA_M].
  template <int k_mma_tile_idx, int bk_tile_idx, bool Swap = false>
  FOLIO_HOST_DEVICE void mma(const smem_type* a, int num_m, float* c) const {
    for (int mma = 0; mma < Shape::num_mmas; ++mma) {
      for (int lane = 0; lane < Shape::warp_size; ++lane) {
        for (int e = 0; e < Shape::input_frag_size; ++e) {
          const kv_buffer::MmaElement at = element_of(lane, e);
          const float b = to_float(tile<k_mma_tile_idx, bk_tile_idx>(lane)(mma, e));
          for (int row = 0; row < num_m * MMA_M; ++row) {
            float* tile_of_c = c + (int64_t{mma} * num_m + row / MMA_M) * (MMA_M * MMA_N);
            const int m = row % MMA_M;
            tile_of_c[Swap ? at.n * MMA_M + m : m * MMA_N + at.n] +=
                to_float(a[int64_t{row} * MMA_K + at.k]) * b;
          }
        }
      }
    }
  }

 private:
  /// `visit(element, row of the strip, column)` for every register of a slot; columns count through
  /// the warp's MMA tiles.
  template <int bk_tile, class Visit>
  FOLIO_HOST_DEVICE void each_element(Visit visit) {
    constexpr int slot = bk_tile % Shape::reg_num_k_tiles;
    for (int lane = 0; lane < Shape::warp_size; ++lane) {
      smem_type* at = registers_ + int64_t{lane} * registers_per_lane +
                      int64_t{slot} * Shape::num_k_mmas2 * Shape::num_mmas * Shape::input_frag_size;
      for (int k_mma = 0; k_mma < Shape::num_k_mmas2; ++k_mma) {
        for (int mma = 0; mma < Shape::num_mmas; ++mma) {
          for (int e = 0; e < Shape::input_frag_size; ++e, ++at) {
            const kv_buffer::MmaElement element = element_of(lane, e);
            visit(*at, k_mma * MMA_K + element.k, mma * MMA_N + element.n);
          }
        }
      }
    }
  }

  smem_type registers_[int64_t{Shape::warp_size} * registers_per_lane] = {};
};

}  // namespace folio::inline v1

namespace folio::inline v1 {  // flat names, for one release
using kv_buffer::MmaElement;
}  // namespace folio::inline v1
