// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/amx_product.h: products of the index kernel for AMX: 16 rows of q, of as many
/// queries as they are, with 64 keys at a time.
///
/// Those of the next rows come before what follows those of the last, and are stored behind it:
/// tiles and vectors have work at once, and no store waits for a product. Rows are independent of
/// one another: no bit depends on which of them share a product. ISA-safe: templates on a tag type
/// with a tile vocabulary.
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
    multiply(rows.q);
    store();
    for (int first = 0; first < count; first += product_rows) {
      const bool is_last = first + product_rows >= count;
      if (!is_last) multiply(rows.q + int64_t{first + product_rows} * s_.depth);
      weigh<Relu>(rows, first, is_last ? count : first + product_rows, scores);
      if (!is_last) store();
    }
  }

 private:
  using Tile = typename I::Tile;
  using V = Simd<I>;

  /// 16 rows from `q` on, into tiles 4 to 7.
  [[gnu::noinline]] void multiply(const bf16* q) const {
    const int64_t row = int64_t{s_.depth} * 2, group = int64_t{s_.depth} * 32;
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
  }
  FOLIO_ALWAYS_INLINE void store() const {
    float* const to = s_.products;
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

  /// Rows [first, end), whose products are stored, to the scores of their queries.
  template <bool Relu>
  void weigh(const HeadRows& rows, int first, int end, float* scores) const {
    using Sum = WeightedSum<I, Relu>;
    const float* products = s_.products;
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
