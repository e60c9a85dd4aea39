// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/target_f32.h: what the AVX-512 engine asks of a kernel's target: everything in
/// float32, by fused multiply-adds of x86-64-v4.
///
/// ISA-safe: templates on a tag type.
#pragma once

#include "cpu/avx512/exp2.h"
#include "cpu/avx512/layout.h"
#include "cpu/avx512/output.h"
#include "cpu/vec/avx512_lanes.h"

namespace folio::inline v1::avx512 {

template <class Tag>
struct F32Target : Avx512Lanes, Output {
  static constexpr int per_word = 1;
  using Exp2 = Exp2Polynomial;  // of weights
  static constexpr uint32_t sign_bits = 0x80000000u;

  FOLIO_ALWAYS_INLINE static __m512 multiply_add(__m512i a, __m512i b, __m512 sum) {
    return _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), sum);
  }
  /// One row of V.
  template <int Vectors>
  FOLIO_ALWAYS_INLINE static void load_values(const std::byte* row, int64_t,
                                              __m512i (&to)[Vectors]) {
    for (int v = 0; v < Vectors; ++v) to[v] = _mm512_loadu_si512(row + v * 64);
  }
  /// Four keys.
  FOLIO_ALWAYS_INLINE static void store_weights(const __m512 (&w)[4], uint32_t* to) {
    store_two(w[0], w[1], to);
    store_two(w[2], w[3], to + 2 * Layout<1>::row_block);
  }
  FOLIO_ALWAYS_INLINE static void store_two(__m512 first, __m512 second, uint32_t* to) {
    _mm512_store_ps(to, first);
    _mm512_store_ps(to + Layout<1>::row_block, second);
  }
  /// Sixteen keys of one row.
  FOLIO_ALWAYS_INLINE static void store_row_weights(__m512 w, uint32_t* to) {
    _mm512_store_ps(to, w);
  }
  FOLIO_ALWAYS_INLINE static void natural_order(const float* output, float factor, float* to,
                                                int width) {
    for (int d = 0; d < width; d += lanes)
      _mm512_store_ps(to + d, scaled(_mm512_load_ps(output + d), factor));
  }
};

}  // namespace folio::inline v1::avx512
