// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/latent/softmax.h: scores of a pair of row tiles to weights, and the online softmax
/// state of their rows.
///
/// A lane is a row, so maxima and sums are vertical and no row meets another. Logits are natural:
/// nothing else holds every finite one. The maximum of a row is lazy: the weights of a 64-key tile
/// are made relative to the one there is, and only where their sum exceeds 2^8, or there is none
/// yet, are they made again relative to the tile's own. So output is rarely rescaled. The work
/// comes in units of a few hundred instructions, for a product to do between its steps.
///
/// Source: lazy rescaling as in FlashAttention-4.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "cpu/amx/latent/layout.h"
#include "cpu/amx/softmax.h"
#include "cpu/amx/transpose.h"
#include "cpu/skeleton/task_view.h"
#include "cpu/softmax/lane_rows.h"
#include "cpu/softmax/lazy_maximum.h"
#include "cpu/softmax/terms.h"
#include "cpu/vec/avx512_lanes.h"
#include "cpu/vec/simd.h"
#include "kernel/units.h"

namespace folio::inline v1::amx {

/// Softmax of a 64-key tile for a pair of row tiles, step by step.
template <class I, class Sizes>
class LatentSoftmax {
 public:
  using Units = skeleton::NaturalUnits;

  LatentSoftmax(const skeleton::TaskView& view, const typename Sizes::Scratch& scratch)
      : view_(view),
        packed_(scratch.packed),
        factor_(view.has_terms ? 1.0f : logit_scale(view.problem)),
        is_staged_(uses_staged_values(view.problem)) {}

  /// The factor of products; a negative one has been folded into the queries.
  static float logit_scale(const AttentionProblem& problem) {
    return __builtin_fabsf(problem.scale);
  }

  struct Part {
    const KeyTile* tile;
    float* scores;
    float* maximum;  // of the pair's rows
    float* denominator;
    std::byte* weights;  // of the tile
    float* factors;      // of the pair's rows
    int first_row;       // of the pair, a row of the task
    int end_row;         // of its head
    int row_tiles;
  };
  void begin(const Part& part) {
    part_ = part;
    row_tile_ = step_ = 0;
    steps_ = part.row_tiles * tile_steps;
    is_rescaled = false;
  }
  [[nodiscard]] int steps_left() const { return steps_; }

  __attribute__((noinline)) void step() {
    --steps_;
    float* const scores = scores_of_part();
    if (step_ == 0) prepare(*part_.tile, part_.first_row + row_tile_ * tile_rows, scores);
    const int half = step_ / half_steps, part = step_ % half_steps;
    if (part < half_steps - 1) {
      if (part == 0) sums_[half] = {};
      weigh(scores + half * 512, part * part_keys, _mm512_set1_ps(factor_), maximum(), sums_[half]);
    } else {
      spread(half);
    }
    if (++step_ == tile_steps) settle(scores);
  }

  /// the output of some row is to be multiplied by factors before the values of the tile join it
  bool is_rescaled = false;

 private:
  using V = Simd<I>;
  using F = typename V::F;
  using Exp = Softmax<I>;
  using Lazy = softmax::LazyMaximum<I>;
  static constexpr __mmask16 every = 0xffff;
  static constexpr float minus_infinity = -__builtin_inff();
  static constexpr int part_keys = LatentTuning::weigh_pairs;  // in a step
  // for 32 keys of a row tile: weights, and spreading them
  static constexpr int half_steps = 16 / part_keys + 1;
  static constexpr int tile_steps = 2 * half_steps;

  [[nodiscard]] float* scores_of_part() const {
    return part_.scores + row_tile_ * Sizes::score_tile;
  }
  [[nodiscard]] __m512 maximum() const {
    return _mm512_load_ps(part_.maximum + row_tile_ * tile_rows);
  }

  static softmax::LaneRows<I> rows_of(float* scores) { return {scores, tile_rows, tile_keys}; }

