// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/scales.h: the largest finite magnitude of a granule, and the scale that follows
/// from it.
#pragma once

#include <type_traits>

#include "cpu/append/elements.h"
#include "cpu/append/rows.h"
#include "cpu/append/store.h"
#include "cpu/convert/lane_trees.h"
#include "folio/cache/page_walk.h"

namespace folio::inline v1::rows {

/// The largest finite magnitudes of granules, as bits, which order as the numbers do. Not
/// initialised.
struct Magnitudes {
  alignas(64) uint32_t finite[granules_max];
  bool is_any_special;  ///< there is a NaN or an infinity in one of them

  FOLIO_ALWAYS_INLINE void include(int64_t granule, uint32_t bits) {
    finite[granule] = finite[granule] > bits ? finite[granule] : bits;
  }
};

template <class I>
struct Scales {
  using V = Simd<I>;
  using U = typename V::U;
  using S = typename V::S;
  static constexpr int W = V::W;

  /// Of all granules, read as `From` says.
  template <class From>
  static void measure(const Granules& granules, Magnitudes& all) {
    all.is_any_special = !measure_as<MagnitudesOf<From>, false>(granules, all);
    if (all.is_any_special) measure_as<MagnitudesOf<From>, true>(granules, all);
  }

  /// Writes the scales of the granules to `at` and says how they are to be divided.
  static void make(const Conversion& conversion, const Granules& granules,
                   const Magnitudes& magnitudes, const Side<std::byte>& at, Divisors& divisors) {
    const Format& f = conversion.target;
    const int64_t count = granules.count();
    float* const value = divisors.value;
    bool is_bounded = !magnitudes.is_any_special;
    for (int64_t i = 0; i < count; i += lanes)
      is_bounded = make_some(f, magnitudes.finite + i, value + i) && is_bounded;
    store_scales(f.scale_dtype, granules, at, value);
    for (int64_t i = 0; i < count; i += lanes)
      is_bounded = invert(f.tensor_scale, divisors, i) && is_bounded;
    divisors.is_uniform = is_bounded;
    divisors.how[0] = Division::bounded;
    for (int64_t i = 0; i < count && !is_bounded; ++i)
      divisors.how[i] = is_plain_divisor(value[i]) ? Division::corrected : Division::exact;
  }

  /// How rows are divided by scales that are there.
  static void read(const Format& f, const Granules& granules, const Side<std::byte>& at,
                   Divisors& divisors) {
    divisors.is_uniform = true;
    for (int64_t i = 0; i < granules.count(); ++i) {
      const std::byte* scale = at.at(i / granules.per_head, i % granules.per_head);
      const float value = detail::load_scale(scale, f.scale_dtype) * f.tensor_scale;
      const bool corrects = is_plain_divisor(value) && bit_width(f.dtype) == 8;
      divisors.value[i] = value;
      divisors.reciprocal[i] = 1.0f / value;
      divisors.how[i] = value == 1.0f ? Division::none
                        : corrects    ? Division::corrected
                                      : Division::exact;
      divisors.is_uniform = divisors.is_uniform && divisors.how[i] == divisors.how[0];
    }
  }

  static constexpr int lanes = 8;  // scales that are divided at a time

 private:
  typedef double Doubles
      __attribute__((vector_size(lanes * sizeof(double))));  // NOLINT(modernize-use-using)
  typedef float Floats
      __attribute__((vector_size(lanes * sizeof(float))));  // NOLINT(modernize-use-using)
  typedef int64_t Longs
      __attribute__((vector_size(lanes * sizeof(int64_t))));  // NOLINT(modernize-use-using)
  typedef int32_t Ints
      __attribute__((vector_size(lanes * sizeof(int32_t))));  // NOLINT(modernize-use-using)

