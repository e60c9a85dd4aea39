// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/zero_points.h: the range of a granule's finite elements, and the scale and the
/// zero point, or the minimum, that follow from it, as attention/append.h states.
#pragma once

#include <type_traits>

#include "cpu/append/by_eights.h"
#include "cpu/append/granules.h"
#include "cpu/append/rows.h"
#include "cpu/append/scale_codes.h"
#include "cpu/append/scales.h"
#include "cpu/convert/lane_trees.h"
#include "cpu/convert/operands.h"
#include "cpu/convert/small_floats.h"

namespace folio::inline v1::rows {

/// The least and the largest finite elements of granules, 0 of none. Not initialised.
struct Ranges {
  alignas(64) float low[granules_max];
  alignas(64) float high[granules_max];
  bool is_any_special;  ///< there is a NaN or an infinity in one of them
};

/// What patterns of u4 are shifted by: the nearest of (x - minimum) / divisor, and zero.
struct Shifts {
  alignas(64) float minimum[granules_max] = {};
  alignas(64) int32_t zero[granules_max] = {};

  explicit Shifts(int32_t every_zero) {
    for (int32_t& z : zero) z = every_zero;
  }
};

template <class I>
class ZeroPoints {
  using V = Simd<I>;
  using F = typename V::F;
  using S = typename V::S;
  using U = typename V::U;
  using Codes = ScaleCodes<I>;
  static constexpr int W = V::W;

 public:
  /// Of all granules, read as `From` says; with `HasZero` all ranges hold 0.
  template <class From, bool HasZero>
  static void measure(const Granules& granules, Ranges& all) {
    Measure<From, HasZero, false> measure{all};
    ByEights<decltype(measure)>::run(granules, measure);
    all.is_any_special = Eights::any(measure.special);
    Measure<From, HasZero, true> finite{all};
    if (all.is_any_special) ByEights<decltype(finite)>::run(granules, finite);
    const int64_t end = (granules.count() + Eights::count - 1) / Eights::count * Eights::count;
    if (end % W == 0) return;
    __builtin_memset(all.low + end, 0, Eights::count * sizeof(float));
    __builtin_memset(all.high + end, 0, Eights::count * sizeof(float));
  }

  /// Writes scales and zero points of the granules to `at` and says how they are to be divided.
  static void make(const Conversion& conversion, const Granules& granules, const Ranges& ranges,
                   const Side<std::byte>& at, Divisors& divisors, Shifts& shifts) {
    const Some all{conversion.target, granules, ranges, at, divisors, shifts};
    const bool is_bounded = Codes::visit(conversion.target.scale_dtype, [&all](auto type) {
      constexpr DType D = decltype(type)::value;
      switch (all.format.zeros) {
        case Zeros::patterns: return patterns<D>(all);
        case Zeros::minimum: return minima<D>(all);
        default: return in_scale(all);
      }
    });
    Scales<I>::say_how(granules.count(), is_bounded && !ranges.is_any_special, divisors);
  }

  /// Those that are there.
  static void read(const Format& f, const Granules& granules, const Side<std::byte>& at,
                   Divisors& divisors, Shifts& shifts) {
    divisors.is_uniform = false;
    for (int64_t i = 0; i < granules.count(); ++i) {
      const folio::detail::GranuleReading reading =
          reading_of(f, at.at(i / granules.per_head, i % granules.per_head));
      divisors.value[i] = reading.scale;
      shifts.minimum[i] = reading.minimum;
      shifts.zero[i] = static_cast<int32_t>(reading.zero);
    }
  }

 private:
  typedef double Doubles
      __attribute__((vector_size(W * sizeof(double))));  // NOLINT(modernize-use-using)

  // ---- Ranges

  /// Bits of floats as integers: where all ranges hold 0, as they are, for positive ones are in
  /// order, and as unsigned ones negative numbers come last and in the order of their magnitudes;
  /// else of negative floats the other bits, which puts all in order.
  template <class From, bool HasZero, bool FiniteOnly>
  struct Measure {
    static constexpr int32_t magnitude = 0x7fffffff, infinity = 0x7f800000;
    using Low = std::conditional_t<HasZero, U, S>;
    struct Lanes {
      Low low = HasZero ? Low{} : Low{} + magnitude;
      S high = HasZero ? S{} : S{} - magnitude;
    };
    using EightLows = std::conditional_t<HasZero, Eights::U, Eights::S>;
    Ranges& to;
    Eights::S special = {};

