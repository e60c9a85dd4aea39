// SPDX-License-Identifier: Apache-2.0
/// src/cpu/portable_softmax.h: one row of logits to probabilities, the online softmax state, and how states fold.
///
/// Source: Milakov and Gimelshein 2018, online normalizer calculation.
#pragma once

#include <cstdint>

#include "cpu/mutant.h"
#include "cpu/portable_scratch.h"
#include "cpu/simd.h"

namespace folio {
inline namespace v1 {
namespace portable {

/// What is added to the scaled products of one row in one tile.
struct LogitTerms {
  float softcap = 0.0f;  // 0: none
  float slope = 0.0f;    // ALiBi
  bool alibi = false;
  float distance = 0.0f;        // position of the query minus position of the tile's first key
  const float* bias = nullptr;  // of the tile's first key
  int bias_keys = 0;            // readable from there
};

template <class I>
struct Softmax {
  using V = Simd<I>;
  using F = typename V::F;
  static constexpr int W = V::W;
  static constexpr float minus_infinity = -__builtin_inff();

  /// Turns the row's products into probabilities relative to the row's new maximum, updates maximum and denominator, and leaves the
  /// factor for the row's output in `rescale`. A row that sees nothing of the tile keeps its state bit for bit.
  static void row(const Scratch& s, int r, uint64_t seen, const LogitTerms& terms) {
    float* x = s.scores + static_cast<int64_t>(r) * key_tile;
    if (seen == 0) {
      for (int i = 0; i < key_tile; i += W) V::store(x + i, F{});
      s.rescale[r] = 1.0f;
      return;
    }
    if (terms.softcap != 0.0f || terms.alibi || terms.bias != nullptr) add_terms(x, terms);
    F highest = V::splat(minus_infinity);
    for (int i = 0; i < key_tile; i += W) {
      F v = V::load(x + i);
      if (seen != ~uint64_t{0}) v = V::lanes(static_cast<uint32_t>(seen >> i)) ? v : V::splat(minus_infinity);
      highest = V::max(v, highest);
      V::store(x + i, v);
    }
    const float old = s.span.maximum[r];
    const float tile = V::max_lane(highest);
    const float maximum = tile > old ? tile : old;
    const float reference = maximum == minus_infinity ? 0.0f : maximum;  // all visible logits are -inf: e^-inf, not NaN
    F sum = {};
    for (int i = 0; i < key_tile; i += W) {
      const F p = V::exp(V::load(x + i) - reference);
      V::store(x + i, p);
      sum += p;
    }
    const float rescale = V::exp_one(old - reference);
    s.span.maximum[r] = maximum;
    s.span.denominator[r] = s.span.denominator[r] * rescale + V::sum(sum);
    s.rescale[r] = rescale;
  }

  /// total = total (+) span for row r. A span that saw nothing changes nothing and its output is not read.
  static void fold(const State& total, const State& span, int r, int v_head) {
    const float other = span.maximum[r];
    if (other == minus_infinity && span.denominator[r] == 0.0f) return;
    const float old = total.maximum[r];
    const float maximum = other > old ? other : old;
    const float reference = maximum == minus_infinity ? 0.0f : maximum;
    const float keep = V::exp_one(old - reference), add = V::exp_one(other - reference);
    float* to = total.output + static_cast<int64_t>(r) * v_head;
    const float* from = span.output + static_cast<int64_t>(r) * v_head;
    for (int d = 0; d < v_head; d += W) {
      F part = V::load(from + d);
      if constexpr (I::mutant == Mutant::partials_in_bf16) part = V::floats(V::bits(part) & V::splat(0xffff0000u));
      V::store(to + d, V::fma(part, V::splat(add), V::load(to + d) * keep));
    }
    total.maximum[r] = maximum;
    total.denominator[r] = total.denominator[r] * keep + span.denominator[r] * add;
  }

 private:
  static void add_terms(float* x, const LogitTerms& terms) {
    float bias[key_tile];
    const float* addend = terms.bias;
    if (addend != nullptr && terms.bias_keys < key_tile) {  // nothing behind the last key is read
      for (int i = 0; i < key_tile; ++i) bias[i] = i < terms.bias_keys ? terms.bias[i] : 0.0f;
      addend = bias;
    }
    for (int i = 0; i < key_tile; i += W) {
      F v = V::load(x + i);
      if (terms.softcap != 0.0f && I::mutant != Mutant::softcap_ignored) v = terms.softcap * V::tanh(v / terms.softcap);
      if (terms.alibi) {
        const F offset = terms.distance - (lane_numbers() + static_cast<float>(i));
        const F distance = V::floats(V::bits(offset) & V::splat(0x7fffffffu));
        v = V::fma(V::splat(-terms.slope), distance, v);
      }
      if (addend != nullptr) v += V::load(addend + i);
      V::store(x + i, v);
    }
  }

  static F lane_numbers() {
    float lane[W];
    for (int i = 0; i < W; ++i) lane[i] = static_cast<float>(i);
    return V::load(lane);
  }
};

}  // namespace portable
}  // namespace v1
}  // namespace folio
