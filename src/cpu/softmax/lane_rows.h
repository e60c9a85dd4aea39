// SPDX-License-Identifier: Apache-2.0
/// src/cpu/softmax/lane_rows.h: what softmax does down the keys where a lane is a row: hide keys,
/// find maxima, round logits that are large.
///
/// ISA-safe: templates on a tag type.
#pragma once

#include <cstdint>

#include "cpu/softmax/lazy_maximum.h"
#include "cpu/vec/simd.h"

namespace folio::inline v1::softmax {

/// Scores [keys][stride] of W rows, one in each lane.
template <class I>
struct LaneRows {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  static constexpr int W = V::W;
  static constexpr float minus_infinity = -__builtin_inff();

  float* scores = nullptr;
  int64_t stride = 0;
  int keys = 0;  // a multiple of 4

  [[nodiscard]] F load(int key) const { return V::load(scores + key * stride); }
  void store(int key, F x) const { V::store(scores + key * stride, x); }

  /// Scores of keys that their row does not see become -inf. seen: [W], bit k: key k.
  void hide(const uint64_t* seen) const {
    uint32_t half[2][W];
    for (int r = 0; r < W; ++r) {
      half[0][r] = static_cast<uint32_t>(seen[r]);
      half[1][r] = static_cast<uint32_t>(seen[r] >> 32);
    }
    for (int first = 0; first < keys; first += 32) {
      const U word = V::template load_as<U>(half[first / 32]);
      U bit = V::splat(1u);
      for (int k = first; k < keys && k < first + 32; ++k, bit += bit)
        store(k, (word & bit) == U{} ? V::splat(minus_infinity) : load(k));
    }
  }

  [[nodiscard]] F highest() const {
    F top[4];
    for (int i = 0; i < 4; ++i) top[i] = load(i);
    for (int k = 4; k < keys; k += 4)
      for (int i = 0; i < 4; ++i) top[i] = V::max(top[i], load(k + i));
    return V::max(V::max(top[0], top[1]), V::max(top[2], top[3]));
  }

  /// What scores are multiplied by, fused with the subtraction of `reference`. A fused product
  /// keeps what rounding takes from it, which above 2^30 is more than the range of 2^x: scores of
  /// rows with a large reference become logits here, and their factor is 1.
  [[nodiscard]] F factor(float scale, F reference) const {
    const auto is_large = LazyMaximum<I>::is_large(reference);
    if (!V::any(is_large)) [[likely]]
      return V::splat(scale);
    for (int k = 0; k < keys; ++k) store(k, is_large ? load(k) * scale : load(k));
    return is_large ? V::splat(1.0f) : V::splat(scale);
  }
};

}  // namespace folio::inline v1::softmax
