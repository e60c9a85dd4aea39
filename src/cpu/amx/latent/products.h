// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/latent/products.h: the tiled products of the AMX kernel for latent heads.
///
/// Scores: rows of K are the A operand where they lie, queries are the B operand; so a row of the
/// result is a key and a lane is a row of the task. Values: weights are the A operand, V is the B
/// operand. All work on blocks of 2 x 2 tiles: four or five loads for four multiplications, 64
/// cycles. K and V come by TILELOADDT1, which leaves L1 to what is read again. Between its steps a
/// product does a piece of other work: softmax, staging, fetching ahead.
///
/// Each element of a result is one chain over 32 dims, 32 keys (staged V) or 16 keys (V in place)
/// at a time in ascending order, whatever the block it falls into.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/amx/latent/layout.h"
#include "folio/attention/kv_buffer/page_cursor.h"

namespace folio::inline v1::amx {

template <class Tile, class Sizes>
struct LatentProducts {
  static constexpr int64_t kb = operand_tile_bytes;

  /// scores [row tile][key][row] of a 64-key tile, which is four groups of 16 rows of K. queries: B
  /// tiles of RowTiles row tiles.
  template <int RowTiles, class Work>
  static void scores(const TileRows* groups, const std::byte* queries, float* scores, Work& work) {
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
        work.fetch();
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

  /// output [row][width], the 32 columns of a chunk, += weights . V in place, for `count` groups of
  /// 16 keys. Weights with zeros at the odd places pick the even dims out of pairs of neighbours,
  /// and the other way round.
  template <int RowTiles, class Work>
  static void values_in_place(const TileRows* groups, int count, int chunk,
                              const std::byte* weights, float* output, Work& work) {
    load_output<RowTiles>(output);
    for (int g = 0; g < count; ++g, weights += Sizes::group_weight_bytes) {
      Tile::template load_t1<0>(groups[g].data + chunk * 64, groups[g].stride_bytes);
      Tile::template load<1>(weights, 64);
      Tile::template dpbf16<4, 1, 0>();
      Tile::template load<2>(weights - 2, 64);
      Tile::template dpbf16<5, 2, 0>();
      work.fetch();
      if constexpr (RowTiles == 2) {
        Tile::template load<3>(weights + kb, 64);
        Tile::template dpbf16<6, 3, 0>();
        Tile::template load<1>(weights + kb - 2, 64);
        Tile::template dpbf16<7, 1, 0>();
      }
      fetch_output<RowTiles>(output + 32, g);
      work.step();
    }
    store_output<RowTiles>(output);
  }

  /// output [row][width], 32 columns, += weights . staged V, for `steps` steps of 32 keys.
  template <int RowTiles, class Work>
  static void values_staged(const std::byte* staged, int steps, const std::byte* weights,
                            float* output, Work& work) {
    load_output<RowTiles>(output);
    for (int step = 0; step < steps; ++step, staged += 2 * kb, weights += 2 * kb) {
      Tile::template load_t1<0>(weights, 64);
      Tile::template load<2>(staged, 64);
      Tile::template dpbf16<4, 0, 2>();
      Tile::template load<3>(staged + kb, 64);
      Tile::template dpbf16<5, 0, 3>();
      work.fetch();
      if constexpr (RowTiles == 2) {
        Tile::template load_t1<1>(weights + kb, 64);
        Tile::template dpbf16<6, 1, 2>();
        Tile::template dpbf16<7, 1, 3>();
      }
      work.step();
    }
    store_output<RowTiles>(output);
  }

 private:
  static constexpr int64_t stride = int64_t{Sizes::width} * 4;
  static constexpr int64_t lower = int64_t{tile_rows} * Sizes::width;

  template <int RowTiles>
  static FOLIO_ALWAYS_INLINE void load_output(const float* output) {
    Tile::template load<4>(output, stride);
    Tile::template load<5>(output + 16, stride);
    if constexpr (RowTiles == 2) {
      Tile::template load<6>(output + lower, stride);
      Tile::template load<7>(output + lower + 16, stride);
    }
  }
  template <int RowTiles>
  static FOLIO_ALWAYS_INLINE void store_output(float* output) {
    Tile::template store<4>(output, stride);
    Tile::template store<5>(output + 16, stride);
    if constexpr (RowTiles == 2) {
      Tile::template store<6>(output + lower, stride);
      Tile::template store<7>(output + lower + 16, stride);
    }
  }
  /// An eighth of a block of the output.
  template <int RowTiles>
  static FOLIO_ALWAYS_INLINE void fetch_output(const float* output, int part) {
    for (int i = 0; i < 2 * RowTiles; ++i) {
      const float* const row = output + int64_t{part * 2 * RowTiles + i} * Sizes::width;
      __builtin_prefetch(row, 1, 3);
      __builtin_prefetch(row + 16, 1, 3);
    }
  }
};

}  // namespace folio::inline v1::amx
