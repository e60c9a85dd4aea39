// SPDX-License-Identifier: Apache-2.0
/// src/cpu/portable/tiles.h: the two register-tiled products of the portable kernel.
///
/// scores = q . keys with a key per lane, and output = output * rescale + probabilities . values
/// with a dimension per lane. Each element is one chain of fused multiply-adds in ascending order,
/// whatever the tile it falls into, so rows never influence one another and a query's bits do not
/// depend on how rows are grouped.
#pragma once

#include <cstdint>

#include "cpu/portable/scratch.h"
#include "cpu/vec/simd.h"

namespace folio::inline v1::portable {

template <class I>
struct Tiles {
  using V = Simd<I>;
  using F = typename V::F;
  static constexpr int W = V::W;
  static constexpr int score_vectors = I::score_vectors;  // registers of keys
  static constexpr int value_vectors = I::score_vectors;  // registers of dimensions
  static constexpr int block_rows = Tuning::block_rows;

  /// For rows [r, end): scores [row][tile_keys] = q [row][stride head] . keys
  /// [head_size][tile_keys]
  static void scores(const Scratch& s, int r, int end, int head_size) {
    for (; r + block_rows <= end; r += block_rows) score_block<block_rows>(s, r, head_size);
    switch (end - r) {
      case 1: return score_block<1>(s, r, head_size);
      case 2: return score_block<2>(s, r, head_size);
      case 3: return score_block<3>(s, r, head_size);
      default: return;
    }
  }

  /// For rows [r, end): output [row][v_head] = output * rescale[row] + scores [row][keys] . values
  /// [keys][v_head]
  static void values(const Scratch& s, float* output, int r, int end, int keys) {
    for (; r + block_rows <= end; r += block_rows) value_block<block_rows>(s, output, r, keys);
    switch (end - r) {
      case 1: return value_block<1>(s, output, r, keys);
      case 2: return value_block<2>(s, output, r, keys);
      case 3: return value_block<3>(s, output, r, keys);
      default: return;
    }
  }

 private:
  template <int R>
  static void score_block(const Scratch& s, int row, int head_size) {
    const float* q = s.q + static_cast<int64_t>(row) * s.head;
    float* out = s.scores + static_cast<int64_t>(row) * tile_keys;
    for (int key = 0; key < tile_keys; key += score_vectors * W) {
      F sum[R][score_vectors] = {};
      const float* keys = s.keys + key;
      for (int d = 0; d < head_size; ++d, keys += tile_keys) {
        F k[score_vectors];
        for (int c = 0; c < score_vectors; ++c) k[c] = V::load(keys + c * W);
        for (int r = 0; r < R; ++r) {
          const F broadcast = V::splat(q[static_cast<int64_t>(r) * s.head + d]);
          for (int c = 0; c < score_vectors; ++c) sum[r][c] = V::fma(broadcast, k[c], sum[r][c]);
        }
      }
      for (int r = 0; r < R; ++r)
        for (int c = 0; c < score_vectors; ++c)
          V::store(out + r * tile_keys + key + c * W, sum[r][c]);
    }
  }

  template <int R>
  static void value_block(const Scratch& s, float* output, int row, int keys) {
    int d = 0;
    for (; d + value_vectors * W <= s.v_head; d += value_vectors * W)
      value_strip<R, value_vectors>(s, output, row, keys, d);
    for (; d < s.v_head; d += W) value_strip<R, 1>(s, output, row, keys, d);
  }

  template <int R, int C>
  static void value_strip(const Scratch& s, float* output, int row, int keys, int d) {
    const float* p = s.scores + static_cast<int64_t>(row) * tile_keys;
    float* out = output + static_cast<int64_t>(row) * s.v_head + d;
    F sum[R][C];
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < C; ++c)
        sum[r][c] = V::load(out + static_cast<int64_t>(r) * s.v_head + c * W) * s.rescale[row + r];
    const float* v = s.values + d;
    for (int key = 0; key < keys; ++key, v += s.v_head) {
      F value[C];
      for (int c = 0; c < C; ++c) value[c] = V::load(v + c * W);
      for (int r = 0; r < R; ++r) {
        const F broadcast = V::splat(p[r * tile_keys + key]);
        for (int c = 0; c < C; ++c) sum[r][c] = V::fma(broadcast, value[c], sum[r][c]);
      }
    }
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < C; ++c)
        V::store(out + static_cast<int64_t>(r) * s.v_head + c * W, sum[r][c]);
  }
};

}  // namespace folio::inline v1::portable
