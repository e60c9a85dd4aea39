// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped/products.h: the two products of 16 rows with one staged tile of 64 keys.
///
///     S [16][64] f32  = Q [depth / 32][16][32] . K [4][depth / 32][16][16][2]
///                       four chains, one per group of keys
///     O [16][v_depth] f32 += P [16][64] bf16 . V [v_depth / 16][2][16][16][2]
///                       four columns of tiles at a time
///
/// Tiles are configured as tiles_of_rows says: rows of Q, S, P and O that there are not are neither
/// read nor written. Each element is one chain in ascending order of dims, or keys, from what was
/// there before. The pacer gets a tick at each product. ISA-safe: templates on a tile vocabulary.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/amx/grouped/pacer.h"
#include "cpu/amx/grouped/stage_keys.h"

namespace folio::inline v1::amx {

template <class I, int Depth, int VDepth>
class GroupedProducts {
  using Tile = typename I::Tile;

 public:
  static constexpr int k_steps = Depth / 32;
  static constexpr int64_t query_tile_bytes = k_steps * tile_bytes;

  __attribute__((noinline)) static void scores(const std::byte* queries, const std::byte* keys,
                                               float* to, Pacer<I>& pacer, int lines) {
    Tile::template zero<4>();
    Tile::template zero<5>();
    Tile::template zero<6>();
    Tile::template zero<7>();
    constexpr int64_t group = k_steps * tile_bytes;
    for (int k = 0; k < k_steps; ++k, queries += tile_bytes, keys += tile_bytes) {
      Tile::template load<0>(queries, 64);
      add<4, 1>(keys, pacer, lines);
      add<5, 2>(keys + group, pacer, lines);
      add<6, 3>(keys + 2 * group, pacer, lines);
      add<7, 1>(keys + 3 * group, pacer, lines);
    }
    Tile::template store<4>(to, 256);
    Tile::template store<5>(to + 16, 256);
    Tile::template store<6>(to + 32, 256);
    Tile::template store<7>(to + 48, 256);
  }

  __attribute__((noinline)) static void values(const uint16_t* weights, const std::byte* values,
                                               float* output, Pacer<I>& pacer, int lines) {
    int column = 0;
    for (; column + 64 <= VDepth; column += 64)
      columns<4>(weights, values + column * 128, output + column, pacer, lines);
    if constexpr (VDepth % 64 != 0)
      columns<2>(weights, values + column * 128, output + column, pacer, lines);
  }

 private:
  static constexpr int64_t output_bytes = int64_t{VDepth} * 4;

  /// Tile C += tile 0 . the B tile at `from`, by way of tile B.
  template <int C, int B>
  FOLIO_ALWAYS_INLINE static void add(const std::byte* from, Pacer<I>& pacer, int lines) {
    Tile::template load<B>(from, 64);
    Tile::template dpbf16<C, 0, B>();
    pacer.tick(lines);
  }

  /// Two or four columns of tiles.
  template <int Count>
  FOLIO_ALWAYS_INLINE static void columns(const uint16_t* weights, const std::byte* values,
                                          float* output, Pacer<I>& pacer, int lines) {
    Tile::template load<4>(output, output_bytes);
    Tile::template load<5>(output + 16, output_bytes);
    if constexpr (Count == 4) Tile::template load<6>(output + 32, output_bytes);
    if constexpr (Count == 4) Tile::template load<7>(output + 48, output_bytes);
    for (int half = 0; half < 2; ++half, values += tile_bytes) {
      Tile::template load<0>(weights + 32 * half, 128);
      add<4, 1>(values, pacer, lines);
      add<5, 2>(values + 2 * tile_bytes, pacer, lines);
      if constexpr (Count == 4) add<6, 3>(values + 4 * tile_bytes, pacer, lines);
      if constexpr (Count == 4) add<7, 1>(values + 6 * tile_bytes, pacer, lines);
    }
    Tile::template store<4>(output, output_bytes);
    Tile::template store<5>(output + 16, output_bytes);
    if constexpr (Count == 4) Tile::template store<6>(output + 32, output_bytes);
    if constexpr (Count == 4) Tile::template store<7>(output + 48, output_bytes);
  }
};

}  // namespace folio::inline v1::amx