    FOLIO_ALWAYS_INLINE void put(int64_t i, const Lanes (&some)[Eights::count]) {
      Low lows[Eights::count];
      S highs[Eights::count];
      for (int k = 0; k < Eights::count; ++k) lows[k] = some[k].low, highs[k] = some[k].high;
      EightLows low_keys;
      Eights::S high;
      if constexpr (HasZero) {
        LaneTrees<I>::join(lows, larger, low_keys);
      } else {
        LaneTrees<I>::join(lows, smaller, low_keys);
      }
      LaneTrees<I>::join(highs, larger, high);
      auto low = reinterpret_cast<Eights::S>(low_keys);
      if constexpr (!HasZero) {
        low ^= (low >> 31) & magnitude;
        high ^= (high >> 31) & magnitude;
        const Eights::S is_empty = low_keys == magnitude;
        low = is_empty ? Eights::S{} : low;
        high = is_empty ? Eights::S{} : high;
      } else {
        low = low < 0 ? low : Eights::S{};
      }
      special |= ((low & magnitude) >= infinity) | ((high & magnitude) >= infinity);
      const auto least = reinterpret_cast<Eights::F>(low) + 0.0f;  // no negative zero
      __builtin_memcpy(to.low + i, &least, sizeof least);
      __builtin_memcpy(to.high + i, &high, sizeof high);
    }

    FOLIO_ALWAYS_INLINE static Lanes lanes_of(const std::byte* from, int64_t n) {
      Lanes lanes;
      F a, b;
      for (; n >= 2 * W; n -= 2 * W, from += 2 * W * From::bytes) {
        From::load(from, a, b);
        include(lanes, a);
        include(lanes, b);
      }
      if (n == 0) return lanes;
      std::byte rest[2 * W * From::bytes];
      for (int i = 0; i < 2 * W; ++i)
        __builtin_memcpy(rest + i * From::bytes, from + (i < n ? i : 0) * From::bytes, From::bytes);
      From::load(rest, a, b);
      include(lanes, a);
      include(lanes, b);
      return lanes;
    }
    FOLIO_ALWAYS_INLINE static void include(Lanes& lanes, F x) {
      auto key = reinterpret_cast<S>(x);
      const S is_special = (key & magnitude) >= infinity;
      if constexpr (!HasZero) key ^= (key >> 31) & magnitude;
      if constexpr (HasZero) {
        if constexpr (FiniteOnly) key = is_special ? S{} : key;
        larger(lanes.low, reinterpret_cast<U>(key));
        larger(lanes.high, key);
      } else {
        smaller(lanes.low, FiniteOnly ? (is_special ? S{} + magnitude : key) : key);
        larger(lanes.high, FiniteOnly ? (is_special ? S{} - magnitude : key) : key);
      }
    }
  };
  static constexpr auto larger = [](auto& a, const auto& b) { a = a > b ? a : b; };
  static constexpr auto smaller = [](auto& a, const auto& b) { a = a < b ? a : b; };

  // ---- Zero points

  struct Some {
    const Format& format;
    const Granules& granules;
    const Ranges& ranges;
    const Side<std::byte>& at;
    Divisors& divisors;
    Shifts& shifts;

    [[nodiscard]] Side<std::byte> zeros() const {
      Side<std::byte> side = at;
      side.first += format.zero_offset_bytes;
      return side;
    }
    [[nodiscard]] double reach() const { return 15.0 * static_cast<double>(format.tensor_scale); }
  };

  // Each says whether patterns are within their type but for rounding.

