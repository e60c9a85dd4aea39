// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/latent_products.h: the two tiled products of the AMX kernel for latent heads.
///
/// Scores: rows of K are the A operand where they lie, queries are the B operand; so a row of the result is a key and a lane is a row of
/// the task. Values: weights are the A operand, staged V is the B operand. Both work on blocks of 2 x 2 tiles: four loads for four
/// multiplications, 64 cycles. What is read once comes by TILELOADDT1, which leaves L1 to what is read again.
/// Between its steps a product does a piece of other work: softmax, staging, fetching ahead.
///
/// Each element of a result is one chain over 32-dim or 32-key steps in ascending order, whatever the block it falls into.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/amx/latent_layout.h"
#include "folio/attention/kv_buffer/page_cursor.h"

namespace folio {
inline namespace v1 {
namespace amx {

template <class Tile, class Sizes>
struct LatentProducts {
  static constexpr int64_t kb = operand_tile_bytes;

  /// scores [16 keys of group][row tile][key][row] of the groups of a 64-key tile.
  /// queries: B tiles of RowTiles row tiles.
  template <int RowTiles, class Work>
  static void scores(const TileRows (&groups)[4], const std::byte* queries, float* scores, Work& work) {
    for (int g = 0; g < 4; g += 2) {
      Tile::template zero<4>();
      Tile::template zero<6>();
      if constexpr (RowTiles == 2) {
        Tile::template zero<5>();
        Tile::template zero<7>();
      }
      const TileRows low = groups[g], high = groups[g + 1];
      for (int step = 0; step < Sizes::k_steps; ++step) {
        const std::byte* const query = queries + step * kb;
        Tile::template load_t1<0>(low.data + step * 64, low.stride_bytes);
        Tile::template load<2>(query, 64);
        Tile::template dpbf16<4, 0, 2>();
        if constexpr (RowTiles == 2) {
          Tile::template load<3>(query + Sizes::query_tile_bytes, 64);
          Tile::template dpbf16<5, 0, 3>();
        }
        Tile::template load_t1<1>(high.data + step * 64, high.stride_bytes);
        Tile::template dpbf16<6, 1, 2>();
        if constexpr (RowTiles == 2) Tile::template dpbf16<7, 1, 3>();
        work.step();
      }
      float* const to = scores + g * 256;
      Tile::template store<4>(to, 64);
      Tile::template store<6>(to + 256, 64);
      if constexpr (RowTiles == 2) {
        Tile::template store<5>(to + Sizes::score_tile, 64);
        Tile::template store<7>(to + Sizes::score_tile + 256, 64);
      }
    }
  }

  /// output [row][width] += weights . values, for the key steps [begin, end) of the pass.
  template <int RowTiles, class Work>
  static void values(const std::byte* weights, const std::byte* staged, float* output, int begin, int end, Work& work) {
    constexpr int64_t stride = int64_t{Sizes::width} * 4, lower = tile_rows * Sizes::width;
    for (int column = 0; column < Sizes::v_depth; column += 32, output += 32) {
      Tile::template load<4>(output, stride);
      Tile::template load<5>(output + 16, stride);
      if constexpr (RowTiles == 2) {
        Tile::template load<6>(output + lower, stride);
        Tile::template load<7>(output + lower + 16, stride);
      }
      const std::byte* value = staged + begin * Sizes::value_step_bytes + column / 16 * kb;
      const std::byte* weight = weights + begin * 2 * kb;
      for (int step = begin; step < end; ++step, value += Sizes::value_step_bytes, weight += 2 * kb) {
        Tile::template load<0>(weight, 64);
        Tile::template load_t1<2>(value, 64);
        Tile::template dpbf16<4, 0, 2>();
        Tile::template load_t1<3>(value + kb, 64);
        Tile::template dpbf16<5, 0, 3>();
        if constexpr (RowTiles == 2) {
          Tile::template load<1>(weight + kb, 64);
          Tile::template dpbf16<6, 1, 2>();
          Tile::template dpbf16<7, 1, 3>();
        }
        fetch_output<RowTiles>(output + 32, step - begin);
        work.step();
      }
      Tile::template store<4>(output, stride);
      Tile::template store<5>(output + 16, stride);
      if constexpr (RowTiles == 2) {
        Tile::template store<6>(output + lower, stride);
        Tile::template store<7>(output + lower + 16, stride);
      }
    }
  }

 private:
  /// The next block of the output, an eighth at a time.
  template <int RowTiles>
  static FOLIO_ALWAYS_INLINE void fetch_output(const float* output, int part) {
    for (int i = 0; i < 2 * RowTiles; ++i) {
      const float* const row = output + int64_t{part * 2 * RowTiles + i} * Sizes::width;
      __builtin_prefetch(row, 1, 3);
      __builtin_prefetch(row + 16, 1, 3);
    }
  }
};

}  // namespace amx
}  // namespace v1
}  // namespace folio
