// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped_softmax.h: one row of scores of a tile to weights in bf16, and the online softmax state of the row.
///
/// Logits are in units of ln 2, so that the products need one multiplication. The maximum of a row is lazy: it moves only when a tile
/// exceeds it by more than 8, so that output is rarely rescaled; weights stay below 2^8. A row that sees nothing of a tile keeps its
/// state bit for bit. ISA-safe: templates on a tag type.
///
/// Source: lazy rescaling as in FlashAttention-4.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "cpu/simd.h"
#include "cpu/skeleton/task_view.h"

namespace folio {
inline namespace v1 {
namespace amx {

inline constexpr float log2_e = 1.44269504f;
inline constexpr float ln_2 = 0.693147181f;

/// What the skeleton asks of an engine.
template <class I>
struct GroupedMath {
  static constexpr float natural = ln_2;
  static float exp(float x) { return Simd<I>::exp_one(x * ln_2); }
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

/// 2^x for x <= 8, relative error 7.5e-5: much less than the rounding to bf16 that follows. 0 for -inf.
FOLIO_ALWAYS_INLINE __m512 exp2_for_bf16(__m512 x) {
  constexpr __mmask16 every = 0xffff;
  const __m512 n = _mm512_maskz_roundscale_ps(every, x, 0x08);  // to nearest, no exception
  const __m512 f = _mm512_maskz_sub_ps(every, x, n);
  __m512 p = _mm512_maskz_fmadd_ps(every, _mm512_set1_ps(0.0551716691f), f, _mm512_set1_ps(0.242611122f));
  p = _mm512_maskz_fmadd_ps(every, p, f, _mm512_set1_ps(0.693260985f));
  p = _mm512_maskz_fmadd_ps(every, p, f, _mm512_set1_ps(0.999928074f));
  return _mm512_maskz_scalef_ps(every, p, n);
}

/// The tile's scales, 64 each; null: none.
struct TileScales {
  const float* key = nullptr;
  const float* value = nullptr;
};

template <class I>
class GroupedSoftmax {
 public:
  /// Scores of the row, [64], to weights, [64] bf16. Returns whether the maximum moved; then `factor` is what the row's output is to be
  /// multiplied by. `scale` in natural units; terms only if `has_terms`.
  struct Row {
    const float* scores;
    uint16_t* weights;
    float* maximum;
    float* denominator;
    float factor;
  };

  FOLIO_ALWAYS_INLINE static bool plain(Row& row, float scale, const TileScales& scales) {
    __m512 x[4];
    load(row, scale * log2_e, scales, x);
    return finish(row, x, scales);
  }

  static bool edge(Row& row, float scale, const TileScales& scales, uint64_t seen, const skeleton::LogitTerms* terms) {
    if (seen == 0) {
      for (int i = 0; i < 2; ++i) _mm512_storeu_si512(row.weights + 32 * i, _mm512_setzero_si512());
      return false;
    }
    __m512 x[4];
    if (terms != nullptr) {
      load(row, scale, scales, x);
      add_terms(*terms, x);
      for (__m512& v : x) v = _mm512_maskz_mul_ps(every, v, _mm512_set1_ps(log2_e));
    } else {
      load(row, scale * log2_e, scales, x);
    }
    const __m512 hidden = _mm512_set1_ps(-__builtin_inff());
    for (int i = 0; i < 4; ++i) x[i] = _mm512_mask_mov_ps(hidden, static_cast<__mmask16>(seen >> (16 * i)), x[i]);
    return finish(row, x, scales);
  }

 private:
  using V = Simd<I>;
  static constexpr __mmask16 every = 0xffff;

  FOLIO_ALWAYS_INLINE static void load(const Row& row, float scale, const TileScales& scales, __m512 (&x)[4]) {
    const __m512 factor = _mm512_set1_ps(scale);
    for (int i = 0; i < 4; ++i) x[i] = _mm512_load_ps(row.scores + 16 * i);
    if (scales.key != nullptr)
      for (int i = 0; i < 4; ++i) x[i] = _mm512_maskz_mul_ps(every, x[i], _mm512_load_ps(scales.key + 16 * i));
    for (__m512& v : x) v = _mm512_maskz_mul_ps(every, v, factor);
  }

  FOLIO_ALWAYS_INLINE static bool finish(Row& row, __m512 (&x)[4], const TileScales& scales) {
    const __m512 low = _mm512_maskz_max_ps(every, x[0], x[1]), high = _mm512_maskz_max_ps(every, x[2], x[3]);
    const float tile = highest(_mm512_maskz_max_ps(every, low, high));
    const float old = *row.maximum;
    float maximum = old, sum = *row.denominator;
    const bool moves = tile > old + 8.0f || (old == -__builtin_inff() && tile > old);
    if (__builtin_expect(moves, 0)) {
      maximum = tile;
      row.factor = GroupedMath<I>::exp(old - tile);
      *row.maximum = maximum;
      sum *= row.factor;
    }
    const __m512 reference = _mm512_set1_ps(maximum == -__builtin_inff() ? 0.0f : maximum);
    for (__m512& v : x) v = exp2_for_bf16(_mm512_maskz_sub_ps(every, v, reference));
    const __m512 first = _mm512_maskz_add_ps(every, x[0], x[1]), second = _mm512_maskz_add_ps(every, x[2], x[3]);
    *row.denominator = sum + total(_mm512_maskz_add_ps(every, first, second));
    if (scales.value != nullptr)
      for (int i = 0; i < 4; ++i) x[i] = _mm512_maskz_mul_ps(every, x[i], _mm512_load_ps(scales.value + 16 * i));
    for (int i = 0; i < 2; ++i)
      _mm512_storeu_si512(row.weights + 32 * i, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(x[2 * i + 1], x[2 * i])));
    return moves;
  }

  /// Lanes of a vector joined in a fixed order.
  FOLIO_ALWAYS_INLINE static float highest(__m512 v) {
    __m256 a = _mm256_max_ps(_mm512_maskz_extractf32x8_ps(0xff, v, 0), _mm512_maskz_extractf32x8_ps(0xff, v, 1));
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
  }
  FOLIO_ALWAYS_INLINE static float total(__m512 v) {
    __m256 a = _mm256_add_ps(_mm512_maskz_extractf32x8_ps(0xff, v, 0), _mm512_maskz_extractf32x8_ps(0xff, v, 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
  }

  static void add_terms(const skeleton::LogitTerms& terms, __m512 (&x)[4]) {
    using F = typename V::F;
    for (int i = 0; i < 4; ++i) {
      F v = reinterpret_cast<F>(x[i]);
      if (terms.softcap != 0.0f) v = terms.softcap * V::tanh(v / terms.softcap);
      if (terms.alibi) {
        F lane;
        for (int j = 0; j < 16; ++j) lane[j] = static_cast<float>(16 * i + j);
        const F offset = terms.distance - lane;
        v = V::fma(V::splat(-terms.slope), V::floats(V::bits(offset) & V::splat(0x7fffffffu)), v);
      }
      if (terms.bias != nullptr) {  // nothing behind the last key is read
        const int left = terms.bias_keys - 16 * i;
        const auto mask = static_cast<__mmask16>(left >= 16 ? 0xffff : left <= 0 ? 0 : (1 << left) - 1);
        v += reinterpret_cast<F>(_mm512_maskz_loadu_ps(mask, terms.bias + 16 * i));
      }
      x[i] = reinterpret_cast<__m512>(v);
    }
  }
};

}  // namespace amx
}  // namespace v1
}  // namespace folio
