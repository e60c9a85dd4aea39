// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/softmax.h: scores of rows and 64 keys to weights in bf16, and the state of the rows.
/// Base 2.
///
///     logit   x = score * scale [* key_scale]          in log2 units; softcap, ALiBi and bias: see
///                                                      cpu/softmax/terms.h
///     weight  p = 2^(x - maximum)                      0 for a key that the row does not see
///     P       = bf16(p [* value_scale])
///     denominator += sum of p
///
/// `maximum` is lazy: weights are made relative to the one there is, before anybody knows the new
/// logits' maximum. Only where their sum exceeds 2^8, or there is no maximum yet (it is -inf, so
/// each weight is inf or NaN), or it is beyond 2^20, is the row done again with the maximum of its
/// logits. What happens to a row follows from the row alone, and its arithmetic is the same in
/// every function here.
///
/// ISA-safe: templates on a tag type. Source: Milakov and Gimelshein 2018, online normalizer
/// calculation.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "folio/core/host_device.h"

namespace folio::inline v1::amx {

/// Scores and weights of a row of 64 keys.
struct SoftmaxRow {
  const float* scores;
  uint16_t* weights;
  float* sums;  // [16] partial sums of weights

  /// To the next row.
  FOLIO_ALWAYS_INLINE void advance(int weight_stride) {
    scores += 64;
    weights += weight_stride;
    sums += 16;
  }
};

template <class I>
struct Softmax {
  static constexpr int keys = 64;
  static constexpr float log2_e = 1.44269504f;
  static constexpr float minus_infinity = -__builtin_inff();
  static constexpr __mmask16 every = 0xffff;

  FOLIO_ALWAYS_INLINE static __m512 splat(float x) { return _mm512_set1_ps(x); }
  FOLIO_ALWAYS_INLINE static __m512 max(__m512 a, __m512 b) {
    return _mm512_maskz_max_ps(every, a, b);
  }
  FOLIO_ALWAYS_INLINE static __mmask16 lanes(uint64_t seen, int i) {
    return static_cast<__mmask16>(seen >> (16 * i));
  }

  /// 2^x: relative error below 8.6e-5, a twentieth of what rounding to bf16 costs; 1 at 0, 0 at
  /// -inf, inf at inf. x = n + f, 0 <= f < 1: vreduceps gives f, vscalefps takes n from x by
  /// itself.
  FOLIO_ALWAYS_INLINE static __m512 exp2(__m512 x) {
    const __m512 f = _mm512_maskz_reduce_ps(every, x, 1);
    __m512 p = _mm512_fmadd_ps(f, splat(0.0770672f), splat(0.22764482f));
    p = _mm512_fmadd_ps(f, p, splat(0.69511682f));
    p = _mm512_fmadd_ps(f, p, splat(1.0f));
    return _mm512_maskz_scalef_ps(every, p, x);
  }

  /// Weights of a row relative to `maximum`. `Scale` gives what columns are multiplied by, `seen`
  /// which of them count.
  template <class Scale>
  FOLIO_ALWAYS_INLINE static void weigh(const SoftmaxRow& row, const Scale& scale, float maximum) {
    const __m512 offset = splat(-maximum);
    __m512 p[4];
    for (int i = 0; i < 4; ++i)
      p[i] = exp2(_mm512_fmadd_ps(_mm512_load_ps(row.scores + 16 * i), scale.score(i), offset));
    put(row, scale, p);
  }
  template <class Scale>
  FOLIO_ALWAYS_INLINE static void weigh_seen(const SoftmaxRow& row, const Scale& scale,
                                             uint64_t seen, float maximum) {
    const __m512 offset = splat(-maximum);
    __m512 p[4];
    for (int i = 0; i < 4; ++i) {
      p[i] = exp2(_mm512_fmadd_ps(_mm512_load_ps(row.scores + 16 * i), scale.score(i), offset));
      p[i] = _mm512_maskz_mov_ps(lanes(seen, i), p[i]);
    }
    put(row, scale, p);
  }

