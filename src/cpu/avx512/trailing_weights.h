// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/trailing_weights.h: weights of a block of rows that follow its scores by one
/// score tile, beside whose products they cost half of what they cost alone.
///
///     scores    keys 0..3   4..7   8..11  ...  60..63   all scores of the tile are known:
///     weights               0..3   4..7   ...  56..59   60..63, or all of them once more
///
/// A maximum is lazy: it seldom moves. Weights are made relative to the maxima that rows have
/// before the tile, and count where none of these has to move: they are what Softmax::weigh gives,
/// bit for bit. Else it makes them once more, from the same scores.
///
/// Weights below 2^-126 become subnormal where Softmax makes zeros: rounded to bf16 they are zeros,
/// and nothing beside the denominator of a row that has a maximum, which is about 1 at least.
/// ISA-safe: templates on a tag type.
#pragma once

#include "cpu/avx512/exp2.h"
#include "cpu/avx512/softmax.h"

namespace folio::inline v1::avx512 {

template <class I>
class TrailingWeights {
 public:
  static constexpr int row_block = Layout<I::per_word>::row_block;
  static constexpr int vectors = row_block / lanes, keys_at_once = 4;

  /// A whole block: c.rows is row_block; c.value_scales is not applied. False: the rows have no
  /// maxima to be relative to. `denominators`: memory for one of each row.
  [[nodiscard]] bool begin(const Column& c, float* denominators) {
    if (!Softmax<I>::has_maxima(c.maximum, row_block)) return false;
    block_ = c;
    scores_ = c.scores;
    to_ = c.weights;
    denominators_ = denominators;
    copy(c.denominator, denominators);
    return true;
  }

  /// Of the next four keys and vector v of the rows those from `first` on, 0 or 2, after the
  /// products so far; returns their sum.
  [[nodiscard]] FOLIO_ALWAYS_INLINE __m512 weigh_two(int v, int first) const {
    const TrailingWeights* trail = this;
    __asm__("" : "+r"(trail));  // else what the first two need stays in registers for the others
    const __m512 factor = splat(trail->block_.factor),
                 reference = _mm512_load_ps(trail->block_.maximum + v * lanes);
    const float* const scores = trail->scores_ + first * row_block + v * lanes;
    const __m512 even = weight(_mm512_load_ps(scores), factor, reference),
                 odd = weight(_mm512_load_ps(scores + row_block), factor, reference);
    I::store_two(even, odd, trail->to_ + first / I::per_word * row_block + v * lanes);
    return _mm512_add_ps(even, odd);
  }
  /// The sums of both twos.
  FOLIO_ALWAYS_INLINE void add(int v, __m512 first, __m512 second) const {
    float* const denominator = denominators_ + v * lanes;
    _mm512_store_ps(denominator,
                    _mm512_add_ps(_mm512_load_ps(denominator), _mm512_add_ps(first, second)));
  }
  /// On to the next four keys.
  FOLIO_ALWAYS_INLINE void advance() {
    scores_ += keys_at_once * row_block;
    to_ += keys_at_once / I::per_word * row_block;
  }

  /// The last four keys. False: a maximum has to move, and nothing counts.
  [[nodiscard]] bool finish(const float* highest) const {
    if (!Softmax<I>::keeps_maxima(block_, highest, row_block)) return false;
    for (int v = 0; v < vectors; ++v) add(v, weigh_two(v, 0), weigh_two(v, 2));
    copy(denominators_, block_.denominator);
    return true;
  }

 private:
  FOLIO_ALWAYS_INLINE static __m512 weight(__m512 score, __m512 factor, __m512 reference) {
    return exp2_to_subnormal<typename I::Exp2>(_mm512_fmsub_ps(score, factor, reference));
  }
  static void copy(const float* from, float* to) {
    for (int r = 0; r < row_block; r += lanes) _mm512_store_ps(to + r, _mm512_load_ps(from + r));
  }

  Column block_;
  const float* scores_ = nullptr;  // of the next four keys
  uint32_t* to_ = nullptr;         // their weights
  float* denominators_ = nullptr;  // of the rows, as they will be if the weights count
};

}  // namespace folio::inline v1::avx512
