// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/amx_product.h: products of the index kernel for AMX: 16 rows of q, of as many
/// queries as they are, with 64 keys at a time.
///
/// Those of the next rows come before what follows those of the last, so that tiles and vectors
/// have work at once. Rows are independent of one another: no bit depends on which of them share a
/// product. ISA-safe: templates on a tag type with a tile vocabulary.
#pragma once

#include "cpu/amx/tile/tile.h"
#include "cpu/index/bf16_engine.h"
#include "cpu/index/weighted_sum.h"

namespace folio::inline v1::indexer {

template <class I>
class AmxIndexProduct {
 public:
  AmxIndexProduct(int rows, const Bf16Scratch& scratch)
      : s_(scratch), tiles_(rows < product_rows ? rows : product_rows) {
    // keep_awake multiplies these while keys are staged
    Tile::template zero<0>();
    Tile::template zero<1>();
    Tile::template zero<7>();
  }

  template <bool Relu>
  void add(const HeadRows& rows, float* scores) const {
    const int count = rows.queries * rows.group;
    multiply(rows.q, 0);
    for (int first = 0, half = 0; first < count; first += product_rows, half = 1 - half) {
      if (first + product_rows < count)
        multiply(rows.q + int64_t{first + product_rows} * s_.depth, 1 - half);
      const int end = first + product_rows < count ? first + product_rows : count;
      weigh<Relu>(rows, first, end, products_at(half), scores);
    }
  }

 private:
  using Tile = typename I::Tile;
  using V = Simd<I>;

  [[nodiscard]] float* products_at(int half) const {
    return s_.products + half * product_rows * tile_keys;
  }

  /// 16 rows from `q` on.
  [[gnu::noinline]] void multiply(const bf16* q, int half) const {
    const int64_t row = int64_t{s_.depth} * 2, group = int64_t{s_.depth} * 32;
    float* const to = products_at(half);
    const std::byte* keys = s_.keys;
    Tile::template zero<4>();
    Tile::template zero<5>();
    Tile::template zero<6>();
    Tile::template zero<7>();
    for (int d = 0; d < s_.depth; d += 32, keys += amx::tile_bytes) {
      Tile::template load<0>(q + d, row);
      add_group<4, 1>(keys);
      add_group<5, 2>(keys + group);
      add_group<6, 3>(keys + 2 * group);
      add_group<7, 1>(keys + 3 * group);
    }
    Tile::template store<4>(to, 4 * tile_keys);
    Tile::template store<5>(to + 16, 4 * tile_keys);
    Tile::template store<6>(to + 32, 4 * tile_keys);
    Tile::template store<7>(to + 48, 4 * tile_keys);
  }
  template <int C, int B>
  FOLIO_ALWAYS_INLINE static void add_group(const std::byte* keys) {
    Tile::template load<B>(keys, 64);
    Tile::template dpbf16<C, 0, B>();
  }

  /// Rows [first, end), whose products are `products`, to the scores of their queries.
  template <bool Relu>
  void weigh(const HeadRows& rows, int first, int end, const float* products, float* scores) const {
    using Sum = WeightedSum<I, Relu>;
    for (int r = first; r < end;) {
      const int t = r / rows.group, last = (t + 1) * rows.group < end ? (t + 1) * rows.group : end;
      Sum sum(scores + t * tile_keys, s_.scales);
      for (; r < last; ++r, products += tile_keys) {
        typename Sum::F x[Sum::vectors];
        for (int c = 0; c < Sum::vectors; ++c) x[c] = V::load(products + c * V::W);
        sum.add(x, rows.weights[r]);
      }
      sum.store();
    }
  }

  const Bf16Scratch& s_;
  const amx::TileScope<Tile> tiles_;
};

}  // namespace folio::inline v1::indexer