  /// The same, with the product rounded before `maximum` is taken off: exact where the maximum is
  /// such a product itself. A fused one keeps what rounding takes from the product, which above
  /// 2^30 is more than the range of 2^x.
  template <class Scale>
  static void weigh_rounded(const SoftmaxRow& row, const Scale& scale, uint64_t seen,
                            float maximum) {
    __m512 p[4];
    for (int i = 0; i < 4; ++i) {
      const __m512 x = _mm512_mul_ps(_mm512_load_ps(row.scores + 16 * i), scale.score(i));
      p[i] = _mm512_maskz_mov_ps(lanes(seen, i), exp2(_mm512_sub_ps(x, splat(maximum))));
    }
    put(row, scale, p);
  }

  /// Lane r: the highest of the seen logits of row r of 16, at least -inf. NaNs count for nothing.
  template <class Scale>
  static __m512 highest(const float* scores, const Scale& scale, const uint64_t* seen) {
    const __m512 lowest = splat(minus_infinity);
    __m512 row[16];
    for (int r = 0; r < 16; ++r) {
      __m512 x[4];
      for (int i = 0; i < 4; ++i) {
        x[i] = _mm512_mul_ps(_mm512_load_ps(scores + keys * r + 16 * i), scale.score(i));
        if (seen != nullptr) x[i] = _mm512_mask_mov_ps(lowest, lanes(seen[r], i), x[i]);
        x[i] = max(x[i], lowest);
      }
      row[r] = max(max(x[0], x[1]), max(x[2], x[3]));
    }
    return join_rows<Highest>(row);
  }

  /// Lane r: the sum of the 16 partial sums at sums + 16 r.
  FOLIO_ALWAYS_INLINE static __m512 sum_rows(const float* sums) {
    __m512 row[16];
    for (int r = 0; r < 16; ++r) row[r] = _mm512_load_ps(sums + 16 * r);
    return join_rows<Sum>(row);
  }

 private:
  struct Sum {
    FOLIO_ALWAYS_INLINE static __m512 join(__m512 a, __m512 b) { return _mm512_add_ps(a, b); }
  };
  struct Highest {
    FOLIO_ALWAYS_INLINE static __m512 join(__m512 a, __m512 b) { return max(a, b); }
  };

  template <class Scale>
  FOLIO_ALWAYS_INLINE static void put(const SoftmaxRow& row, const Scale& scale, __m512 (&p)[4]) {
    _mm512_store_ps(row.sums, _mm512_add_ps(_mm512_add_ps(p[0], p[1]), _mm512_add_ps(p[2], p[3])));
    for (int i = 0; i < 4; ++i) p[i] = scale.weight(i, p[i]);
    for (int i = 0; i < 2; ++i) {
      const __m512bh pair = _mm512_cvtne2ps_pbh(p[2 * i + 1], p[2 * i]);
      _mm512_store_si512(row.weights + 32 * i, reinterpret_cast<const __m512i&>(pair));
    }
  }

  /// Lane r: all lanes of row r joined, in an order that is the same for all rows.
  template <class Op>
  FOLIO_ALWAYS_INLINE static __m512 join_rows(__m512 (&v)[16]) {
    for (int i = 0; i < 8; ++i)
      v[i] = Op::join(_mm512_maskz_unpacklo_ps(every, v[i], v[i + 8]),
                      _mm512_maskz_unpackhi_ps(every, v[i], v[i + 8]));
    for (int i = 0; i < 4; ++i) {
      const __m512d a = _mm512_castps_pd(v[i]), b = _mm512_castps_pd(v[i + 4]);
      v[i] = Op::join(_mm512_castpd_ps(_mm512_maskz_unpacklo_pd(0xff, a, b)),
                      _mm512_castpd_ps(_mm512_maskz_unpackhi_pd(0xff, a, b)));
    }
    for (int i = 0; i < 2; ++i) v[i] = join_quarters<Op>(v[i], v[i + 2]);
    const __m512i place = _mm512_setr_epi32(0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15);
    return _mm512_maskz_permutexvar_ps(every, place, join_quarters<Op>(v[0], v[1]));
  }
  template <class Op>
  FOLIO_ALWAYS_INLINE static __m512 join_quarters(__m512 a, __m512 b) {
    return Op::join(_mm512_maskz_shuffle_f32x4(every, a, b, 0x88),
                    _mm512_maskz_shuffle_f32x4(every, a, b, 0xdd));
  }
};

}  // namespace folio::inline v1::amx