  /// The scales wanted, up to the largest; false if that is less. All lanes are computed, used or
  /// not: what waits for divisions waits once.
  static bool make_some(const Format& f, const uint32_t* magnitudes, float* to) {
    const float largest = scale_max(f.scale_dtype);
    Ints bits;
    __builtin_memcpy(&bits, magnitudes, sizeof bits);
    // exact
    const double reach =
        static_cast<double>(qmax_of(f.dtype)) * static_cast<double>(f.tensor_scale);
    // The smallest floats that are not below the quotients: a comparison that holds is -1.
    const Doubles exact = __builtin_convertvector(reinterpret_cast<Floats>(bits), Doubles) / reach;
    const Floats nearest = __builtin_convertvector(exact, Floats);
    const Longs is_below = __builtin_convertvector(nearest, Doubles) < exact;
    Floats wanted = reinterpret_cast<Floats>(reinterpret_cast<Ints>(nearest) -
                                             __builtin_convertvector(is_below, Ints));
    wanted = bits == 0 ? Floats{} + 1.0f : wanted;
    const Floats stored = wanted < largest ? wanted : Floats{} + largest;
    __builtin_memcpy(to, &stored, sizeof stored);
    return !has_any(wanted > largest);
  }
  /// The divisors that belong to stored scales, and their reciprocals; whether those may be used.
  static bool invert(float tensor_scale, Divisors& divisors, int64_t first) {
    Floats divisor;
    __builtin_memcpy(&divisor, divisors.value + first, sizeof divisor);
    divisor *= tensor_scale;
    const Floats reciprocal = 1.0f / divisor;
    __builtin_memcpy(divisors.value + first, &divisor, sizeof divisor);
    __builtin_memcpy(divisors.reciprocal + first, &reciprocal, sizeof reciprocal);
    return !has_any((divisor < plain_divisor_min) | (divisor > plain_divisor_max));
  }
  static bool has_any(const Ints& lanes_of) {
    int64_t pairs[lanes / 2];
    __builtin_memcpy(pairs, &lanes_of, sizeof pairs);
    return (pairs[0] | pairs[1] | pairs[2] | pairs[3]) != 0;
  }

  static constexpr uint32_t infinity = 0x7f800000u;
  static constexpr auto larger = [](auto& a, const auto& b) { a = a > b ? a : b; };

  // A register of magnitudes, as integers that order as they do; with `FiniteOnly`, specials count
  // as 0.
  struct FloatMagnitudes {
    using Lanes = S;
    static constexpr int bytes = 4;
    template <bool FiniteOnly>
    FOLIO_ALWAYS_INLINE static Lanes load(const std::byte* from) {
      const auto bits = reinterpret_cast<S>(V::template load_as<U>(from) & V::splat(0x7fffffffu));
      if constexpr (FiniteOnly) return bits < static_cast<int32_t>(infinity) ? bits : S{};
      return bits;
    }
    FOLIO_ALWAYS_INLINE static void largest_of_each(const Lanes (&all)[lanes], Ints& each) {
      LaneTrees<I>::join(all, larger, each);
    }
  };
  struct Bf16Magnitudes {
    using Lanes = typename Words<I>::S;
    static constexpr int bytes = 2;
    template <bool FiniteOnly>
    FOLIO_ALWAYS_INLINE static Lanes load(const std::byte* from) {
      const auto words =
          reinterpret_cast<Lanes>(V::template load_as<U>(from) & V::splat(0x7fff7fffu));
      if constexpr (FiniteOnly)
        return words < static_cast<int16_t>(infinity >> 16) ? words : Lanes{};
      return words;
    }
    FOLIO_ALWAYS_INLINE static void largest_of_each(const Lanes (&all)[lanes], Ints& each) {
      LaneTrees<I>::join(all, larger, each);
      const Ints low = each << 16, high = each & static_cast<int32_t>(0xffff0000u);
      each = low > high ? low : high;
    }
  };

  template <class From>
  using MagnitudesOf = std::conditional_t<From::bytes == 2, Bf16Magnitudes, FloatMagnitudes>;

  /// Whether all are finite. Magnitudes behind the last granule, up to whole `lanes`, become 0.
  template <class M, bool FiniteOnly>
  static bool measure_as(const Granules& granules, Magnitudes& all) {
    using Lanes = typename M::Lanes;
    const bool is_usual = granules.per_head == 1 && granules.last_length == usual_length;
    const int64_t count = granules.count();
    Ints largest = {};
    for (int64_t i = 0, h = 0, g = 0; i < count; i += lanes) {
      Lanes some[lanes];
      if (is_usual && count - i >= lanes) {
#pragma GCC unroll 8
        for (int k = 0; k < lanes; ++k)
          some[k] = largest_lanes<M, FiniteOnly>(granules.from.at(i + k), usual_length);
      } else {
        for (int k = 0; k < lanes; ++k) {
          some[k] = i + k < count ? largest_lanes<M, FiniteOnly>(granules.from.at(h, g),
                                                                 granules.length_of(g))
                                  : Lanes{};
          if (++g == granules.per_head) g = 0, ++h;
        }
      }
      Ints magnitudes;
      M::largest_of_each(some, magnitudes);
      __builtin_memcpy(all.finite + i, &magnitudes, sizeof magnitudes);
      largest = magnitudes > largest ? magnitudes : largest;
    }
    return !has_any(largest >= static_cast<int32_t>(infinity));
  }

