// SPDX-License-Identifier: Apache-2.0
/// src/cpu/softmax/terms.h: products to logits, on every instruction set: softcap, ALiBi and bias,
/// and where float32 ends.
///
///     logit = softcap(product) - slope |distance| + bias      in natural units, saturated, then in
///                                                             the engine's
///
/// Natural units first, because nothing else holds every finite logit: a term in units of log2 may
/// leave the range of float32 where the sum of all does not. A finite bias stays finite, -inf hides
/// the key. Engines differ in what a lane is, a key (of_row) or a row (of_rows), in nothing else.
///
/// ISA-safe: templates on a tag type.
#pragma once

#include <cstdint>

#include "cpu/convert/rows.h"
#include "cpu/skeleton/logit_terms.h"
#include "cpu/skeleton/mutant.h"
#include "cpu/vec/simd.h"
#include "folio/attention/kv_buffer/page_cursor.h"
#include "kernel/units.h"

namespace folio::inline v1::softmax {

template <class I, class Units>
class Terms {
 public:
  using V = Simd<I>;
  using F = typename V::F;
  using LogitTerms = skeleton::LogitTerms;
  static constexpr int W = V::W;

  /// One row, a key in each lane: scores [64]. scale(k) times the scores of keys k ... k + W - 1
  /// are products.
  template <class Scale>
  static void of_row(float* scores, const Scale& scale, const LogitTerms& terms) {
    const Cap cap(terms.softcap);
    float offset[tile_keys], memory[tile_keys];
    const float* bias = memory;
    if (terms.alibi) find_offsets(terms, offset);
    if (terms.bias != nullptr) bias = widened(terms.bias, terms, memory);
    for (int k = 0; k < tile_keys; k += W) {
      F x = capped(V::load(scores + k) * scale(k), cap);
      if (terms.alibi)
        x = V::fma(V::splat(-terms.slope), size(terms.distance - V::load(offset + k)), x);
      V::store(scores + k, finished(x, terms, bias + k));
    }
  }

  /// W rows, one in each lane: scores [keys][stride], aligned to vectors. terms_of(i): of row i,
  /// all of one task and one tile.
  template <class TermsOf>
  static void of_rows(float* scores, int64_t stride, int keys, float scale,
                      const TermsOf& terms_of) {
    const LogitTerms terms = terms_of(0);
    const Cap cap(terms.softcap);
    float slope[W], distance[W], offset[tile_keys];
    float bias[tile_keys * W];
    const void* bias_of[W];
    for (int r = 0; r < W; ++r) {
      const LogitTerms row = terms_of(r);
      slope[r] = -row.slope;
      distance[r] = row.distance;
      bias_of[r] = row.bias;
    }
    if (terms.alibi) find_offsets(terms, offset);
    if (terms.bias != nullptr) gather_bias(bias_of, terms, keys, bias);
    for (int k = 0; k < keys; ++k) {
      float* const at = scores + k * stride;
      F x = capped(V::load(at) * scale, cap);
      if (terms.alibi) x = V::fma(V::load(slope), size(V::load(distance) - offset[k]), x);
      V::store(at, finished(x, terms, bias + k * W));
    }
  }

 private:
  struct Cap {
    /// The inverse goes no further from 0 than floats do, so that 0 stays 0.
    explicit Cap(float softcap)
        : is_given(softcap != 0.0f && I::mutant != Mutant::softcap_ignored),
          of(softcap),
          inverse(1.0f / softcap < skeleton::largest_float ? 1.0f / softcap
                                                           : skeleton::largest_float) {}
    bool is_given;
    float of, inverse;
  };
  static F capped(F x, const Cap& cap) {
    return cap.is_given ? cap.of * V::tanh(x * cap.inverse) : x;
  }
  static F size(F x) { return V::floats(V::bits(x) & V::splat(0x7fffffffu)); }

  /// A product, capped or not, is finite.
  static F finished(F x, const LogitTerms& terms, const float* bias) {
    if (terms.bias != nullptr) {
      const F added = V::load(bias);
      x = V::saturate(x + added, added);
    } else if (terms.alibi) {
      x = V::saturate(x, F{});
    }
    return in(Units(), x);
  }

  static F in(skeleton::NaturalUnits, F logit) { return logit; }
  /// Log2Units::of
  static F in(skeleton::Log2Units units, F logit) {
    const F distance = size(logit);
    const F beyond = V::fma(distance, V::splat(0.5f), V::splat(units.shift));
    const F there = V::floats(V::bits(beyond) | (V::bits(logit) & V::splat(0x80000000u)));
    return distance > V::splat(units.turn) ? there : logit * units.log2_e;
  }

  /// Positions of the tile's keys, from that of the first.
  static void find_offsets(const LogitTerms& terms, float* to) {
    for (int k = 0; k < tile_keys; ++k) to[k] = static_cast<float>(k);
    if (terms.positions == nullptr) return;
    for (int k = 0; k < terms.keys; ++k)
      to[k] = static_cast<float>(int64_t{terms.positions[k]} - terms.positions[0]);
  }

  /// The bias of 64 keys where it lies, or in `memory`: 0 for those behind the last.
  static const float* widened(const void* bias, const LogitTerms& terms, float* memory) {
    if (terms.bias_dtype == DType::f32 && terms.keys == tile_keys)
      return static_cast<const float*>(bias);
    for (int k = terms.keys; k < tile_keys; ++k) memory[k] = 0.0f;
    const auto* const from = static_cast<const std::byte*>(bias);
    Rows<I>::widen(terms.bias_dtype, &from, 1, memory, tile_keys, terms.keys);
    return memory;
  }
  /// [keys][W]
  static void gather_bias(const void* const* bias, const LogitTerms& terms, int keys, float* to) {
    float memory[W][tile_keys];
    const float* rows[W];
    for (int r = 0; r < W; ++r) rows[r] = widened(bias[r], terms, memory[r]);
    for (int k = 0; k < keys; k += W) {
      F block[W];
      for (int r = 0; r < W; ++r) block[r] = V::load(rows[r] + k);
      V::transpose(block);
      for (int i = 0; i < W; ++i) V::store(to + (k + i) * W, block[i]);
    }
  }
};

}  // namespace folio::inline v1::softmax
