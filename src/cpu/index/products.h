// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/products.h: the register-tiled products of the portable index engine, with what
/// follows them: relu, weights, the sum over heads.
///
/// A lane is a key, so that a sum over heads crosses no lanes and products of single heads are
/// never stored. Each product is one chain of multiply-adds in ascending order of dimensions, each
/// score one in ascending order of heads. ISA-safe: templates on a tag type.
#pragma once

#include <cstdint>

#include "cpu/index/mutant.h"
#include "cpu/vec/simd.h"
#include "folio/attention/kv_buffer/page_cursor.h"

namespace folio::inline v1::indexer {

template <class I>
struct Products {
  using V = Simd<I>;
  using F = typename V::F;
  static constexpr int W = V::W;
  static constexpr int vectors = I::score_vectors;
  static constexpr int strip_keys = vectors * W;
  static constexpr int strips = tile_keys / strip_keys;
  /// Heads of a register tile: with sums and keys as many as there are registers for.
  static constexpr int block_heads = W == 16 ? 4 : 6;

  /// Some heads of one query.
  struct Heads {
    const float* q = nullptr;        // [count], rows `stride` apart
    const float* weights = nullptr;  // [count]
    int count = 0;
    int stride = 0;
  };

  /// scores [strip_keys] += sum over heads; `keys` [head_size][strip_keys].
  template <bool Relu>
  static void add(const Heads& heads, const float* keys, int head_size, float* scores) {
    F sum[vectors];
    for (int c = 0; c < vectors; ++c) sum[c] = V::load(scores + c * W);
    int h = 0;
    for (; h + block_heads <= heads.count; h += block_heads)
      block<block_heads, Relu>(heads, h, keys, head_size, sum);
    rest<block_heads - 1, Relu>(heads, h, keys, head_size, sum);
    for (int c = 0; c < vectors; ++c) V::store(scores + c * W, sum[c]);
  }

 private:
  /// The last heads, R at the most.
  template <int R, bool Relu>
  FOLIO_ALWAYS_INLINE static void rest(const Heads& heads, int h, const float* keys, int head_size,
                                       F (&sum)[vectors]) {
    if constexpr (R > 0) {
      if (heads.count - h == R) return block<R, Relu>(heads, h, keys, head_size, sum);
      rest<R - 1, Relu>(heads, h, keys, head_size, sum);
    }
  }

  template <int R, bool Relu>
  FOLIO_ALWAYS_INLINE static void block(const Heads& heads, int first, const float* keys,
                                        int head_size, F (&sum)[vectors]) {
    const float* const q = heads.q + static_cast<int64_t>(first) * heads.stride;
    F product[R][vectors] = {};
    for (int d = 0; d < head_size; ++d, keys += strip_keys) {
      F k[vectors];
      for (int c = 0; c < vectors; ++c) k[c] = V::load(keys + c * W);
      for (int r = 0; r < R; ++r) {
        const F broadcast = V::splat(q[static_cast<int64_t>(r) * heads.stride + d]);
        for (int c = 0; c < vectors; ++c) product[r][c] = V::fma(broadcast, k[c], product[r][c]);
      }
    }
    for (int r = 0; r < R; ++r) {
      const int head = I::index_mutant == IndexMutant::weight_of_next_head
                           ? (first + r + 1) % heads.count
                           : first + r;
      const F weight = V::splat(heads.weights[head]);
      for (int c = 0; c < vectors; ++c) {
        const F x = product[r][c];
        // NaN is not below 0: it stays
        const F f = Relu && I::index_mutant != IndexMutant::relu_ignored ? (x < F{} ? F{} : x) : x;
        sum[c] = V::fma(weight, f, sum[c]);
      }
    }
  }
};

}  // namespace folio::inline v1::indexer
