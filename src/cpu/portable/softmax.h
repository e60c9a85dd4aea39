// SPDX-License-Identifier: Apache-2.0
/// src/cpu/portable/softmax.h: one row of logits to probabilities, the online softmax state, and
/// how states fold.
///
/// Source: Milakov and Gimelshein 2018, online normalizer calculation.
#pragma once

#include <cstdint>

#include "cpu/portable/scratch.h"
#include "cpu/skeleton/mutant.h"
#include "cpu/skeleton/task_view.h"
#include "cpu/vec/simd.h"
#include "kernel/units.h"

namespace folio::inline v1::portable {

using skeleton::LogitTerms;
using skeleton::State;

template <class I>
struct Softmax {
  using V = Simd<I>;
  using F = typename V::F;
  static constexpr int W = V::W;
  static constexpr float minus_infinity = -__builtin_inff();

  /// Turns the row's products into probabilities relative to the row's new maximum, updates maximum
  /// and denominator, and leaves the factor for the row's output in `rescale`. A row that sees
  /// nothing of the tile keeps its state bit for bit.
  static void row(const Scratch& s, const State& state, int r, uint64_t seen,
                  const LogitTerms& terms) {
    float* x = s.scores + static_cast<int64_t>(r) * tile_keys;
    if (seen == 0) {
      for (int i = 0; i < tile_keys; i += W) V::store(x + i, F{});
      s.rescale[r] = 1.0f;
      return;
    }
    if (terms.softcap != 0.0f || terms.alibi || terms.bias != nullptr) add_terms(x, terms);
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
    s.rescale[r] = rescale;
  }

  static float exp(float x) { return V::exp_one(x); }
  using Units = skeleton::NaturalUnits;

  /// One row of states: to = to * keep + from * add.
  static void fold(float* to, const float* from, int n, float keep, float add) {
    for (int d = 0; d < n; d += W) {
      F part = V::load(from + d);
      if (I::mutant == Mutant::partials_in_bf16)
        part = V::floats(V::bits(part) & V::splat(0xffff0000u));
      V::store(to + d, V::fma(part, V::splat(add), V::load(to + d) * keep));
    }
  }

 private:
  static void add_terms(float* x, const LogitTerms& terms) {
    float bias[tile_keys];
    const float* addend = terms.bias;
    if (addend != nullptr && terms.bias_keys < tile_keys) {  // nothing behind the last key is read
      for (int i = 0; i < tile_keys; ++i) bias[i] = i < terms.bias_keys ? terms.bias[i] : 0.0f;
      addend = bias;
    }
    for (int i = 0; i < tile_keys; i += W) {
      F v = V::load(x + i);
      if (terms.softcap != 0.0f && I::mutant != Mutant::softcap_ignored)
        v = terms.softcap * V::tanh(v / terms.softcap);
      if (terms.alibi) {
        const F offset = terms.distance - (lane_numbers() + static_cast<float>(i));
        const F distance = V::floats(V::bits(offset) & V::splat(0x7fffffffu));
        v = V::fma(V::splat(-terms.slope), distance, v);
      }
      F added = {};
      if (addend != nullptr) v += added = V::load(addend + i);
      V::store(x + i, V::saturate(v, added));
    }
  }

  static F lane_numbers() {
    float lane[W];
    for (int i = 0; i < W; ++i) lane[i] = static_cast<float>(i);
    return V::load(lane);
  }
};

}  // namespace folio::inline v1::portable
