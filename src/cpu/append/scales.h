// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/scales.h: the largest finite magnitude of a granule, and the scale that follows from it.
#pragma once

#include "cpu/append/elements.h"
#include "cpu/append/rows.h"
#include "cpu/append/store.h"
#include "folio/cache/page_walk.h"

namespace folio {
inline namespace v1 {
namespace rows {

/// Granules whose scales are made together, so that their divisions overlap.
inline constexpr int granule_batch = 64;

/// The magnitudes of a granule, as bits, which order as the numbers do.
struct Magnitude {
  uint32_t finite;   ///< the largest finite one
  bool has_special;  ///< there is a NaN or an infinity

  FOLIO_ALWAYS_INLINE void include(const Magnitude& other) {
    finite = finite > other.finite ? finite : other.finite;
    has_special = has_special || other.has_special;
  }
};

template <class I>
struct Scales {
  using V = Simd<I>;
  using U = typename V::U;
  static constexpr int W = V::W;

  static Magnitude magnitude(const float* x, int64_t n) {
    const uint32_t largest = largest_bits<false>(x, n);
    if (largest < infinity) return {largest, false};
    return {largest_bits<true>(x, n), true};
  }

  /// Writes the scales of `count` granules to `at` and says how their runs are to be divided. Arrays have room for `lanes` more.
  static void make(const Job& job, const Magnitude* magnitudes, std::byte* const* at, int count, Run* runs) {
    for (int i = 0; i < count; i += lanes) {
      make_some(job, magnitudes + i, at + i, count - i < lanes ? count - i : lanes, runs + i);
    }
  }

  /// How rows are divided by a scale that is there.
  static Divisor given(const Format& f, const std::byte* at) {
    const float value = load_scale(at, f.scale_dtype) * f.tensor_scale;
    if (value == 1.0f) return no_divisor;
    const bool corrects = is_plain_divisor(value) && bit_width(f.dtype) == 8;
    return {value, 1.0f / value, corrects ? Division::corrected : Division::exact};
  }

  static constexpr int lanes = 8;  // scales that are divided at a time

 private:
  typedef double Doubles __attribute__((vector_size(lanes * sizeof(double))));  // NOLINT(modernize-use-using)
  typedef float Floats __attribute__((vector_size(lanes * sizeof(float))));     // NOLINT(modernize-use-using)
  typedef int64_t Longs __attribute__((vector_size(lanes * sizeof(int64_t))));  // NOLINT(modernize-use-using)
  typedef int32_t Ints __attribute__((vector_size(lanes * sizeof(int32_t))));   // NOLINT(modernize-use-using)

  /// All lanes are computed, used or not: what waits for divisions waits once.
  static void make_some(const Job& job, const Magnitude* magnitudes, std::byte* const* at, int count, Run* runs) {
    const Format& f = job.target;
    const float largest = scale_max(f.scale_dtype);
    Ints bits = {};
    bool has_special = false;
    for (int i = 0; i < count; ++i) {
      bits[i] = static_cast<int32_t>(magnitudes[i].finite);
      has_special = has_special || magnitudes[i].has_special;
    }
    const double reach = static_cast<double>(qmax_of(f.dtype)) * static_cast<double>(f.tensor_scale);  // exact
    // The smallest floats that are not below the quotients: a comparison that holds is -1.
    const Doubles exact = __builtin_convertvector(reinterpret_cast<Floats>(bits), Doubles) / reach;
    const Floats nearest = __builtin_convertvector(exact, Floats);
    const Longs is_below = __builtin_convertvector(nearest, Doubles) < exact;
    Floats wanted = reinterpret_cast<Floats>(reinterpret_cast<Ints>(nearest) - __builtin_convertvector(is_below, Ints));
    wanted = bits == 0 ? Floats{} + 1.0f : wanted;
    Floats stored = wanted < largest ? wanted : Floats{} + largest;
    if (f.scale_dtype == DType::f32) {
      for (int i = 0; i < count; ++i) __builtin_memcpy(at[i], reinterpret_cast<const float*>(&stored) + i, sizeof(float));
    } else {
      for (int i = 0; i < count; ++i) stored[i] = store_scale(f.scale_dtype, stored[i], at[i]);
    }
    const Floats divisor = stored * f.tensor_scale, reciprocal = 1.0f / divisor;
    const Ints odd = (divisor < plain_divisor_min) | (divisor > plain_divisor_max) | (wanted > largest);
    bool is_uniform = !has_special;
    for (int i = 0; i < lanes; ++i) is_uniform = is_uniform && (i >= count || odd[i] == 0);
    for (int i = 0; i < count; ++i) {
      const Division how =
          is_uniform ? Division::bounded : how_of(divisor[i], !magnitudes[i].has_special && wanted[i] <= largest);
      runs[i].divisor = {divisor[i], reciprocal[i], how};
    }
  }

  static Division how_of(float divisor, bool is_bounded) {
    if (!is_plain_divisor(divisor)) return Division::exact;
    return is_bounded ? Division::bounded : Division::corrected;
  }

  static constexpr uint32_t infinity = 0x7f800000u;

  /// The largest of the magnitudes' bits; with `FiniteOnly`, specials count as 0.
  template <bool FiniteOnly>
  static uint32_t largest_bits(const float* x, int64_t n) {
    const U sign = V::splat(0x80000000u);
    const auto bits_of = [&](const float* from) {
      const U bits = V::bits(V::load(from)) & ~sign;
      if constexpr (FiniteOnly) return bits < V::splat(infinity) ? bits : U{};
      return bits;
    };
    U largest[4] = {};
    int64_t i = 0;
    for (; i + 4 * W <= n; i += 4 * W) {
      for (int k = 0; k < 4; ++k) {
        const U bits = bits_of(x + i + static_cast<int64_t>(k) * W);
        largest[k] = bits > largest[k] ? bits : largest[k];
      }
    }
    for (; i + W <= n; i += W) {
      const U bits = bits_of(x + i);
      largest[0] = bits > largest[0] ? bits : largest[0];
    }
    if (i < n) {
      float rest[W] = {};
      __builtin_memcpy(rest, x + i, static_cast<size_t>(n - i) * sizeof(float));
      const U bits = bits_of(rest);
      largest[0] = bits > largest[0] ? bits : largest[0];
    }
    for (int k = 1; k < 4; ++k) largest[0] = largest[k] > largest[0] ? largest[k] : largest[0];
    return I::largest_lane(largest[0]);
  }

  static constexpr float qmax_of(DType dtype) {
    return dtype == DType::i8 ? 127.0f : dtype == DType::f8_e4m3 ? E4m3::largest : E5m2::largest;
  }

  /// Largest finite number of a scale's type: a scale beyond it stays finite, and the stored values saturate.
  static float scale_max(DType dtype) {
    switch (dtype) {
      case DType::f16: return 65504.0f;
      case DType::bf16: return 0x1.fep127f;
      case DType::f8_e8m0: return 0x1p127f;
      case DType::f8_e4m3: return 448.0f;
      default: return 0x1.fffffep127f;
    }
  }

  /// Positive x <= scale_max(dtype), rounded toward +infinity to `dtype`; returns what was stored.
  static float store_scale(DType dtype, float x, std::byte* at) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, x);
    switch (dtype) {
      case DType::f32: return put(dtype, bits, at);
      case DType::bf16: return put(dtype, static_cast<uint16_t>((bits + 0xffffu) >> 16), at);
      case DType::f16: return put(dtype, static_cast<uint16_t>(up<13, 112>(bits, x * 0x1p24f)), at);
      case DType::f8_e8m0: return put(dtype, static_cast<uint8_t>(bits <= 0x400000u ? 0u : (bits + 0x7fffffu) >> 23), at);
      default: return put(dtype, static_cast<uint8_t>(up<20, 120>(bits, x * 0x1p9f)), at);
    }
  }
  template <class Code>
  static float put(DType dtype, Code code, std::byte* at) {
    __builtin_memcpy(at, &code, sizeof code);
    return load_scale(at, dtype);
  }
  /// `units`: x in units of the smallest subnormal number.
  template <int Drop, uint32_t Rebias>
  static uint32_t up(uint32_t bits, float units) {
    if (bits >= (Rebias + 1) << 23) return (bits - (Rebias << 23) + ((1u << Drop) - 1u)) >> Drop;
    const auto whole = static_cast<uint32_t>(units);
    return whole + (static_cast<float>(whole) < units ? 1u : 0u);
  }
};

}  // namespace rows
}  // namespace v1
}  // namespace folio
