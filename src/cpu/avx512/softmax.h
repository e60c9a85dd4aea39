// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/softmax.h: scores of one tile to weights, sixteen rows at a time: everything runs
/// down the keys, lane by lane.
///
/// The maximum of a row is lazy: it moves when a tile's maximum exceeds it by more than 8, so
/// weights stay below 2^8 and outputs are rescaled rarely. Logits are in units of log2. What a lane
/// gets depends on that row's scores alone. ISA-safe: templates on a tag type.
#pragma once

#include "cpu/avx512/layout.h"
#include "cpu/avx512/vectors.h"

namespace folio::inline v1::avx512 {

inline constexpr float lazy_threshold = 8.0f;

/// Sixteen rows of a tile and their state.
struct Column {
  float* scores = nullptr;              // [keys][row_block]
  uint32_t* weights = nullptr;          // [steps][row_block]
  int keys = 0;                         // a multiple of 4
  int rows = 0;                         // that exist; the other lanes hold anything
  float factor = 0.0f;                  // of the scores, to logits in units of log2; > 0
  const float* value_scales = nullptr;  // [keys], or null
  float* maximum = nullptr;
  float* denominator = nullptr;
  float* output = nullptr;
  int64_t width = 0;
};

template <class I>
class Softmax {
 public:
  static constexpr int row_block = Layout<I::per_word>::row_block;

  /// Scores that their row does not see become -inf. seen: of the 16 rows.
  static void mask(const uint64_t* seen, float* scores, int keys) {
    const __m512i low = _mm512_loadu_si512(seen), high = _mm512_loadu_si512(seen + 8);
    const __m512 hidden = splat(minus_infinity);
    __m512i bit = _mm512_set1_epi64(1);
    for (int k = 0; k < keys; ++k, bit = _mm512_add_epi64(bit, bit)) {
      const uint32_t sees = _mm512_test_epi64_mask(low, bit) |
                            static_cast<uint32_t>(_mm512_test_epi64_mask(high, bit)) << 8;
      _mm512_mask_store_ps(scores + static_cast<int64_t>(k) * row_block,
                           static_cast<__mmask16>(~sees), hidden);
    }
  }

  /// scores[key] *= scales[key]
  static void scale(const float* scales, float* scores, int keys) {
    for (int k = 0; k < keys; ++k) {
      float* const at = scores + static_cast<int64_t>(k) * row_block;
      _mm512_store_ps(at, _mm512_mul_ps(_mm512_load_ps(at), splat(scales[k])));
    }
  }

  /// Weights relative to the rows' maxima, which move where they must; the rows' outputs follow
  /// them.
  static void weigh(const Column& c) {
    __m512 keep;
    const __m512 top = _mm512_mul_ps(highest(c), splat(c.factor));
    __m512 maximum = _mm512_load_ps(c.maximum);
    const __mmask16 grows =
        _mm512_mask_cmp_ps_mask(static_cast<__mmask16>((1u << c.rows) - 1), top,
                                _mm512_add_ps(maximum, splat(lazy_threshold)), _CMP_GT_OQ);
    __m512 denominator = _mm512_load_ps(c.denominator);
    if (grows != 0) {
      const __m512 old = maximum;
      maximum = _mm512_mask_mov_ps(maximum, grows, top);
      keep = exp2<5>(_mm512_sub_ps(old, maximum));
      denominator = _mm512_mask_mul_ps(denominator, grows, denominator, keep);
      _mm512_store_ps(c.maximum, maximum);
      rescale(c, grows, keep);
    }
    const __mmask16 nothing = _mm512_cmp_ps_mask(maximum, splat(minus_infinity), _CMP_EQ_OQ);
    const __m512 reference = _mm512_mask_mov_ps(maximum, nothing, _mm512_setzero_ps());
    const __m512 factor = round_large(c, reference);
    _mm512_store_ps(c.denominator, c.value_scales != nullptr
                                       ? weights<true>(c, factor, reference, denominator)
                                       : weights<false>(c, factor, reference, denominator));
  }

 private:
  /// What scores are multiplied by. A fused product keeps what rounding takes from it, which above
  /// 2^30 is more than the range of 2^x: scores of rows with such a reference become logits here,
  /// and their factor is 1.
  FOLIO_ALWAYS_INLINE static __m512 round_large(const Column& c, __m512 reference) {
    const __m512 factor = splat(c.factor);
    const __m512 size = _mm512_andnot_ps(splat(-0.0f), reference);
    const __mmask16 rows = _mm512_cmp_ps_mask(size, splat(0x1p20f), _CMP_GT_OQ);
    if (rows == 0) [[likely]]
      return factor;
    for (int k = 0; k < c.keys; ++k) {
      float* const at = c.scores + static_cast<int64_t>(k) * row_block;
      _mm512_mask_store_ps(at, rows, _mm512_mul_ps(_mm512_load_ps(at), factor));
    }
    return _mm512_mask_mov_ps(factor, rows, splat(1.0f));
  }

  FOLIO_ALWAYS_INLINE static __m512 highest(const Column& c) {
    __m512 m[4];
    const float* at = c.scores;
    for (int i = 0; i < 4; ++i) m[i] = _mm512_load_ps(at + i * row_block);
    for (int k = 4; k < c.keys; k += 4) {
      at += 4 * row_block;
      for (int i = 0; i < 4; ++i) m[i] = max(m[i], _mm512_load_ps(at + i * row_block));
    }
    return max(max(m[0], m[1]), max(m[2], m[3]));
  }

  [[gnu::noinline]] static void rescale(const Column& c, __mmask16 rows, __m512 keep) {
    alignas(64) float factor[lanes];
    _mm512_store_ps(factor, keep);
    for (uint32_t left = rows; left != 0; left &= left - 1) {
      const int r = __builtin_ctz(left);
      float* const output = c.output + r * c.width;
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
        w[i] = exp2<I::exp_degree>(
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
