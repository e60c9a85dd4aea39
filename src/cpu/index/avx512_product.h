// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/avx512_product.h: products of the index kernel for AVX512-BF16: vdpbf16ps of 16
/// keys at a time.
///
/// Each product is one chain in ascending order of pairs, each score one in ascending order of
/// heads. ISA-safe: templates on a tag type.
#pragma once

#include "cpu/avx512/vectors.h"
#include "cpu/index/bf16_engine.h"
#include "cpu/index/weighted_sum.h"

namespace folio::inline v1::indexer {

template <class I>
class Avx512IndexProduct {
 public:
  Avx512IndexProduct(int, const Bf16Scratch& scratch) : s_(scratch) {}

  template <bool Relu>
  void add(const HeadRows& rows, float* scores) const {
    for (int t = 0; t < rows.queries; ++t) {
      const int64_t first = int64_t{t} * rows.group;
      Sum<Relu> sum(scores + t * tile_keys, s_.scales);
      int h = 0;
      for (; h + block_heads <= rows.group; h += block_heads)
        block<block_heads>(rows, first + h, sum);
      rest<block_heads - 1>(rows, first + h, rows.group - h, sum);
      sum.store();
    }
  }

 private:
  template <bool Relu>
  using Sum = WeightedSum<I, Relu>;
  using F = typename Simd<I>::F;
  static constexpr int vectors = tile_keys / 16;
  /// Of a register tile: 16 products, 4 sums and 4 registers of keys.
  static constexpr int block_heads = 4;

  /// The last heads, R at the most.
  template <int R, class WeightedSum>
  FOLIO_ALWAYS_INLINE void rest(const HeadRows& rows, int64_t row, int left,
                                WeightedSum& sum) const {
    if constexpr (R > 0) {
      if (left == R) return block<R>(rows, row, sum);
      rest<R - 1>(rows, row, left, sum);
    }
  }

  template <int R, class WeightedSum>
  FOLIO_ALWAYS_INLINE void block(const HeadRows& rows, int64_t row, WeightedSum& sum) const {
    const auto* const q = reinterpret_cast<const std::byte*>(rows.q + row * s_.depth);
    const int64_t q_stride = int64_t{s_.depth} * 2, group_bytes = int64_t{s_.depth} * 32;
    const std::byte* keys = s_.keys;
    __m512 product[R][vectors] = {};
    for (int at = 0; at < s_.depth * 2; at += 4, keys += 64) {
      __m512i k[vectors];
#pragma GCC unroll 16
      for (int c = 0; c < vectors; ++c) k[c] = _mm512_load_si512(keys + c * group_bytes);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const __m512i pair = avx512::broadcast(q + r * q_stride + at);
#pragma GCC unroll 16
        for (int c = 0; c < vectors; ++c)
          product[r][c] = I::multiply_add(k[c], pair, product[r][c]);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      F x[vectors];
#pragma GCC unroll 16
      for (int c = 0; c < vectors; ++c) x[c] = reinterpret_cast<F>(product[r][c]);
      sum.add(x, rows.weights[row + r]);
    }
  }

  const Bf16Scratch& s_;
};

}  // namespace folio::inline v1::indexer
