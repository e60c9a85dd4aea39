// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/integer_rounding.h: what the kernel of integers rounds to 8 bits: a row of q to
/// steps of 1/127 of its greatest element, the weights of a row in a tile to 1/255 of the greatest.
///
/// What a row gets depends on that row alone. Greatest elements are found among the bits, where NaN
/// is above all numbers: it becomes the step, and so reaches the result. ISA-safe: templates on a
/// tag type.
#pragma once

#include "cpu/avx512/exp2.h"
#include "cpu/avx512/integer_layout.h"
#include "cpu/avx512/vectors.h"
#include "cpu/softmax/lazy_maximum.h"

namespace folio::inline v1::avx512 {

/// One row of a tile and its state.
struct IntegerRow {
  float* logits = nullptr;  // [64], in units of log2 once times `factor`
  float factor = 0.0f;
  uint64_t seen = 0;                    // logits of other keys are anything
  const float* value_scales = nullptr;  // [64], or null: 1
  uint8_t* weights[2] = {};             // [64]: where V's scale is positive, and negative
  float* units[2] = {};
  float* maximum = nullptr;
  float* denominator = nullptr;
  float* output = nullptr;
  int width = 0;
};

template <class I>
class IntegerRounding {
 public:
  /// n floats, a multiple of 16, to bytes; `sign`: 1 or -1. Returns what 1 stands for; rows of
  /// elements below 2^-120 become zeros.
  static float query(const float* from, int n, float sign, int8_t* to, int32_t& sum) {
    __m512i top = _mm512_setzero_si512();
    for (int d = 0; d < n; d += lanes) top = largest(top, _mm512_load_ps(from + d));
    const float greatest = highest(top);
    const bool is_zero = greatest < smallest;
    const __m512 steps = splat(is_zero ? 0.0f : sign * 127.0f / greatest);
    __m512i all = _mm512_setzero_si512();
    for (int d = 0; d < n; d += lanes) {
      const __m512i x = nearest(_mm512_mul_ps(_mm512_load_ps(from + d), steps));
      _mm_store_si128(reinterpret_cast<__m128i*>(to + d),
                      _mm512_maskz_cvtsepi32_epi8(all_lanes, x));
      all = _mm512_add_epi32(all, x);
    }
    const auto add = [](__m512i a, __m512i b) { return _mm512_add_epi32(a, b); };
    sum = __builtin_bit_cast(int32_t, first(folded(all, add)));
    return is_zero ? 0.0f : greatest / 127.0f;
  }

  /// Weights of a row relative to its maximum, which moves where it must, times V's scales, as
  /// bytes; its output follows. Returns whether weights of the second sign are among them.
  [[gnu::noinline]] static bool weigh(const IntegerRow& row) {
    __m512 x[vectors];
    __m512 top = splat(minus_infinity);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const auto seen = static_cast<__mmask16>(row.seen >> (v * lanes));
      x[v] = _mm512_mask_mul_ps(splat(minus_infinity), seen, _mm512_load_ps(row.logits + v * lanes),
                                splat(row.factor));
      top = max(top, x[v]);
    }
    const __m512 reference = splat(move_maximum(row, highest_number(top)));
    __m512 sum = _mm512_setzero_ps();
    __m512i greatest = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      x[v] = exp2<Exp2Table>(_mm512_sub_ps(x[v], reference));
      sum = _mm512_add_ps(sum, x[v]);
      if (row.value_scales != nullptr)
        x[v] = _mm512_mul_ps(x[v], _mm512_load_ps(row.value_scales + v * lanes));
      greatest = largest(greatest, x[v]);
    }
    *row.denominator += added(sum);
    return store_weights(row, x, highest(greatest));
  }

 private:
  static constexpr int vectors = tile_keys / lanes;
  static constexpr float smallest = 0x1p-120f;
  using Lazy = softmax::LazyMaximum<I>;

  FOLIO_ALWAYS_INLINE static __m512i largest(__m512i top, __m512 x) {
    const __m512i size = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MAX));
    return _mm512_maskz_max_epi32(all_lanes, top, size);
  }
  FOLIO_ALWAYS_INLINE static float highest(__m512i sizes) {
    return first(folded(
        sizes, [](__m512i a, __m512i b) { return _mm512_maskz_max_epi32(all_lanes, a, b); }));
  }
  /// All lanes, two and two by `join`, in each of them.
  template <class Join>
  FOLIO_ALWAYS_INLINE static __m512i folded(__m512i x, const Join& join) {
    x = join(x, _mm512_maskz_shuffle_i32x4(all_lanes, x, x, 0x4e));
    x = join(x, _mm512_maskz_shuffle_i32x4(all_lanes, x, x, 0xb1));
    x = join(x, _mm512_maskz_shuffle_epi32(all_lanes, x, _MM_PERM_BADC));
    return join(x, _mm512_maskz_shuffle_epi32(all_lanes, x, _MM_PERM_CDAB));
  }
  FOLIO_ALWAYS_INLINE static float highest_number(__m512 x) {
    return first(folded(_mm512_castps_si512(x), [](__m512i a, __m512i b) {
      return _mm512_castps_si512(max(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b)));
    }));
  }
  FOLIO_ALWAYS_INLINE static float added(__m512 x) {
    return first(folded(_mm512_castps_si512(x), [](__m512i a, __m512i b) {
      return _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b)));
    }));
  }
  FOLIO_ALWAYS_INLINE static float first(__m512i x) {
    return _mm512_cvtss_f32(_mm512_castsi512_ps(x));
  }
  FOLIO_ALWAYS_INLINE static __m512i nearest(__m512 x) {
    return _mm512_maskz_cvtps_epi32(all_lanes, x);
  }

  /// What logits of the row are relative to.
  FOLIO_ALWAYS_INLINE static float move_maximum(const IntegerRow& row, float top) {
    const float old = *row.maximum;
    if (top > old + Lazy::reach) {
      *row.maximum = top;
      const bool begins = old == minus_infinity;
      const float keep = begins ? 0.0f : exp2_one(old - top);
      *row.denominator *= keep;
      for (int d = 0; d < row.width; d += lanes)
        _mm512_store_ps(row.output + d,
                        begins ? _mm512_setzero_ps()
                               : _mm512_mul_ps(_mm512_load_ps(row.output + d), splat(keep)));
    }
    return *row.maximum == minus_infinity ? 0.0f : *row.maximum;
  }

  FOLIO_ALWAYS_INLINE static bool store_weights(const IntegerRow& row, const __m512 (&x)[vectors],
                                                float greatest) {
    const bool is_zero = greatest < smallest;
    const __m512 steps = splat(is_zero ? 0.0f : 255.0f / greatest);
    *row.units[0] = is_zero ? 0.0f : greatest / 255.0f;
    *row.units[1] = -*row.units[0];
    __mmask16 any = 0;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const __mmask16 negative = _mm512_movepi32_mask(_mm512_castps_si512(x[v]));
      const __m512i size = nearest(_mm512_abs_ps(_mm512_mul_ps(x[v], steps)));
      store(size, ~negative, row.weights[0] + v * lanes);
      store(size, negative, row.weights[1] + v * lanes);
      any |= negative;
    }
    return any != 0;
  }
  FOLIO_ALWAYS_INLINE static void store(__m512i x, __mmask16 which, uint8_t* to) {
    _mm_store_si128(reinterpret_cast<__m128i*>(to), _mm512_maskz_cvtusepi32_epi8(which, x));
  }
};

}  // namespace folio::inline v1::avx512
