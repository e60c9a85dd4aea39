// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/weighted_sum.h: what follows the products of q with 64 keys in the index kernels
/// of bf16: the keys' scales, relu, weights, the sum over heads.
///
/// A lane is a key. ISA-safe: templates on a tag type.
#pragma once

#include "cpu/vec/simd.h"
#include "folio/attention/kv_buffer/page_cursor.h"

namespace folio::inline v1::indexer {

/// The scores of one query, in registers while heads join them.
template <class I, bool Relu>
class WeightedSum {
  using V = Simd<I>;

 public:
  using F = typename V::F;
  static constexpr int vectors = tile_keys / V::W;

  /// `scores` [64], 64-byte aligned, with what joined before; `scales` [64].
  FOLIO_ALWAYS_INLINE WeightedSum(float* scores, const float* scales)
      : scores_(scores), scales_(scales) {
#pragma GCC unroll 16
    for (int c = 0; c < vectors; ++c) sum_[c] = V::load(scores + c * V::W);
  }
  /// Of a head.
  FOLIO_ALWAYS_INLINE void add(const F (&product)[vectors], float weight) {
    const F w = V::splat(weight);
#pragma GCC unroll 16
    for (int c = 0; c < vectors; ++c) {
      const F x = product[c] * V::load(scales_ + c * V::W);
      // NaN is not below 0: it stays
      sum_[c] = V::fma(w, Relu ? (x < F{} ? F{} : x) : x, sum_[c]);
    }
  }
  FOLIO_ALWAYS_INLINE void store() const {
#pragma GCC unroll 16
    for (int c = 0; c < vectors; ++c) V::store(scores_ + c * V::W, sum_[c]);
  }

 private:
  float* scores_;
  const float* scales_;
  F sum_[vectors];
};

}  // namespace folio::inline v1::indexer
