// SPDX-License-Identifier: Apache-2.0
/// src/cpu/pages/summary_rows.h: rows of keys joined to the summary of their page.
///
/// Channel by channel: no bit depends on the width of registers. ISA-safe: templates on a tag type.
#pragma once

#include "cpu/convert/rows.h"
#include "cpu/convert/small_floats.h"
#include "cpu/pages/pages.h"

namespace folio::inline v1::pages {

template <class I>
class SummaryRows {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  using U16 = typename V::U16;
  static constexpr int W = V::W;

 public:
  static void load(DType dtype, const std::byte* from, float* to, int64_t n) noexcept {
    Rows<I>::template row_to<float>(dtype)(from, to, static_cast<int>(n));
  }

  static void store(DType dtype, Rounding rounding, const float* from, std::byte* to,
                    int64_t n) noexcept {
    if (rounding == Rounding::nearest || dtype == DType::f32)
      return Rows<I>::narrow(dtype, from, to, static_cast<int>(n));
    if (dtype == DType::bf16) {
      if (rounding == Rounding::up)
        return put(from, to, n, [](const F& x) { return to_bf16<0u>(V::bits(x)); });
      return put(from, to, n, [](const F& x) { return to_bf16<1u>(V::bits(x)); });
    }
    if (rounding == Rounding::up) return put(from, to, n, [](const F& x) { return f16_up(x); });
    put(from, to, n, [](const F& x) { return f16_up(negative(x)) ^ V::splat(0x8000u); });
  }

  static void widen(const float* rows, int64_t count, int64_t n, float* low, float* high) noexcept {
    for (; count > 0; --count, rows += n) {
      int64_t d = 0;
      for (; d + W <= n; d += W) {
        const F x = V::load(rows + d);
        V::store(low + d, smaller(x, V::load(low + d)));
        V::store(high + d, larger(x, V::load(high + d)));
      }
      for (; d < n; ++d) {
        const float x = rows[d];
        if (!(x >= low[d]) && low[d] == low[d]) low[d] = x;
        if (!(x <= high[d]) && high[d] == high[d]) high[d] = x;
      }
    }
  }

  static void add(const float* rows, int64_t count, int64_t n, float* sums) noexcept {
    for (; count > 0; --count, rows += n) {
      int64_t d = 0;
      for (; d + W <= n; d += W) V::store(sums + d, V::load(sums + d) + V::load(rows + d));
      for (; d < n; ++d) sums[d] += rows[d];
    }
  }

 private:
  /// NaN if one of them is; of a bound that is NaN that one.
  FOLIO_ALWAYS_INLINE static F smaller(const F& x, const F& bound) {
    const F least = x >= bound ? bound : x;
    return bound != bound ? bound : least;
  }
  FOLIO_ALWAYS_INLINE static F larger(const F& x, const F& bound) {
    const F greatest = x <= bound ? bound : x;
    return bound != bound ? bound : greatest;
  }
  FOLIO_ALWAYS_INLINE static F negative(const F& x) {
    return V::floats(V::bits(x) ^ V::splat(0x80000000u));
  }

  /// Away from 0 where the sign is `Away`, else towards it. A NaN becomes quiet.
  template <uint32_t Away>
  FOLIO_ALWAYS_INLINE static U to_bf16(const U& x) {
    const U goes_out = (x >> 31) == V::splat(Away) ? V::splat(0xffffu) : U{};
    const U rounded = (x + goes_out) >> 16;
    const U magnitude = x & V::splat(0x7fffffffu);
    return magnitude > V::splat(0x7f800000u) ? (x >> 16) | V::splat(0x40u) : rounded;
  }
  /// The nearest, or the one above it.
  FOLIO_ALWAYS_INLINE static U f16_up(const F& x) {
    const U nearest = SmallFloats<I>::to_f16(V::bits(x));
    const U above_magnitude = nearest + V::splat(1u), below_magnitude = nearest - V::splat(1u);
    U above = nearest >= V::splat(0x8000u) ? below_magnitude : above_magnitude;
    above = nearest == V::splat(0x8000u) ? V::splat(1u) : above;  // -0
    return SmallFloats<I>::from_f16(nearest) < x ? above : nearest;
  }

  template <class Narrow>
  FOLIO_ALWAYS_INLINE static void put(const float* from, std::byte* to, int64_t n, Narrow narrow) {
    int64_t d = 0;
    for (; d + W <= n; d += W) {
      const auto halves = __builtin_convertvector(narrow(V::load(from + d)), U16);
      __builtin_memcpy(to + d * 2, &halves, sizeof halves);
    }
    if (d == n) return;
    float tail[W] = {};
    __builtin_memcpy(tail, from + d, static_cast<size_t>(n - d) * sizeof(float));
    const auto halves = __builtin_convertvector(narrow(V::load(tail)), U16);
    __builtin_memcpy(to + d * 2, &halves, static_cast<size_t>(n - d) * 2);
  }
};

}  // namespace folio::inline v1::pages