  /// Terms and mask, where there are any.
  void prepare(const KeyTile& tile, int row, float* scores) const {
    const int end = row + tile_rows < part_.end_row ? row + tile_rows : part_.end_row;
    if (view_.has_terms) add_terms(tile, row, end, scores);
    const int local = row % view_.head_rows, local_end = local + end - row;
    if (view_.coverage(local, local_end, tile, I::mutant) != skeleton::Coverage::all)
      mask(tile, local, local_end, scores);
  }

  __attribute__((noinline)) void mask(const KeyTile& tile, int row, int end, float* scores) const {
    alignas(64) uint64_t seen[tile_rows] = {};
    for (int r = row; r < end; ++r) seen[r - row] = view_.seen_by_row(r, tile, I::mutant);
    rows_of(scores).hide(seen);
  }

  __attribute__((noinline)) void add_terms(const KeyTile& tile, int row, int end,
                                           float* scores) const {
    const auto terms_of = [&](int r) {
      return view_.terms_of(row + r < end ? row + r : row, tile.first, I::mutant);
    };
    softmax::Terms<I, Units>::of_rows(scores, tile_rows, tile_keys, logit_scale(view_.problem),
                                      terms_of);
  }

  /// Of keys and of the keys 16 behind them.
  struct Sums {
    __m512 low = _mm512_setzero_ps(), high = _mm512_setzero_ps();
    [[nodiscard]] __m512 both() const { return _mm512_maskz_add_ps(every, low, high); }
  };

