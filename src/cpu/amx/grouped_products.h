// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped_products.h: the two products of 16 rows with one staged tile of 64 keys.
///
///     S [16][64] f32  = Q [depth / 32][16][32] . K [4][depth / 32][16][16][2]            four chains, one for each group of keys
///     O [16][v_depth] f32 += P [16][64] bf16 . V [v_depth / 16][2][16][16][2]            four columns of tiles at a time
///
/// Tiles are configured as tiles_of_rows says: rows of Q, S, P and O that there are not are neither read nor written. Each element is one
/// chain in ascending order of dims, or keys, from what was there before. The pacer gets a tick at each product.
/// ISA-safe: templates on a tile vocabulary.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/amx/pacer.h"
#include "cpu/amx/stage_keys.h"

namespace folio {
inline namespace v1 {
namespace amx {

template <class I, int Depth, int VDepth>
class GroupedProducts {
  using Tile = typename I::Tile;

 public:
  static constexpr int k_steps = Depth / 32;
  static constexpr int64_t query_tile_bytes = k_steps * tile_bytes;

  __attribute__((noinline)) static void scores(const std::byte* queries, const std::byte* keys, float* to, Pacer<I>& pacer,
                                               int lines) {
    Tile::template zero<4>();
    Tile::template zero<5>();
    Tile::template zero<6>();
    Tile::template zero<7>();
    constexpr int64_t group = k_steps * tile_bytes;
    for (int k = 0; k < k_steps; ++k, queries += tile_bytes, keys += tile_bytes) {
      Tile::template load<0>(queries, 64);
      Tile::template load<1>(keys, 64);
      Tile::template dpbf16<4, 0, 1>();
      pacer.tick(lines);
      Tile::template load<2>(keys + group, 64);
      Tile::template dpbf16<5, 0, 2>();
      pacer.tick(lines);
      Tile::template load<3>(keys + 2 * group, 64);
      Tile::template dpbf16<6, 0, 3>();
      pacer.tick(lines);
      Tile::template load<1>(keys + 3 * group, 64);
      Tile::template dpbf16<7, 0, 1>();
      pacer.tick(lines);
    }
    Tile::template store<4>(to, 256);
    Tile::template store<5>(to + 16, 256);
    Tile::template store<6>(to + 32, 256);
    Tile::template store<7>(to + 48, 256);
  }

  __attribute__((noinline)) static void values(const uint16_t* weights, const std::byte* values, float* output, Pacer<I>& pacer,
                                               int lines) {
    int column = 0;
    for (; column + 64 <= VDepth; column += 64) four(weights, values + column * 128, output + column, pacer, lines);
    if constexpr (VDepth % 64 != 0) two(weights, values + column * 128, output + column, pacer, lines);
  }

 private:
  static constexpr int64_t output_bytes = int64_t{VDepth} * 4;

  FOLIO_ALWAYS_INLINE static void four(const uint16_t* weights, const std::byte* values, float* output, Pacer<I>& pacer,
                                       int lines) {
    Tile::template load<4>(output, output_bytes);
    Tile::template load<5>(output + 16, output_bytes);
    Tile::template load<6>(output + 32, output_bytes);
    Tile::template load<7>(output + 48, output_bytes);
    for (int half = 0; half < 2; ++half, values += tile_bytes) {
      Tile::template load<0>(weights + 32 * half, 128);
      Tile::template load<1>(values, 64);
      Tile::template dpbf16<4, 0, 1>();
      pacer.tick(lines);
      Tile::template load<2>(values + 2 * tile_bytes, 64);
      Tile::template dpbf16<5, 0, 2>();
      pacer.tick(lines);
      Tile::template load<3>(values + 4 * tile_bytes, 64);
      Tile::template dpbf16<6, 0, 3>();
      pacer.tick(lines);
      Tile::template load<1>(values + 6 * tile_bytes, 64);
      Tile::template dpbf16<7, 0, 1>();
      pacer.tick(lines);
    }
    Tile::template store<4>(output, output_bytes);
    Tile::template store<5>(output + 16, output_bytes);
    Tile::template store<6>(output + 32, output_bytes);
    Tile::template store<7>(output + 48, output_bytes);
  }

  FOLIO_ALWAYS_INLINE static void two(const uint16_t* weights, const std::byte* values, float* output, Pacer<I>& pacer,
                                      int lines) {
    Tile::template load<4>(output, output_bytes);
    Tile::template load<5>(output + 16, output_bytes);
    for (int half = 0; half < 2; ++half, values += tile_bytes) {
      Tile::template load<0>(weights + 32 * half, 128);
      Tile::template load<1>(values, 64);
      Tile::template dpbf16<4, 0, 1>();
      pacer.tick(lines);
      Tile::template load<2>(values + 2 * tile_bytes, 64);
      Tile::template dpbf16<5, 0, 2>();
      pacer.tick(lines);
    }
    Tile::template store<4>(output, output_bytes);
    Tile::template store<5>(output + 16, output_bytes);
  }
};

}  // namespace amx
}  // namespace v1
}  // namespace folio
