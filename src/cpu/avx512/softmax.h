// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/softmax.h: scores of one tile to weights, sixteen rows at a time: everything runs
/// down the keys, lane by lane.
///
/// The maximum of a row is lazy (softmax/lazy_maximum.h): it moves when a tile's exceeds it by more
/// than 8, so weights stay below 2^8. Logits are in units of log2. What a lane gets depends on that
/// row's scores alone. ISA-safe: templates on a tag type.
#pragma once

#include "cpu/avx512/exp2.h"
#include "cpu/avx512/layout.h"
#include "cpu/avx512/vectors.h"
#include "cpu/softmax/lane_rows.h"
#include "cpu/softmax/lazy_maximum.h"

namespace folio::inline v1::avx512 {

/// Sixteen rows of a tile and their state.
struct Column {
  float* scores = nullptr;              // [keys][row_block]
  uint32_t* weights = nullptr;          // [steps][row_block]
  int keys = 0;                         // a multiple of 4
  int rows = 0;                         // that exist; the other lanes hold anything
  int written = 0;                      // that products write, those behind `rows` with anything
  float factor = 0.0f;                  // of the scores, to logits in units of log2; > 0
  const float* value_scales = nullptr;  // [keys], or null
  const float* highest = nullptr;       // of each row's scores, where they are known; or null
  float* maximum = nullptr;
  float* denominator = nullptr;
  float* output = nullptr;
  int64_t width = 0;
};

template <class I>
class Softmax {
 public:
  static constexpr int row_block = Layout<I::per_word>::row_block;

  /// scores[key] *= scales[key]
  static void scale(const float* scales, float* scores, int keys) {
    for (int k = 0; k < keys; ++k) {
      float* const at = scores + static_cast<int64_t>(k) * row_block;
      _mm512_store_ps(at, _mm512_mul_ps(_mm512_load_ps(at), splat(scales[k])));
    }
  }

  /// Weights relative to the rows' maxima, which move where they must; the rows' outputs follow
  /// them. The output of a row that saw nothing before is written here.
  [[gnu::noinline]] static void weigh(const Column& c) {
    const softmax::LaneRows<I> scores{c.scores, row_block, c.keys};
    const __m512 top =
        _mm512_mul_ps(c.highest != nullptr ? _mm512_load_ps(c.highest)
                                           : reinterpret_cast<__m512>(scores.highest()),
                      splat(c.factor));
    const __m512 reference = Lazy::reference(raise(c, top));
    const __m512 factor = scores.factor(c.factor, reference);
    const __m512 denominator = _mm512_load_ps(c.denominator);
    _mm512_store_ps(c.denominator, c.value_scales != nullptr
                                       ? weights<true>(c, factor, reference, denominator)
                                       : weights<false>(c, factor, reference, denominator));
  }

  /// Whether these rows have maxima that their weights can be relative to before scores are known.
  static bool has_maxima(const float* maximum, int rows) {
    __mmask16 lacks = 0;
    for (int r = 0; r < rows; r += lanes)
      lacks |= _mm512_cmp_ps_mask(_mm512_abs_ps(_mm512_load_ps(maximum + r)), splat(Lazy::large),
                                  _CMP_NLT_UQ);
    return lacks == 0;
  }
  /// Whether `raise` moves no maximum of these rows, all of which exist.
  static bool keeps_maxima(const Column& c, const float* highest, int rows) {
    __mmask16 grows = 0;
    for (int r = 0; r < rows; r += lanes)
      grows |= outgrown(_mm512_mul_ps(_mm512_load_ps(highest + r), splat(c.factor)),
                        _mm512_load_ps(c.maximum + r));
    return grows == 0;
  }

  /// Moves the maxima that the rows' highest logits exceed by too much, denominators and outputs
  /// with them; returns all maxima. Behind the rows other rows' states may lie.
  static __m512 raise(const Column& c, __m512 top) {
    const __mmask16 exists = first_rows(c.rows);
    __m512 maximum = _mm512_mask_loadu_ps(splat(minus_infinity), exists, c.maximum);
    const __mmask16 grows = outgrown(top, maximum) & exists;
    if (grows != 0) {
      const __m512 old = maximum, denominator = _mm512_maskz_loadu_ps(exists, c.denominator);
      maximum = _mm512_mask_mov_ps(maximum, grows, top);
      const __m512 keep = exp2<Exp2Polynomial>(_mm512_sub_ps(old, maximum));
      _mm512_mask_storeu_ps(c.denominator, grows, _mm512_mul_ps(denominator, keep));
      _mm512_mask_storeu_ps(c.maximum, grows, maximum);
      __mmask16 begins = _mm512_mask_cmp_ps_mask(grows, old, splat(minus_infinity), _CMP_EQ_OQ);
      if (begins != 0) begins |= static_cast<__mmask16>(first_rows(c.written) ^ exists);
      rescale(c, grows | begins, begins, keep);
    }
    return maximum;
  }

 private:
  using Lazy = softmax::LazyMaximum<I>;

  FOLIO_ALWAYS_INLINE static __mmask16 outgrown(__m512 top, __m512 maximum) {
    return _mm512_cmp_ps_mask(top, _mm512_add_ps(maximum, splat(Lazy::reach)), _CMP_GT_OQ);
  }

  FOLIO_ALWAYS_INLINE static __mmask16 first_rows(int count) {
    return static_cast<__mmask16>((1u << count) - 1);
  }

  /// Of the rows, those that begin hold anything, and zeros then; so do rows that do not exist and
  /// that the products write, for what lies there may be slow to add to.
  [[gnu::noinline]] static void rescale(const Column& c, __mmask16 rows, __mmask16 begins,
                                        __m512 keep) {
    alignas(64) float factor[lanes];
    _mm512_store_ps(factor, keep);
    for (uint32_t left = rows; left != 0; left &= left - 1) {
      const int r = __builtin_ctz(left);
      float* const output = c.output + r * c.width;
      if ((begins >> r & 1) != 0) {
        for (int64_t d = 0; d < c.width; d += lanes)
          _mm512_store_ps(output + d, _mm512_setzero_ps());
        continue;
      }
      for (int64_t d = 0; d < c.width; d += lanes)
        _mm512_store_ps(output + d, _mm512_mul_ps(_mm512_load_ps(output + d), splat(factor[r])));
    }
  }

  /// Returns the denominator: four weights are added to one another, then to the chain.
  template <bool Scaled>
  FOLIO_ALWAYS_INLINE static __m512 weights(const Column& c, __m512 factor, __m512 reference,
                                            __m512 denominator) {
    const float* scores = c.scores;
    uint32_t* to = c.weights;
    for (int k = 0; k < c.keys;
         k += 4, scores += 4 * row_block, to += 4 / I::per_word * row_block) {
      __m512 w[4];
      for (int i = 0; i < 4; ++i)
        w[i] = exp2<typename I::Exp2>(
            _mm512_fmsub_ps(_mm512_load_ps(scores + i * row_block), factor, reference));
      denominator = _mm512_add_ps(
          denominator, _mm512_add_ps(_mm512_add_ps(w[0], w[1]), _mm512_add_ps(w[2], w[3])));
      if constexpr (Scaled)
        for (int i = 0; i < 4; ++i) w[i] = _mm512_mul_ps(w[i], splat(c.value_scales[k + i]));
      I::store_weights(w, to);
    }
    return denominator;
  }
};

}  // namespace folio::inline v1::avx512