  /// Ranges hold 0.
  template <DType D>
  static bool patterns(const Some& all) {
    const typename Codes::template Places<bit_width(D) / 8> scales(all.granules, all.at);
    const typename Codes::template Places<1> zeros(all.granules, all.zeros());
    const typename Codes::Reach reach(all.reach());
    bool is_bounded = true;
    for (int64_t i = 0; i < all.granules.count(); i += W) {
      const F low = V::load(all.ranges.low + i), high = V::load(all.ranges.high + i);
      const F divisor = put_scales<D>(all, scales, i, wanted_of(low, high, reach), is_bounded);
      zeros.put(i, reinterpret_cast<U>(zeros_of(low, divisor, all.shifts, i)));
    }
    return is_bounded;
  }
  template <DType D>
  static bool minima(const Some& all) {
    constexpr int size = bit_width(D) / 8;
    const typename Codes::template Places<size> scales(all.granules, all.at),
        zeros(all.granules, all.zeros());
    const typename Codes::Reach reach(all.reach());
    bool is_bounded = true;
    for (int64_t i = 0; i < all.granules.count(); i += W) {
      const Doubles exact = __builtin_convertvector(V::load(all.ranges.low + i), Doubles) /
                            static_cast<double>(all.format.tensor_scale);
      const F nearest = __builtin_convertvector(exact, F);
      F low = limited(nearest, Codes::largest(D));
      is_bounded = !V::any(low != nearest) && is_bounded;
      zeros.put(i, round_nearest<D>(low));
      low = low * all.format.tensor_scale;
      V::store(all.shifts.minimum + i, low);
      __builtin_memset(all.shifts.zero + i, 0, sizeof(S));
      const F high = V::load(all.ranges.high + i), top = high > low ? high : low;
      put_scales<D>(all, scales, i, wanted_of(low, top, reach), is_bounded);
    }
    return is_bounded;
  }
  /// The last bits of f32 scales.
  static bool in_scale(const Some& all) {
    const typename Codes::template Places<4> scales(all.granules, all.at);
    const typename Codes::Reach reach(all.reach());
    bool is_bounded = true;
    for (int64_t i = 0; i < all.granules.count(); i += W) {
      const F low = V::load(all.ranges.low + i), high = V::load(all.ranges.high + i);
      const F wanted = wanted_of(low, high, reach);
      is_bounded = !V::any(wanted > largest_in_scale) && is_bounded;
      const U whole = (V::bits(limited(wanted, largest_in_scale)) + 15u) & ~15u;
      const F divisor = V::floats(whole) * all.format.tensor_scale;
      scales.put(i, whole | reinterpret_cast<U>(zeros_of(low, divisor, all.shifts, i)));
      is_bounded = Scales<I>::invert(divisor, all.divisors, i) && is_bounded;
    }
    return is_bounded;
  }

  static constexpr float largest_f32 = 0x1.fffffep127f, largest_in_scale = 0x1.ffffep127f;

  FOLIO_ALWAYS_INLINE static F limited(F x, float most) {
    x = x < most ? x : V::splat(most);
    return x > -most ? x : V::splat(-most);
  }
  FOLIO_ALWAYS_INLINE static F wanted_of(F low, F high, const typename Codes::Reach& reach) {
    return high == low ? V::splat(1.0f)
                       : Codes::quotient_up(limited(high - low, largest_f32), reach);
  }
  /// Of granules from `first` on, up to the largest; their divisors.
  template <DType D, class Places>
  FOLIO_ALWAYS_INLINE static F put_scales(const Some& all, const Places& places, int64_t first,
                                          F wanted, bool& is_bounded) {
    const float largest = Codes::largest(D);
    F scale = wanted < largest ? wanted : V::splat(largest);
    places.put(first, Codes::template round_up<D>(scale));
    scale = scale * all.format.tensor_scale;
    is_bounded = Scales<I>::invert(scale, all.divisors, first) && is_bounded;
    is_bounded = !V::any(wanted > largest) && is_bounded;
    return scale;
  }
  /// Nearest to -low / divisor; low is not positive.
  FOLIO_ALWAYS_INLINE static S zeros_of(F low, F divisor, Shifts& shifts, int64_t first) {
    const F steps = -low / divisor, most = V::splat(15.0f);
    const S zero = I::template to_integers<S>(steps < most ? steps : most);
    __builtin_memcpy(shifts.zero + first, &zero, sizeof zero);
    return zero;
  }
  /// To f32, f16 or bf16: x becomes what its code stands for.
  template <DType D>
  FOLIO_ALWAYS_INLINE static U round_nearest(F& x) {
    U code = V::bits(x);
    if constexpr (D == DType::f16) {
      code = SmallFloats<I>::to_f16(code);
      x = SmallFloats<I>::from_f16(code);
    } else if constexpr (D == DType::bf16) {
      code = Operands<I>::to_bf16(code);
      x = V::floats(code << 16);
    }
    return code;
  }
};

}  // namespace folio::inline v1::rows
