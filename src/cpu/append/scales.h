// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/scales.h: the largest finite magnitude of a granule, and the scale that follows
/// from it, of i4 with the sign that makes it -8.
#pragma once

#include <type_traits>

#include "cpu/append/by_eights.h"
#include "cpu/append/elements.h"
#include "cpu/append/rows.h"
#include "cpu/append/scale_codes.h"
#include "cpu/append/store.h"
#include "cpu/convert/lane_trees.h"
#include "folio/cache/page_walk.h"

namespace folio::inline v1::rows {

/// The largest finite magnitudes of granules, as bits, which order as the numbers do; with signs,
/// twice those, and 1 where a negative element has it. Not initialised.
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
  using F = typename V::F;
  using Codes = ScaleCodes<I>;
  static constexpr int W = V::W;

  /// Whether scales have a sign, which those of i4 then do: all values of i4 are used so.
  static bool has_signs(const Format& f) {
    return (f.dtype == DType::i4 || f.dtype == DType::i4_halves) && f.scale_dtype != DType::f8_e8m0;
  }

  /// Of all granules, read as `From` says.
  template <class From, bool HasSigns>
  static void measure(const Granules& granules, Magnitudes& all) {
    using Bits = BitsOf<From, HasSigns>;
    Measure<Bits, false> measure{all.finite};
    ByEights<Measure<Bits, false>>::run(granules, measure);
    all.is_any_special = Eights::any(measure.largest >= Bits::special);
    Measure<Bits, true> finite{all.finite};
    if (all.is_any_special) ByEights<Measure<Bits, true>>::run(granules, finite);
    if (const int64_t end = round_up(granules.count(), Eights::count); end % W != 0)
      __builtin_memset(all.finite + end, 0, Eights::count * sizeof all.finite[0]);
  }

