// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/latent_softmax.h: scores of a pair of row tiles to weights, and the online softmax state of their rows.
///
/// A lane is a row, so maxima and sums are vertical and no row meets another. The maximum of a row is lazy: it moves only when a 64-key
/// tile exceeds it by more than 8 ln 2, so that output is rarely rescaled; weights stay below 2^8. The work comes in
/// units of a few hundred instructions, for a product to do between its steps.
///
/// Source: lazy rescaling as in FlashAttention-4.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "cpu/amx/latent_layout.h"
#include "cpu/amx/stage_convert.h"
#include "cpu/simd.h"
#include "cpu/skeleton/task_view.h"

namespace folio {
inline namespace v1 {
namespace amx {

/// What the skeleton asks of an engine: logits are natural, as nothing else holds every finite one.
template <class I>
struct LatentMath {
  static constexpr float natural = 1.0f;
  static float exp(float x) { return Simd<I>::exp_one(x); }
  /// to [n] = to * keep + from * add; n is a multiple of 16.
  static void fold(float* to, const float* from, int n, float keep, float add) {
    constexpr __mmask16 every = 0xffff;
    const __m512 k = _mm512_set1_ps(keep), a = _mm512_set1_ps(add);
    for (int i = 0; i < n; i += 16) {
      const __m512 kept = _mm512_maskz_mul_ps(every, _mm512_loadu_ps(to + i), k);
      _mm512_storeu_ps(to + i, _mm512_maskz_fmadd_ps(every, _mm512_loadu_ps(from + i), a, kept));
    }
  }
};

/// e^x for x <= 8, relative error 7.5e-5 near 0: much less than the rounding to bf16 that follows. 0 for -inf.
FOLIO_ALWAYS_INLINE __m512 exp_for_bf16(__m512 x) {
  constexpr __mmask16 every = 0xffff;
  const __m512 log2_e = _mm512_set1_ps(1.44269504f);
  const __m512 n = _mm512_maskz_roundscale_ps(every, _mm512_maskz_mul_ps(every, x, log2_e), 0x08);  // to nearest, no exception
  const __m512 f = _mm512_maskz_fmsub_ps(every, x, log2_e, n);
  __m512 p = _mm512_maskz_fmadd_ps(every, _mm512_set1_ps(0.0551716691f), f, _mm512_set1_ps(0.242611122f));
  p = _mm512_maskz_fmadd_ps(every, p, f, _mm512_set1_ps(0.693260985f));
  p = _mm512_maskz_fmadd_ps(every, p, f, _mm512_set1_ps(0.999928074f));
  return _mm512_maskz_scalef_ps(every, p, n);
}

/// Transposes 16 x 16 dwords.
FOLIO_ALWAYS_INLINE void transpose_dwords(__m512i (&rows)[16]) {
  constexpr __mmask16 every = 0xffff;
  for (int q = 0; q < 4; ++q) {
    __m512i four[4] = {rows[4 * q], rows[4 * q + 1], rows[4 * q + 2], rows[4 * q + 3]};
    transpose_lanes<32>(four);  // lane l of four[j]: dword 4 l + j of rows 4 q ... 4 q + 3
    for (int j = 0; j < 4; ++j) rows[4 * q + j] = four[j];
  }
  __m512i out[16];
  for (int j = 0; j < 4; ++j) {
    const __m512i a = _mm512_maskz_shuffle_i32x4(every, rows[j], rows[4 + j], 0x44);
    const __m512i b = _mm512_maskz_shuffle_i32x4(every, rows[j], rows[4 + j], 0xee);
    const __m512i c = _mm512_maskz_shuffle_i32x4(every, rows[8 + j], rows[12 + j], 0x44);
    const __m512i d = _mm512_maskz_shuffle_i32x4(every, rows[8 + j], rows[12 + j], 0xee);
    out[j] = _mm512_maskz_shuffle_i32x4(every, a, c, 0x88);
    out[4 + j] = _mm512_maskz_shuffle_i32x4(every, a, c, 0xdd);
    out[8 + j] = _mm512_maskz_shuffle_i32x4(every, b, d, 0x88);
    out[12 + j] = _mm512_maskz_shuffle_i32x4(every, b, d, 0xdd);
  }
  for (int i = 0; i < 16; ++i) rows[i] = out[i];
}

/// Softmax of one pass for one pair of row tiles, unit by unit.
template <class I, class Sizes>
class LatentSoftmax {
 public:
  static constexpr int units_of_tile = 5;  // of one 64-key tile and row tile

  LatentSoftmax(const skeleton::TaskView& view, const typename Sizes::Scratch& scratch)
      : view_(view), scratch_(scratch), factor_(view.has_terms ? 1.0f : logit_scale(view.problem)) {}

  /// The factor of products; a negative one has been folded into the queries.
  static float logit_scale(const AttentionProblem& problem) { return __builtin_fabsf(problem.scale); }

  /// `first_row`: of the pair, a row of the task; `end_row`: of its head. `maximum`, `denominator`: of the pair's rows.
  void begin(KeyTile* const* tiles, int count, const float* scores, int row_tiles, int first_row, int end_row, float* maximum,
             float* denominator) {
    tiles_ = tiles;
    scores_ = const_cast<float*>(scores);
    row_tiles_ = row_tiles;
    first_row_ = first_row;
    end_row_ = end_row;
    maximum_ = maximum;
    denominator_ = denominator;
    unit_ = 0;
    units_ = count * row_tiles * units_of_tile;
    rescaled_tiles = 0;
  }

  [[nodiscard]] bool is_done() const { return unit_ == units_; }
  [[nodiscard]] int units_left() const { return units_ - unit_; }

  __attribute__((noinline)) void step() {
    const int part = unit_ / units_of_tile, phase = unit_ % units_of_tile;
    const int tile = part / row_tiles_, row_tile = part % row_tiles_;
    ++unit_;
    float* const scores = scores_ + (tile * 2 + row_tile) * Sizes::score_tile;
    if (phase == 0) {
      prepare(*tiles_[tile], first_row_ + row_tile * tile_rows, scores);
      raise_maximum(tile, row_tile, scores);
    } else {
      weigh(row_tile, scores + (phase - 1) * 256, (phase - 1) % 2);
      if (phase % 2 == 0) transpose(scratch_.weights + ((tile * 2 + phase / 2 - 1) * 2 + row_tile) * operand_tile_bytes);
    }
  }

  uint32_t rescaled_tiles = 0;  ///< bit t: some row's output is to be multiplied by factors [t] before tile t

 private:
  using V = Simd<I>;
  using F = typename V::F;
  static constexpr __mmask16 every = 0xffff;
  static constexpr float minus_infinity = -__builtin_inff();
  static constexpr float threshold = 5.54517744f;  // 8 ln 2

  /// Terms and mask, where there are any.
  void prepare(const KeyTile& tile, int row, float* scores) const {
    const int end = row + tile_rows < end_row_ ? row + tile_rows : end_row_;
    if (view_.has_terms) add_terms(tile, row, end, scores);
    const int local = row % view_.head_rows, local_end = local + end - row;
    if (view_.coverage(local, local_end, tile) != skeleton::Coverage::all) mask(tile, local, local_end, scores);
  }

  __attribute__((noinline)) void mask(const KeyTile& tile, int row, int end, float* scores) const {
    alignas(64) uint64_t seen[tile_rows] = {};
    for (int r = row; r < end; ++r) seen[r - row] = view_.seen_by_row(r, tile);
    const __m512i low = _mm512_load_si512(seen), high = _mm512_load_si512(seen + 8);
    for (int key = 0; key < tile_keys; ++key) {
      const __m512i bit = _mm512_set1_epi64(static_cast<int64_t>(uint64_t{1} << key));
      const auto lanes = static_cast<__mmask16>(_mm512_test_epi64_mask(low, bit) | _mm512_test_epi64_mask(high, bit) << 8);
      float* const at = scores + key * tile_rows;
      _mm512_store_ps(at, _mm512_mask_mov_ps(_mm512_set1_ps(minus_infinity), lanes, _mm512_load_ps(at)));
    }
  }

  /// scores = softcap(scale * scores) + alibi + bias.
  __attribute__((noinline)) void add_terms(const KeyTile& tile, int row, int end, float* scores) const {
    alignas(64) float slope[tile_rows] = {}, distance[tile_rows] = {}, bias[tile_rows] = {};
    const float* bias_of[tile_rows] = {};
    int bias_keys = 0;
    for (int r = row; r < end; ++r) {
      const skeleton::LogitTerms terms = view_.terms_of(r, tile.first);
      slope[r - row] = -terms.slope;
      distance[r - row] = terms.distance;
      bias_of[r - row] = terms.bias;
      bias_keys = terms.bias_keys;
    }
    const float scale = logit_scale(view_.problem), softcap = view_.problem.softcap;
    const F slopes = V::load(slope), distances = V::load(distance);
    for (int key = 0; key < tile_keys; ++key) {
      F x = V::load(scores + key * tile_rows) * scale;
      if (softcap != 0.0f) x = softcap * V::tanh(x / softcap);
      if (view_.problem.alibi) {
        const F offset = distances - static_cast<float>(key);
        x = V::fma(slopes, V::floats(V::bits(offset) & V::splat(0x7fffffffu)), x);
      }
      if (key < bias_keys) {
        for (int r = row; r < end; ++r) bias[r - row] = bias_of[r - row][key];
        x += V::load(bias);
      }
      V::store(scores + key * tile_rows, x);
    }
  }

  void raise_maximum(int tile, int row_tile, const float* scores) {
    __m512 highest[4];
    for (int i = 0; i < 4; ++i) highest[i] = _mm512_load_ps(scores + i * tile_rows);
    for (int key = 4; key < tile_keys; key += 4)
      for (int i = 0; i < 4; ++i)
        highest[i] = _mm512_maskz_max_ps(every, highest[i], _mm512_load_ps(scores + (key + i) * tile_rows));
    highest[0] = _mm512_maskz_max_ps(every, highest[0], highest[1]);
    highest[2] = _mm512_maskz_max_ps(every, highest[2], highest[3]);
    const __m512 found = _mm512_maskz_mul_ps(every, _mm512_maskz_max_ps(every, highest[0], highest[2]), _mm512_set1_ps(factor_));
    const __m512 old = _mm512_load_ps(maximum_ + row_tile * tile_rows);
    const __mmask16 raised = _mm512_cmp_ps_mask(found, _mm512_maskz_add_ps(every, old, _mm512_set1_ps(threshold)), _CMP_GT_OQ);
    if (raised != 0) raise(tile, row_tile, raised, old, found);
  }

  /// A row that has seen nothing yet has no output to rescale.
  __attribute__((noinline)) void raise(int tile, int row_tile, __mmask16 raised, __m512 old, __m512 found) {
    const __m512 maximum = _mm512_mask_mov_ps(old, raised, found);
    _mm512_store_ps(maximum_ + row_tile * tile_rows, maximum);
    const __mmask16 had = _mm512_cmp_ps_mask(old, _mm512_set1_ps(minus_infinity), _CMP_NEQ_OQ) & raised;
    if (had == 0) return;
    const __m512 factor = _mm512_mask_mov_ps(
        _mm512_set1_ps(1.0f), had, reinterpret_cast<__m512>(V::exp(reinterpret_cast<F>(_mm512_maskz_sub_ps(had, old, maximum)))));
    float* const denominator = denominator_ + row_tile * tile_rows;
    _mm512_store_ps(denominator, _mm512_maskz_mul_ps(every, _mm512_load_ps(denominator), factor));
    float* const factors = scratch_.factors + tile * Sizes::pair_rows;
    if ((rescaled_tiles >> tile & 1) == 0) {
      for (int i = 0; i < Sizes::pair_rows; i += 16) _mm512_store_ps(factors + i, _mm512_set1_ps(1.0f));
    }
    _mm512_store_ps(factors + row_tile * tile_rows, factor);
    rescaled_tiles |= 1u << tile;
  }

  /// 16 keys to weights, packed as pairs of keys; their sum joins the denominator.
  void weigh(int row_tile, const float* scores, int half) {
    const __m512 maximum = _mm512_load_ps(maximum_ + row_tile * tile_rows);
    const __m512 reference =
        _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(maximum, _mm512_set1_ps(minus_infinity), _CMP_NEQ_UQ), maximum);
    const __m512 factor = _mm512_set1_ps(factor_);
    const __m512i interleave = _mm512_load_si512(interleaved);
    uint32_t* const to = scratch_.packed + half * 128;
    __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
    for (int key = 0; key < 16; key += 2) {
      const __m512 a = exp_for_bf16(_mm512_maskz_fmsub_ps(every, _mm512_load_ps(scores + key * 16), factor, reference));
      const __m512 b = exp_for_bf16(_mm512_maskz_fmsub_ps(every, _mm512_load_ps(scores + key * 16 + 16), factor, reference));
      even = _mm512_maskz_add_ps(every, even, a);
      odd = _mm512_maskz_add_ps(every, odd, b);
      const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b, a));
      _mm512_store_si512(to + key * 8, _mm512_maskz_permutexvar_epi16(~__mmask32{0}, interleave, both));
    }
    float* const denominator = denominator_ + row_tile * tile_rows;
    const __m512 sum = _mm512_maskz_add_ps(every, even, odd);
    _mm512_store_ps(denominator, _mm512_maskz_add_ps(every, _mm512_load_ps(denominator), sum));
  }

