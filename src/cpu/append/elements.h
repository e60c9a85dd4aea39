// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/elements.h: registers of floats to stored elements, bit for bit as core/dtype.h
/// states; the way back is convert/elements.h.
///
/// Four registers of floats are a block: of 8-bit elements they are one register, of 16-bit
/// elements two. A NaN is rare: blocks that hold one are looked at again. Rounding is left to one
/// addition of a large number whose last place is the spacing of the stored type at hand, which
/// relies on the default rounding mode.
#pragma once

#include "cpu/append/layout.h"
#include "cpu/convert/small_floats.h"
#include "cpu/vec/simd.h"
#include "folio/core/dtype.h"

namespace folio::inline v1::rows {

/// What is known of the floats that a block narrows.
enum class Range {
  any,     ///< NaN, infinities, numbers beyond the type
  bounded  ///< finite and not beyond the type's largest number
};

/// The 8-bit floats: code = exponent field << mantissa | mantissa, for normal and subnormal numbers
/// alike.
struct E4m3 {
  static constexpr int mantissa = 3, bias = 7, shift = 20;
  static constexpr float largest = 448.0f;
  static constexpr uint32_t nan = 0x7f;
};
struct E5m2 {
  static constexpr int mantissa = 2, bias = 15, shift = 21;
  static constexpr float largest = 57344.0f;
  static constexpr uint32_t nan = 0x7e;
};

template <class I>
struct Elements {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  using S = typename V::S;
  static constexpr int W = V::W;
  static constexpr int block = 4 * W;

  /// bf16 in the high half of each lane, anything below. No NaN.
  FOLIO_ALWAYS_INLINE static U to_bf16(F x) {
    const U bits = V::bits(x);
    return bits + V::splat(0x7fffu) + ((bits >> 16) & V::splat(1u));
  }
  /// The same of any float.
  FOLIO_ALWAYS_INLINE static U nan_to_bf16(F x, U rounded) {
    return x == x ? rounded : (V::bits(x) & V::splat(0x80000000u)) | V::splat(0x7fc00000u);
  }
  static U to_f16(F x) { return SmallFloats<I>::to_f16(V::bits(x)); }

  /// What the conversion to an 8-bit float needs, kept in registers: made again for every block, it
  /// would cost as much as the rest.
  template <class T>
  struct F8Numbers {
    U smallest = I::kept(V::splat(static_cast<uint32_t>(128 - T::bias) << 23));
    U largest = I::kept(V::bits(V::splat(T::largest)));
    U exponents = I::kept(V::splat(0xff800000u));
    U offset = I::kept(
        V::splat((static_cast<uint32_t>(T::bias - 1 - 127 - T::shift) << T::mantissa) & 0xffu));
    U shift = I::kept(V::bits(V::splat(static_cast<float>(1u << T::shift))));
    U codes = I::kept(V::splat(0x007f007fu));
  };

  /// A sum from which codes_of_f8 takes an 8-bit float.
  ///
  /// With 2^e the lower end of x's binade, but at least the smallest normal number, x + 2^(e + 23 -
  /// mantissa) rounds x to the spacing of the stored type; the sum's last bits count that spacing,
  /// and added to the exponent's they are the code. The constant that makes it so is put below the
  /// large number's exponent, where it is even and so leaves ties as they are. All of it carries
  /// x's sign.
  template <class T, Range R>
  FOLIO_ALWAYS_INLINE static U f8_sum(const F8Numbers<T>& with, F x) {
    if constexpr (R == Range::any) x = I::smaller_magnitude(x, V::floats(with.largest));
    const F floored = I::larger_magnitude(x, V::floats(with.smallest));
    const U binade = (V::bits(floored) & with.exponents) | with.offset;
    // the product is exact
    return V::bits(V::fma(V::floats(binade), V::floats(with.shift), x));
  }
  /// The sum of any float.
  template <class T>
  FOLIO_ALWAYS_INLINE static U nan_sum(F x, U sum) {
    return x == x ? sum : (V::bits(x) & V::splat(0x80000000u)) | V::splat(T::nan);
  }
  /// Bytes in words: the halves of sums are words already.
  template <class T>
  FOLIO_ALWAYS_INLINE static U codes_of_f8(const F8Numbers<T>& with, U low_words, U high_words) {
    using Codes = typename Words<I>::U;
    const auto low = reinterpret_cast<Codes>(low_words), high = reinterpret_cast<Codes>(high_words);
    const Codes code = low + (high >> (T::shift - 16));
    return I::select(with.codes, reinterpret_cast<U>(code), reinterpret_cast<U>(high >> 8));
  }

  /// Integers in [-127, 127]. No NaN.
  template <Range R>
  FOLIO_ALWAYS_INLINE static U to_i8(F x) {
    if constexpr (R == Range::any) x = I::smaller_magnitude(x, V::splat(127.0f));
    return reinterpret_cast<U>(I::template to_integers<S>(x));
  }
};

}  // namespace folio::inline v1::rows
