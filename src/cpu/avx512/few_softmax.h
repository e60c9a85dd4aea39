// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/few_softmax.h: scores of one tile to weights, at most 8 rows of a head: lanes =
/// 16 keys, as few_rows.h leaves them.
///
///     scores   [rows][64 keys]              f32
///     weights  [rows][64 keys or 32 pairs]  words; f32 weights take the place of the scores
///
/// What a row gets is what Softmax would give it, bit for bit: the same operations per score, and
/// its denominator one chain over fours of keys, for which registers are turned until lanes are
/// rows. ISA-safe: templates on a tag type.
#pragma once

#include "cpu/avx512/exp2.h"
#include "cpu/avx512/softmax.h"
#include "cpu/avx512/vectors.h"

namespace folio::inline v1::avx512 {

template <class I>
class FewSoftmax {
 public:
  /// From one row to the next.
  static constexpr int score_stride = tile_keys, weight_stride = tile_keys / I::per_word;

  /// Scores of keys that row `row` does not see become -inf. seen: bit k: key k.
  static void hide(float* scores, int row, int keys, uint64_t seen) {
    float* const at = scores + row * score_stride;
    for (int k = 0; k < keys; k += lanes) {
      const auto hidden = static_cast<__mmask16>(~seen >> k);
      _mm512_mask_store_ps(at + k, hidden, splat(minus_infinity));
    }
  }

  /// Softmax::weigh of c.written rows, 1, 2, 4 or 8, behind which the state of the next head lies;
  /// those from c.rows on are computed and hold anything. c.keys is a multiple of 16.
  static void weigh(const Column& c) {
    switch (c.written) {
      case 1: return weigh_rows<1>(c);
      case 2: return weigh_rows<2>(c);
      case 4: return weigh_rows<4>(c);
      default: weigh_rows<8>(c);
    }
  }

 private:
  using Lazy = softmax::LazyMaximum<I>;

  template <int Rows>
  [[gnu::noinline]] static void weigh_rows(const Column& c) {
    const __m512 top = _mm512_mul_ps(highest<Rows>(c), splat(c.factor));
    const __m512 reference = Lazy::reference(Softmax<I>::raise(c, top));
    alignas(64) Splats of;
    _mm512_store_ps(of.factor, factor(c, reference));
    _mm512_store_ps(of.reference, reference);
    c.value_scales != nullptr ? weights<Rows, true>(c, of) : weights<Rows, false>(c, of);
  }

  /// Of each row: logit = score * factor - reference.
  struct Splats {
    float factor[lanes], reference[lanes];
  };

  /// The highest score of each row in its lane.
  template <int Rows>
  FOLIO_ALWAYS_INLINE static __m512 highest(const Column& c) {
    __m512 top[Rows];
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) top[r] = _mm512_load_ps(c.scores + r * score_stride);
    for (int k = lanes; k < c.keys; k += lanes)
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r)
        top[r] = max(top[r], _mm512_load_ps(c.scores + r * score_stride + k));
    __m512 of_rows = _mm512_setzero_ps();
#pragma GCC unroll 2
    for (int first = 0; first < Rows; first += 4) {
      __m512 x[4];
      fours<Rows>(top, first, x);
      __m512 four = max(max(x[0], x[1]), max(x[2], x[3]));
      four = max(four, _mm512_maskz_shuffle_f32x4(all_lanes, four, four, 0x4e));
      four = max(four, _mm512_maskz_shuffle_f32x4(all_lanes, four, four, 0xb1));
      of_rows = _mm512_mask_mov_ps(of_rows, static_cast<__mmask16>(0xf << first), four);
    }
    return of_rows;
  }

  /// Four rows from `first` on, turned: quarter q of to[i] holds key 4 q + i of each.
  template <int Rows>
  FOLIO_ALWAYS_INLINE static void fours(const __m512 (&rows)[Rows], int first, __m512 (&to)[4]) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) to[i] = first + i < Rows ? rows[first + i] : _mm512_setzero_ps();
    turn_quarters(to);
  }

  /// LaneRows::factor: scores of rows with a large reference become logits here.
  static __m512 factor(const Column& c, __m512 reference) {
    using F = typename Lazy::F;
    const __mmask16 large = I::signs(Lazy::is_large(reinterpret_cast<F>(reference)));
    for (uint32_t left = large; left != 0; left &= left - 1) {
      float* const row = c.scores + __builtin_ctz(left) * score_stride;
      for (int k = 0; k < c.keys; k += lanes)
        _mm512_store_ps(row + k, _mm512_mul_ps(_mm512_load_ps(row + k), splat(c.factor)));
    }
    return _mm512_mask_mov_ps(splat(c.factor), large, splat(1.0f));
  }

  template <int Rows, bool Scaled>
  FOLIO_ALWAYS_INLINE static void weights(const Column& c, const Splats& of) {
    constexpr int chains = (Rows + 3) / 4;
    __m128 denominator[chains];
#pragma GCC unroll 2
    for (int i = 0; i < chains; ++i)
      denominator[i] = _mm_maskz_loadu_ps(of_four<Rows>, c.denominator + i * 4);
    for (int k = 0; k < c.keys; k += lanes) {
      __m512 w[Rows];
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        const __m512 score = _mm512_load_ps(c.scores + r * score_stride + k);
        w[r] = exp2<typename I::Exp2>(
            _mm512_fmsub_ps(score, splat(of.factor[r]), splat(of.reference[r])));
        const __m512 scaled =
            Scaled ? _mm512_mul_ps(w[r], _mm512_load_ps(c.value_scales + k)) : w[r];
        I::store_row_weights(scaled, c.weights + r * weight_stride + k / I::per_word);
      }
#pragma GCC unroll 2
      for (int i = 0; i < chains; ++i) {
        __m512 x[4];
        fours<Rows>(w, i * 4, x);
        const __m512 sum = _mm512_add_ps(_mm512_add_ps(x[0], x[1]), _mm512_add_ps(x[2], x[3]));
        denominator[i] = _mm_add_ps(denominator[i], quarter<0>(sum));
        denominator[i] = _mm_add_ps(denominator[i], quarter<1>(sum));
        denominator[i] = _mm_add_ps(denominator[i], quarter<2>(sum));
        denominator[i] = _mm_add_ps(denominator[i], quarter<3>(sum));
      }
    }
#pragma GCC unroll 2
    for (int i = 0; i < chains; ++i)
      _mm_mask_storeu_ps(c.denominator + i * 4, of_four<Rows>, denominator[i]);
  }
  /// Of four rows those that exist.
  template <int Rows>
  static constexpr __mmask8 of_four = Rows < 4 ? (1 << Rows) - 1 : 0xf;

  template <int Quarter>
  FOLIO_ALWAYS_INLINE static __m128 quarter(__m512 x) {
    return _mm512_maskz_extractf32x4_ps(0xf, x, Quarter);
  }
};

}  // namespace folio::inline v1::avx512