  /// The packed weights of 32 keys as an A tile.
  void transpose(std::byte* to) const {
    __m512i rows[16];
    for (int i = 0; i < 16; ++i) rows[i] = _mm512_load_si512(scratch_.packed + i * 16);
    transpose_dwords(rows);
    for (int i = 0; i < 16; ++i) _mm512_store_si512(to + i * 64, rows[i]);
  }

  /// Word 2 r is lane r of the first half, word 2 r + 1 of the second.
  static constexpr struct alignas(64) Words {
    uint16_t at[32];
  } interleaved_words = [] {
    Words words = {};
    for (int i = 0; i < 32; ++i) words.at[i] = static_cast<uint16_t>(i / 2 + i % 2 * 16);
    return words;
  }();
  static constexpr const uint16_t* interleaved = interleaved_words.at;

  const skeleton::TaskView& view_;
  const typename Sizes::Scratch& scratch_;
  const float factor_;  // scores times this are logits
  KeyTile* const* tiles_ = nullptr;
  float* scores_ = nullptr;
  int row_tiles_ = 0;
  int first_row_ = 0;
  int end_row_ = 0;
  float* maximum_ = nullptr;
  float* denominator_ = nullptr;
  int unit_ = 0;
  int units_ = 0;
};

}  // namespace amx
}  // namespace v1
}  // namespace folio