  /// Some of 32 keys to weights, packed as pairs of keys 16 apart. Without a maximum yet (-inf) the
  /// sum becomes infinite or NaN.
  void weigh(const float* scores, int first, __m512 factor, __m512 maximum, Sums& sums) const {
    const __m512 log2_e = _mm512_set1_ps(Exp::log2_e);
    const __m512i interleave = _mm512_load_si512(interleaved.word);
    __m512 low = sums.low, high = sums.high;
    for (int key = first; key < first + part_keys; ++key) {
      const float* const from = scores + key * tile_rows;
      const __m512 x = _mm512_maskz_fmsub_ps(every, _mm512_load_ps(from), factor, maximum);
      const __m512 y = _mm512_maskz_fmsub_ps(every, _mm512_load_ps(from + 256), factor, maximum);
      const __m512 a = Exp::exp2(_mm512_maskz_mul_ps(every, x, log2_e)),
                   b = Exp::exp2(_mm512_maskz_mul_ps(every, y, log2_e));
      low = _mm512_maskz_add_ps(every, low, a);
      high = _mm512_maskz_add_ps(every, high, b);
      const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b, a));
      _mm512_store_si512(packed_ + key * 16,
                         _mm512_maskz_permutexvar_epi16(~__mmask32{0}, interleave, both));
    }
    sums = {low, high};
  }

  /// The packed weights of 32 keys as A tiles: one of both keys of a pair, or one for each.
  void spread(int half) const {
    if (is_staged_) {
      std::byte* const to = part_.weights + (half * 2 + row_tile_) * operand_tile_bytes;
      spread([to](int i, __m512i row) { _mm512_store_si512(to + i * 64, row); });
    } else {
      std::byte* const to =
          part_.weights + half * 2 * Sizes::group_weight_bytes + row_tile_ * operand_tile_bytes;
      spread([to](int i, __m512i row) {
        _mm512_store_si512(to + i * 64,
                           _mm512_maskz_and_epi32(every, row, _mm512_set1_epi32(0xffff)));
        _mm512_store_si512(to + Sizes::group_weight_bytes + i * 64,
                           _mm512_maskz_srli_epi32(every, row, 16));
      });
    }
  }
  template <class Put>
  __attribute__((noinline)) void spread(const Put& put) const {
    __m512i rows[16];
    for (int i = 0; i < 16; ++i) rows[i] = _mm512_load_si512(packed_ + i * 16);
    transpose_dwords(rows, put);
  }

  /// All weights of the tile are there: moves maxima that are too low, adds the sums, goes on to
  /// the next row tile.
  void settle(float* scores) {
    __m512 sum = _mm512_maskz_add_ps(every, sums_[0].both(), sums_[1].both());
    const __mmask16 outgrown =
        I::signs(Lazy::is_outgrown(reinterpret_cast<F>(sum), reinterpret_cast<F>(maximum())));
    if (outgrown != 0) sum = weigh_again(scores, outgrown);
    float* const denominator = part_.denominator + row_tile_ * tile_rows;
    _mm512_store_ps(denominator, _mm512_maskz_add_ps(every, _mm512_load_ps(denominator), sum));
    step_ = 0;
    ++row_tile_;
  }

  /// Rows that need no other maximum get the same weights as before.
  __attribute__((noinline)) __m512 weigh_again(float* scores, __mmask16 rows) {
    const __m512 old = maximum();
    const softmax::LaneRows<I> rows_of_tile = rows_of(scores);
    const auto found = reinterpret_cast<__m512>(rows_of_tile.highest() * factor_);
    const __mmask16 raised = _mm512_mask_cmp_ps_mask(rows, found, old, _CMP_GT_OQ);
    const __m512 now = _mm512_mask_mov_ps(old, raised, found);
    _mm512_store_ps(part_.maximum + row_tile_ * tile_rows, now);
    rescale(raised, old, now);
    const F logit = Lazy::reference(reinterpret_cast<F>(now));
    const auto reference = reinterpret_cast<__m512>(logit),
               factor = reinterpret_cast<__m512>(rows_of_tile.factor(factor_, logit));
    Sums sums[2];
    for (int half = 0; half < 2; ++half) {
      for (int key = 0; key < 16; key += part_keys)
        weigh(scores + half * 512, key, factor, reference, sums[half]);
      spread(half);
    }
    return _mm512_maskz_add_ps(every, sums[0].both(), sums[1].both());
  }

  /// A row that has seen nothing yet has nothing to rescale.
  void rescale(__mmask16 raised, __m512 old, __m512 now) {
    const __mmask16 had =
        _mm512_mask_cmp_ps_mask(raised, old, _mm512_set1_ps(minus_infinity), _CMP_NEQ_OQ);
    if (had == 0) return;
    const __m512 drop = _mm512_maskz_sub_ps(had, old, now);
    const __m512 factor = _mm512_mask_mov_ps(
        _mm512_set1_ps(1.0f), had, reinterpret_cast<__m512>(V::exp(reinterpret_cast<F>(drop))));
    float* const denominator = part_.denominator + row_tile_ * tile_rows;
    _mm512_store_ps(denominator, _mm512_maskz_mul_ps(every, _mm512_load_ps(denominator), factor));
    if (!is_rescaled)
      for (int i = 0; i < Sizes::pair_rows; ++i) part_.factors[i] = 1.0f;
    _mm512_store_ps(part_.factors + row_tile_ * tile_rows, factor);
    is_rescaled = true;
  }

  /// Word 2 r is lane r of the first half, word 2 r + 1 of the second.
  struct alignas(64) Words {
    uint16_t word[32];
  };
  static constexpr Words interleaved = [] {
    Words words = {};
    for (int i = 0; i < 32; ++i) words.word[i] = static_cast<uint16_t>(i / 2 + i % 2 * 16);
    return words;
  }();

  const skeleton::TaskView& view_;
  uint32_t* const packed_;
  const float factor_;  // scores times this are logits
  const bool is_staged_;
  Part part_ = {};
  int row_tile_ = 0;
  int step_ = 0;   // of the row tile
  int steps_ = 0;  // left of the pair
  Sums sums_[2];   // of each half of the keys
};

}  // namespace folio::inline v1::amx
