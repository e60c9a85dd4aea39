// SPDX-License-Identifier: Apache-2.0
/// src/cpu/softmax/one_row.h: one row of logits to probabilities, the online softmax state.
///
/// Source: Milakov and Gimelshein 2018, online normalizer calculation.
#pragma once

#include <cstdint>

#include "cpu/skeleton/state.h"
#include "cpu/softmax/terms.h"
#include "cpu/vec/simd.h"
#include "kernel/units.h"

namespace folio::inline v1::softmax {

template <class I>
struct OneRow {
  using Units = skeleton::NaturalUnits;
  using V = Simd<I>;
  using F = typename V::F;
  static constexpr int W = V::W;
  static constexpr float minus_infinity = -__builtin_inff();

  /// Turns products x [tile_keys] of row r into probabilities relative to the row's new maximum,
  /// updates maximum and denominator, and returns the factor for the row's output. A row that sees
  /// nothing of the tile keeps its state bit for bit.
  static float run(float* x, const skeleton::State& state, int r, uint64_t seen,
                   const skeleton::LogitTerms& terms) {
    if (seen == 0) {
      for (int i = 0; i < tile_keys; i += W) V::store(x + i, F{});
      return 1.0f;
    }
    if (terms.softcap != 0.0f || terms.alibi || terms.bias != nullptr)
      Terms<I, Units>::of_row(
          x, [](int) { return 1.0f; }, terms);
    F highest = V::splat(minus_infinity);
    for (int i = 0; i < tile_keys; i += W) {
      F v = V::load(x + i);
      if (seen != ~uint64_t{0})
        v = V::lanes(static_cast<uint32_t>(seen >> i)) ? v : V::splat(minus_infinity);
      highest = V::max(v, highest);
      V::store(x + i, v);
    }
    const float old = state.maximum[r];
    const float tile = V::max_lane(highest);
    const float maximum = tile > old ? tile : old;
    // all visible logits are -inf: e^-inf, not NaN
    const float reference = maximum == minus_infinity ? 0.0f : maximum;
    F sum = {};
    for (int i = 0; i < tile_keys; i += W) {
      const F p = V::exp(V::load(x + i) - reference);
      V::store(x + i, p);
      sum += p;
    }
    const float rescale = V::exp_one(old - reference);
    state.maximum[r] = maximum;
    state.denominator[r] = state.denominator[r] * rescale + V::sum(sum);
    return rescale;
  }
};

}  // namespace folio::inline v1::softmax