  /// Writes the scales of the granules to `at` and says how they are to be divided.
  static void make(const Conversion& conversion, const Granules& granules,
                   const Magnitudes& magnitudes, const Side<std::byte>& at, Divisors& divisors) {
    const bool is_bounded = Codes::visit(conversion.target.scale_dtype, [&](auto type) {
      return make_as<decltype(type)::value>(conversion.target, granules, magnitudes, at, divisors);
    });
    say_how(granules.count(), is_bounded && !magnitudes.is_any_special, divisors);
  }
  /// How granules are divided by scales that were made: at once where all are bounded.
  static void say_how(int64_t count, bool is_bounded, Divisors& divisors) {
    divisors.is_uniform = is_bounded;
    divisors.how[0] = Division::bounded;
    for (int64_t i = 0; i < count && !is_bounded; ++i)
      divisors.how[i] = is_plain_divisor(divisors.value[i]) ? Division::corrected : Division::exact;
  }
  /// Divisors from `first` on, and their reciprocals; whether those may be used.
  FOLIO_ALWAYS_INLINE static bool invert(F divisor, Divisors& divisors, int64_t first) {
    V::store(divisors.value + first, divisor);
    V::store(divisors.reciprocal + first, 1.0f / divisor);
    const F size = V::floats(V::bits(divisor) & V::splat(0x7fffffffu));
    return !V::any((size < plain_divisor_min) | (size > plain_divisor_max));
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

 private:
  static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

  /// Scales up to the largest; false if that is less than is wanted. All lanes are computed, used
  /// or not: what waits for divisions waits once.
  template <DType D>
  static bool make_as(const Format& f, const Granules& granules, const Magnitudes& magnitudes,
                      const Side<std::byte>& at, Divisors& divisors) {
    const float largest = Codes::largest(D);
    const bool is_signed = has_signs(f);
    const double stored = is_signed ? 8.0 : static_cast<double>(qmax_of(f.dtype));
    const typename Codes::Reach reach(stored * static_cast<double>(f.tensor_scale));  // exact
    const typename Codes::template Places<bit_width(D) / 8> places(granules, at);
    bool is_bounded = true;
    for (int64_t i = 0; i < granules.count(); i += W) {
      const U key = V::template load_as<U>(magnitudes.finite + i);
      const F amax = V::floats(is_signed ? key >> 1 : key);
      const F wanted = amax == 0.0f ? V::splat(1.0f) : Codes::quotient_up(amax, reach);
      const U sign = is_signed && D != DType::f8_e8m0 ? sign_of(key) : U{};
      F scale = wanted < largest ? wanted : V::splat(largest);
      places.put(i, Codes::template round_up<D>(scale) | sign >> (32 - bit_width(D)));
      scale = V::floats(V::bits(scale) | sign);
      is_bounded = invert(scale * f.tensor_scale, divisors, i) && is_bounded;
      is_bounded = !V::any(wanted > largest) && is_bounded;
    }
    return is_bounded;
  }

  /// The bit of the sign of a scale: set where the largest magnitude is that of a positive element.
  FOLIO_ALWAYS_INLINE static U sign_of(U key) { return key > 1u ? ~key << 31 : U{}; }

  static constexpr uint32_t infinity = 0x7f800000u;
  static constexpr auto larger = [](auto& a, const auto& b) { a = a > b ? a : b; };

  // A register of magnitudes, as integers that order as they do; with `FiniteOnly`, specials count
  // as 0. Numbers of 32 bits become one for each granule by `join`; `special` and above are none.
  struct FloatBits {
    using Lanes = S;
    using Each = Eights::S;
    static constexpr int bytes = 4;
    static constexpr auto special = static_cast<int32_t>(infinity);
    template <bool FiniteOnly>
    FOLIO_ALWAYS_INLINE static Lanes load(const std::byte* from) {
      const auto bits = reinterpret_cast<S>(V::template load_as<U>(from) & V::splat(0x7fffffffu));
      if constexpr (FiniteOnly) return bits < special ? bits : S{};
      return bits;
    }
    FOLIO_ALWAYS_INLINE static void join(const Lanes (&all)[Eights::count], Each& each) {
      LaneTrees<I>::join(all, larger, each);
    }
  };
  struct Bf16Bits {
    using Lanes = typename Words<I>::S;
    using Each = Eights::S;
    static constexpr int bytes = 2;
    static constexpr auto special = static_cast<int32_t>(infinity);
    template <bool FiniteOnly>
    FOLIO_ALWAYS_INLINE static Lanes load(const std::byte* from) {
      const auto words =
          reinterpret_cast<Lanes>(V::template load_as<U>(from) & V::splat(0x7fff7fffu));
      if constexpr (FiniteOnly)
        return words < static_cast<int16_t>(infinity >> 16) ? words : Lanes{};
      return words;
    }
    FOLIO_ALWAYS_INLINE static void join(const Lanes (&all)[Eights::count], Each& each) {
      LaneTrees<I>::join(all, larger, each);
      const Each low = each << 16, high = each & static_cast<int32_t>(0xffff0000u);
      each = low > high ? low : high;
    }
  };
  // The sign is the last bit.
  struct SignedFloatBits {
    using Lanes = U;
    using Each = Eights::U;
    static constexpr int bytes = 4;
    static constexpr uint32_t special = infinity << 1;
    template <bool FiniteOnly>
    FOLIO_ALWAYS_INLINE static Lanes load(const std::byte* from) {
      const U bits = V::template load_as<U>(from), key = bits << 1 | bits >> 31;
      if constexpr (FiniteOnly) return key < special ? key : U{};
      return key;
    }
    FOLIO_ALWAYS_INLINE static void join(const Lanes (&all)[Eights::count], Each& each) {
      LaneTrees<I>::join(all, larger, each);
    }
  };
  struct SignedBf16Bits {
    using Lanes = typename Words<I>::U;
    using Each = Eights::U;
    static constexpr int bytes = 2;
    static constexpr uint32_t special = infinity << 1;
    template <bool FiniteOnly>
    FOLIO_ALWAYS_INLINE static Lanes load(const std::byte* from) {
      const auto words = reinterpret_cast<Lanes>(V::template load_as<U>(from));
      const Lanes key = words << 1 | words >> 15;
      if constexpr (FiniteOnly) return key < static_cast<uint16_t>(special >> 16) ? key : Lanes{};
      return key;
    }
    FOLIO_ALWAYS_INLINE static void join(const Lanes (&all)[Eights::count], Each& each) {
      LaneTrees<I>::join(all, larger, each);
      const Each low = each << 16, top = low > each ? low : each;  // what is below counts last
      each = (top & 0xfffe0000u) | (top >> 16 & 1u);
    }
  };
  template <class From, bool HasSigns>
  using BitsOf =
      std::conditional_t<From::bytes == 2, std::conditional_t<HasSigns, SignedBf16Bits, Bf16Bits>,
                         std::conditional_t<HasSigns, SignedFloatBits, FloatBits>>;

  template <class Bits, bool FiniteOnly>
  struct Measure {
    using Lanes = typename Bits::Lanes;
    using Each = typename Bits::Each;
    uint32_t* to;
    Each largest = {};

    FOLIO_ALWAYS_INLINE void put(int64_t i, const Lanes (&some)[Eights::count]) {
      Each magnitudes;
      Bits::join(some, magnitudes);
      __builtin_memcpy(to + i, &magnitudes, sizeof magnitudes);
      largest = magnitudes > largest ? magnitudes : largest;
    }
    FOLIO_ALWAYS_INLINE static Lanes lanes_of(const std::byte* from, int64_t n) {
      constexpr int64_t step = sizeof(Lanes) / Bits::bytes;
      Lanes most = {}, other = {};
      for (; n >= 2 * step; n -= 2 * step, from += 2 * sizeof(Lanes)) {
        larger(most, Bits::template load<FiniteOnly>(from));
        larger(other, Bits::template load<FiniteOnly>(from + sizeof(Lanes)));
      }
      if (n >= step) {
        larger(most, Bits::template load<FiniteOnly>(from));
        n -= step, from += sizeof(Lanes);
      }
      if (n > 0) {
        std::byte rest[sizeof(Lanes)] = {};
        __builtin_memcpy(rest, from, static_cast<size_t>(n) * Bits::bytes);
        larger(most, Bits::template load<FiniteOnly>(rest));
      }
      larger(most, other);
      return most;
    }
  };

  static constexpr float qmax_of(DType dtype) {
    switch (dtype) {
      case DType::i8: return 127.0f;
      case DType::f8_e4m3: return E4m3::largest;
      case DType::f8_e5m2: return E5m2::largest;
      case DType::f4_e2m1: return 6.0f;
      default: return 7.0f;  // of four bits
    }
  }
};

}  // namespace folio::inline v1::rows