  template <class M, bool FiniteOnly>
  FOLIO_ALWAYS_INLINE static typename M::Lanes largest_lanes(const std::byte* from, int64_t n) {
    using Lanes = typename M::Lanes;
    constexpr int64_t step = sizeof(Lanes) / M::bytes;
    Lanes largest = {}, other = {};
    const auto include = [](Lanes& all, Lanes x) { all = x > all ? x : all; };
    for (; n >= 2 * step; n -= 2 * step, from += 2 * sizeof(Lanes)) {
      include(largest, M::template load<FiniteOnly>(from));
      include(other, M::template load<FiniteOnly>(from + sizeof(Lanes)));
    }
    if (n >= step) {
      include(largest, M::template load<FiniteOnly>(from));
      n -= step, from += sizeof(Lanes);
    }
    if (n > 0) {
      std::byte rest[sizeof(Lanes)] = {};
      __builtin_memcpy(rest, from, static_cast<size_t>(n) * M::bytes);
      include(largest, M::template load<FiniteOnly>(rest));
    }
    include(largest, other);
    return largest;
  }

  static constexpr float qmax_of(DType dtype) {
    return dtype == DType::i8 ? 127.0f : dtype == DType::f8_e4m3 ? E4m3::largest : E5m2::largest;
  }

  /// Values become those that were stored.
  static void store_scales(DType dtype, const Granules& granules, const Side<std::byte>& at,
                           float* value) {
    constexpr int64_t size = sizeof(float), whole = lanes * size;
    const int64_t count = granules.count();
    const bool is_packed =
        (granules.per_head == 1 || at.granule_stride_bytes == size) &&
        (granules.heads == 1 || at.head_stride_bytes == size * granules.per_head);
    if (dtype == DType::f32 && is_packed && count % lanes == 0) {
      for (int64_t i = 0; i < count; i += lanes)
        __builtin_memcpy(at.first + i * size, value + i, whole);
      return;
    }
    for (int64_t h = 0, i = 0; h < granules.heads; ++h) {
      for (int64_t g = 0; g < granules.per_head; ++g, ++i) {
        if (dtype == DType::f32) {
          __builtin_memcpy(at.at(h, g), value + i, sizeof(float));
        } else {
          value[i] = store_scale(dtype, value[i], at.at(h, g));
        }
      }
    }
  }

  /// Largest finite number of a scale's type: a scale beyond it stays finite, and the stored values
  /// saturate.
  static float scale_max(DType dtype) {
    static_assert(folio::detail::num_scale_dtypes == 5);
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
    static_assert(folio::detail::num_scale_dtypes == 5);
    switch (dtype) {
      case DType::f32: return put(dtype, bits, at);
      case DType::bf16: return put(dtype, static_cast<uint16_t>((bits + 0xffffu) >> 16), at);
      case DType::f16: return put(dtype, static_cast<uint16_t>(up<13, 112>(bits, x * 0x1p24f)), at);
      case DType::f8_e8m0:
        return put(dtype, static_cast<uint8_t>(bits <= 0x400000u ? 0u : (bits + 0x7fffffu) >> 23),
                   at);
      default: return put(dtype, static_cast<uint8_t>(up<20, 120>(bits, x * 0x1p9f)), at);
    }
  }
  template <class Code>
  static float put(DType dtype, Code code, std::byte* at) {
    __builtin_memcpy(at, &code, sizeof code);
    return detail::load_scale(at, dtype);
  }
  /// `units`: x in units of the smallest subnormal number.
  template <int Drop, uint32_t Rebias>
  static uint32_t up(uint32_t bits, float units) {
    if (bits >= (Rebias + 1) << 23) return (bits - (Rebias << 23) + ((1u << Drop) - 1u)) >> Drop;
    const auto whole = static_cast<uint32_t>(units);
    return whole + (static_cast<float>(whole) < units ? 1u : 0u);
  }
};

}  // namespace folio::inline v1::rows
