// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/compute_products.h: the two products of 16 or 32 rows and one staged tile of 64 keys.
///
///     scores  S [row][64]        = Q [row tile][depth / 32][16 rows][32 dims] . K [4][depth / 32][16 dim pairs][16 keys][2]
///     values  O [row][v_depth]  += P [row][64] . V [v_depth / 16][2][16 key pairs][16 columns][2]
///
/// A column of tiles (16 keys, 16 columns of O) takes two accumulators with 32 rows. Columns alternate between two sets of them, and the
/// results of one column are stored while the next is computed: a tile store waits for the product before it, so right behind it it would
/// hold up everything. K and V are read once per row tile and leave L1 to Q, S, P and O (load_t1).
///
/// Within a column other work is done: `work.step()` is called Steps times. Each element of a result is one chain of products in
/// ascending order of dims or keys, from zero or from what O held, whatever Rows is. ISA-safe: templates on a tag type.
#pragma once

#include <cstdint>

#include "folio/core/host_device.h"

namespace folio {
inline namespace v1 {
namespace amx {

struct NoWork {
  FOLIO_ALWAYS_INLINE void step() {}
};

template <class Tile, int Depth, int VDepth, int Rows>
struct Products {
  static_assert(Depth % 32 == 0 && VDepth % 32 == 0 && (Rows == 16 || Rows == 32));
  static constexpr int keys = 64;
  static constexpr int64_t kb = 1024;
  static constexpr int dim_steps = Depth / 32;
  static constexpr int key_columns = keys / 16;
  static constexpr int value_columns = VDepth / 16;
  static constexpr int64_t score_stride = keys * 4;
  static constexpr int64_t weight_stride = keys * 2;
  static constexpr int64_t output_stride = VDepth * 4;

  template <int Steps, class Work>
  FOLIO_ALWAYS_INLINE static void scores(const uint16_t* queries, const uint16_t* staged_keys, float* to, Work& work) {
    const char* k = reinterpret_cast<const char*>(staged_keys);
    char* s = reinterpret_cast<char*>(to);
    for (int column = 0; column < key_columns; column += 2, k += 2 * dim_steps * kb, s += 128) {
      score_column<4, 2, Steps>(queries, k, column > 0 ? s - 64 : nullptr, work);
      score_column<6, 3, Steps>(queries, k + dim_steps * kb, s, work);
    }
    store<6>(s - 64, score_stride);
  }

  template <int Steps, class Work>
  FOLIO_ALWAYS_INLINE static void values(const uint16_t* weights, const uint16_t* staged_values, float* output, Work& work) {
    const char* v = reinterpret_cast<const char*>(staged_values);
    char* o = reinterpret_cast<char*>(output);
    for (int column = 0; column < value_columns; column += 2, v += 4 * kb, o += 128) {
      value_column<4, 2, Steps>(weights, v, o, column > 0 ? o - 64 : nullptr, work);
      value_column<6, 3, Steps>(weights, v + 2 * kb, o + 64, o, work);
    }
    store<6>(o - 64, output_stride);
  }

 private:
  template <int Steps, int Product, int Of, class Work>
  FOLIO_ALWAYS_INLINE static void steps(Work& work) {
    constexpr int before = Product * Steps / Of, after = (Product + 1) * Steps / Of;
    for (int i = before; i < after; ++i) work.step();
  }

  template <int C>
  FOLIO_ALWAYS_INLINE static void store(char* to, int64_t stride) {
    Tile::template store<C>(to, stride);
    if constexpr (Rows == 32) Tile::template store<C + 1>(to + 16 * stride, stride);
  }

  /// Scores of 16 keys in accumulators C, C + 1. The other two hold those before, which go to `last`.
  template <int C, int B, int Steps, class Work>
  FOLIO_ALWAYS_INLINE static void score_column(const uint16_t* queries, const char* k, char* last, Work& work) {
    Tile::template zero<C>();
    if constexpr (Rows == 32) Tile::template zero<C + 1>();
    score_chain<C, B, Steps, 0>(reinterpret_cast<const char*>(queries), k, last, work);
  }
  template <int C, int B, int Steps, int Step, class Work>
  FOLIO_ALWAYS_INLINE static void score_chain(const char* q, const char* k, char* last, Work& work) {
    constexpr int other = 10 - C;
    Tile::template load_t1<B>(k + Step * kb, 64);
    Tile::template load<0>(q + Step * kb, 64);
    Tile::template dpbf16<C, 0, B>();
    if constexpr (Step == (dim_steps > 1 ? 1 : 0))
      if (last != nullptr) Tile::template store<other>(last, score_stride);
    if constexpr (Rows == 32) {
      Tile::template load<1>(q + (dim_steps + Step) * kb, 64);
      Tile::template dpbf16<C + 1, 1, B>();
      if constexpr (Step == dim_steps - 1)
        if (last != nullptr) Tile::template store<other + 1>(last + 16 * score_stride, score_stride);
    }
    steps<Steps, Step, dim_steps>(work);
    if constexpr (Step + 1 < dim_steps) score_chain<C, B, Steps, Step + 1>(q, k, last, work);
  }

  /// 16 columns of the output at `o`.
  template <int C, int B, int Steps, class Work>
  FOLIO_ALWAYS_INLINE static void value_column(const uint16_t* weights, const char* v, char* o, char* last, Work& work) {
    constexpr int other = 10 - C;
    const char* const p = reinterpret_cast<const char*>(weights);
    Tile::template load<C>(o, output_stride);
    if constexpr (Rows == 32) Tile::template load<C + 1>(o + 16 * output_stride, output_stride);
    Tile::template load_t1<B>(v, 64);
    Tile::template load<0>(p, weight_stride);
    Tile::template dpbf16<C, 0, B>();
    if constexpr (Rows == 32) {
      Tile::template load<1>(p + 16 * weight_stride, weight_stride);
      Tile::template dpbf16<C + 1, 1, B>();
    }
    steps<Steps, 0, 2>(work);
    if (last != nullptr) Tile::template store<other>(last, output_stride);
    Tile::template load_t1<B>(v + kb, 64);
    Tile::template load<0>(p + 64, weight_stride);
    Tile::template dpbf16<C, 0, B>();
    if constexpr (Rows == 32) {
      if (last != nullptr) Tile::template store<other + 1>(last + 16 * output_stride, output_stride);
      Tile::template load<1>(p + 16 * weight_stride + 64, weight_stride);
      Tile::template dpbf16<C + 1, 1, B>();
    }
    steps<Steps, 1, 2>(work);
  }
};

}  // namespace amx
}  // namespace v1
}  // namespace folio
