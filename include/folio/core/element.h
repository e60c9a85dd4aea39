// SPDX-License-Identifier: Apache-2.0
/// folio/core/element.h: the element types of caches, scales and tensors, and their exact
/// conversions to and from float.
///
/// A floating element is a struct around its bits; `float` and `int8_t` stand for themselves.
/// Conversions are constexpr, run on host and device and depend on no rounding mode:
///
///   to_float(x)            exact for every pattern of every type
///   from_float<T>(x)       round to nearest, ties to even (f8_e8m0: up)
///   from_float_up<T>(x)    round toward +infinity (scales: stored * scale must reach the largest
///                          input)
///
/// | type            | overflow of from_float         | NaN            |
/// | --------------- | ------------------------------ | -------------- |
/// | f32, f16, bf16  | infinity (IEEE 754)            | NaN            |
/// | f8_e4m3 ("fn")  | saturates to +-448             | NaN            |
/// | f8_e5m2         | saturates to +-57344, inf too  | NaN            |
/// | f8_e8m0         | clamps to [2^-127, 2^127]      | NaN; so is x<0 |
/// | i8              | saturates to +-127             | 0              |
///
/// f8_e8m0 has no mantissa whose last bit could be even: a tie, 1.5 * 2^n, becomes 2^(n+1), as in
/// PyTorch and ml_dtypes. Elsewhere these two give what is no scale, or not the nearest, and folio
/// differs: 0 is 2^-127 (ml_dtypes: NaN), beyond 2^127 is 2^127 (both: NaN from 1.5 * 2^127 on),
/// x < 0 is NaN (PyTorch: as |x|), between 2^-127 and 1.5 * 2^-127 is 2^-127 (both: 2^-126).
///
/// Sources: IEEE 754-2019; OCP 8-bit Floating Point Specification 1.0; OCP Microscaling Formats
/// 1.0.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "folio/core/dtype.h"
#include "folio/core/host_device.h"

namespace folio::inline v1 {

struct f16 {
  uint16_t bits = 0;
  bool operator==(const f16&) const = default;
};
struct bf16 {
  uint16_t bits = 0;
  bool operator==(const bf16&) const = default;
};
struct f8_e4m3 {
  uint8_t bits = 0;
  bool operator==(const f8_e4m3&) const = default;
};
struct f8_e5m2 {
  uint8_t bits = 0;
  bool operator==(const f8_e5m2&) const = default;
};
struct f8_e8m0 {
  uint8_t bits = 0;
  bool operator==(const f8_e8m0&) const = default;
};
namespace detail {

/// The element of DType::invalid: pointers to it exist (and are null), values carry nothing.
struct no_element {
  bool operator==(const no_element&) const = default;
};

template <DType D>
struct element;
template <>
struct element<DType::invalid> {
  using type = no_element;
};
template <>
struct element<DType::f32> {
  using type = float;
};
template <>
struct element<DType::f16> {
  using type = f16;
};
template <>
struct element<DType::bf16> {
  using type = bf16;
};
template <>
struct element<DType::f8_e4m3> {
  using type = f8_e4m3;
};
template <>
struct element<DType::f8_e5m2> {
  using type = f8_e5m2;
};
template <>
struct element<DType::f8_e8m0> {
  using type = f8_e8m0;
};
template <>
struct element<DType::i8> {
  using type = int8_t;
};

}  // namespace detail

/// The C++ type of one element: element_t<DType::bf16> is bf16, element_t<DType::i8> is int8_t.
template <DType D>
using element_t = typename detail::element<D>::type;

/// A type that is the element of some supported DType.
template <class T>
concept Element = std::is_same_v<T, float> || std::is_same_v<T, f16> || std::is_same_v<T, bf16> ||
                  std::is_same_v<T, f8_e4m3> || std::is_same_v<T, f8_e5m2> ||
                  std::is_same_v<T, f8_e8m0> || std::is_same_v<T, int8_t>;

template <Element T>
inline constexpr DType dtype_of = std::is_same_v<T, float>     ? DType::f32
                                  : std::is_same_v<T, f16>     ? DType::f16
                                  : std::is_same_v<T, bf16>    ? DType::bf16
                                  : std::is_same_v<T, f8_e4m3> ? DType::f8_e4m3
                                  : std::is_same_v<T, f8_e5m2> ? DType::f8_e5m2
                                  : std::is_same_v<T, f8_e8m0> ? DType::f8_e8m0
                                                               : DType::i8;

namespace detail {

/// Calls `f(std::type_identity<element>{})` for the element type of `dtype`, and with no_element
/// for types without one. Checked functions refuse the latter before they come here; for users:
/// folio/core/visit_dtype.h.
template <class F>
constexpr decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(std::type_identity<float>{});
    case DType::f16: return f(std::type_identity<f16>{});
    case DType::bf16: return f(std::type_identity<bf16>{});
    case DType::f8_e4m3: return f(std::type_identity<f8_e4m3>{});
    case DType::f8_e5m2: return f(std::type_identity<f8_e5m2>{});
    case DType::f8_e8m0: return f(std::type_identity<f8_e8m0>{});
    case DType::i8: return f(std::type_identity<int8_t>{});
    default: return f(std::type_identity<no_element>{});
  }
}
static_assert(count_where([](DType dtype) {
                return visit_dtype(dtype, []<class T>(std::type_identity<T>) {
                         return !std::is_same_v<T, no_element>;
                       }) != is_supported(dtype);
              }) == 0,
              "visit_dtype has a case for each type with elements");

/// What tells the IEEE-like formats apart. `has_infinity` false = OCP "fn": the largest code is
/// NaN, the one below is a number.
template <class T>
struct format;
template <>
struct format<f16> {
  using bits = uint16_t;
  static constexpr int exponent_bits = 5, mantissa_bits = 10;
  static constexpr bool has_infinity = true, saturates = false;
};
template <>
struct format<bf16> {
  using bits = uint16_t;
  static constexpr int exponent_bits = 8, mantissa_bits = 7;
  static constexpr bool has_infinity = true, saturates = false;
};
template <>
struct format<f8_e4m3> {
  using bits = uint8_t;
  static constexpr int exponent_bits = 4, mantissa_bits = 3;
  static constexpr bool has_infinity = false, saturates = true;
};
template <>
struct format<f8_e5m2> {
  using bits = uint8_t;
  static constexpr int exponent_bits = 5, mantissa_bits = 2;
  static constexpr bool has_infinity = true, saturates = true;
};

template <class T>
struct layout {
  using F = format<T>;
  static constexpr uint32_t sign = 1u << (F::exponent_bits + F::mantissa_bits);
  static constexpr int bias = (1 << (F::exponent_bits - 1)) - 1;
  static constexpr uint32_t exponent_max = (1u << F::exponent_bits) - 1u;
  // First special code; a number when there is no infinity.
  static constexpr uint32_t infinity = exponent_max << F::mantissa_bits;
  static constexpr uint32_t largest = F::has_infinity ? infinity - 1u : sign - 2u;
  static constexpr uint32_t nan =
      F::has_infinity ? infinity | (1u << (F::mantissa_bits - 1)) : sign - 1u;
};

template <class T>
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr float decode(uint32_t code) {
  using L = layout<T>;
  using F = format<T>;
  const uint32_t sign = (code & L::sign) ? 0x80000000u : 0u;
  const uint32_t magnitude = code & (L::sign - 1u);
  const uint32_t exponent = magnitude >> F::mantissa_bits;
  const uint32_t mantissa = magnitude & ((1u << F::mantissa_bits) - 1u);
  if (F::has_infinity ? exponent == L::exponent_max : magnitude == L::sign - 1u) {
    const bool infinite = F::has_infinity && mantissa == 0;
    return __builtin_bit_cast(
        float,
        sign | (infinite ? 0x7f800000u : 0x7fc00000u | (mantissa << (23 - F::mantissa_bits))));
  }
  if constexpr (F::exponent_bits == 8)
    return __builtin_bit_cast(float, sign | (magnitude << (23 - F::mantissa_bits)));
  if (exponent == 0) {  // subnormal: mantissa * 2^(1 - bias - mantissa_bits), exact in float
    const uint32_t unit = static_cast<uint32_t>(127 + 1 - L::bias - F::mantissa_bits) << 23;
    const float value = static_cast<float>(mantissa) * __builtin_bit_cast(float, unit);
    return sign ? -value : value;
  }
  const uint32_t rebased = static_cast<uint32_t>(static_cast<int>(exponent) - L::bias + 127);
  return __builtin_bit_cast(float, sign | (rebased << 23) | (mantissa << (23 - F::mantissa_bits)));
}

enum class Round : uint8_t { nearest_even, toward_positive };

/// `value` >> `shift`, rounded; `negative` turns rounding toward +infinity into truncation of the
/// magnitude.
FOLIO_HOST_DEVICE constexpr uint32_t shift_rounded(uint32_t value, int shift, Round round,
                                                   bool negative) {
  if (shift <= 0) return value << -shift;
  if (shift > 31) return round == Round::toward_positive && !negative && value != 0 ? 1u : 0u;
  const uint32_t kept = value >> shift;
  const uint32_t rest = value & ((1u << shift) - 1u);
  if (round == Round::toward_positive) return kept + (!negative && rest != 0 ? 1u : 0u);
  const uint32_t half = 1u << (shift - 1);
  return kept + (rest > half || (rest == half && (kept & 1u)) ? 1u : 0u);
}

template <class T>
FOLIO_HOST_DEVICE constexpr uint32_t encode(float x, Round round) {
  using L = layout<T>;
  using F = format<T>;
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t sign = bits >> 31 ? L::sign : 0u;
  if (magnitude > 0x7f800000u) return sign | L::nan;
  const uint32_t overflow = F::saturates ? L::largest : L::infinity;
  if (magnitude == 0x7f800000u) return sign | overflow;
  const int exponent = static_cast<int>(magnitude >> 23);
  const uint32_t mantissa = (magnitude & 0x7fffffu) | (exponent != 0 ? 0x800000u : 0u);
  // exponent code in T, before rounding; <= 0: subnormal
  const int target = (exponent != 0 ? exponent : 1) - 127 + L::bias;
  const int shift = 23 - F::mantissa_bits + (target < 1 ? 1 - target : 0);
  uint32_t code = shift_rounded(mantissa, shift, round, sign != 0);
  // the hidden bit adds the last exponent step
  if (target >= 1) code += static_cast<uint32_t>(target - 1) << F::mantissa_bits;
  if (code <= L::largest) return sign | code;
  // toward +infinity a negative value stays finite
  const bool truncated = round == Round::toward_positive && sign != 0;
  return sign | (truncated ? L::largest : overflow);
}

/// Scales are non-negative powers of two: a negative input has no meaning and becomes NaN.
FOLIO_HOST_DEVICE constexpr uint32_t encode_e8m0(float x, Round round) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u || (bits >> 31 && magnitude != 0)) return 255u;
  const uint32_t exponent = magnitude >> 23;
  const uint32_t mantissa = magnitude & 0x7fffffu;
  if (exponent == 0) {  // code 0 is 2^-127, the float subnormal with mantissa 0x400000
    if (mantissa <= 0x400000u) return 0u;
    const bool up = round == Round::toward_positive || mantissa >= 0x600000u;
    return up ? 1u : 0u;
  }
  const uint32_t half = 0x400000u;
  const bool up = round == Round::toward_positive ? mantissa != 0 : mantissa >= half;
  const uint32_t code = exponent + (up ? 1u : 0u);
  return code > 254u ? 254u : code;
}

FOLIO_HOST_DEVICE constexpr int8_t encode_i8(float x, Round round) {
  if (!(x == x)) return 0;
  if (x >= 127.0f) return 127;
  if (x <= -127.0f) return -127;
  const int truncated = static_cast<int>(x);
  const float rest = x - static_cast<float>(truncated);  // exact, in (-1, 1), sign of x
  if (round == Round::toward_positive)
    return static_cast<int8_t>(truncated + (rest > 0.0f ? 1 : 0));
  const float distance = rest < 0.0f ? -rest : rest;
  const bool away = distance > 0.5f || (distance == 0.5f && (truncated & 1));
  return static_cast<int8_t>(truncated + (away ? (x < 0.0f ? -1 : 1) : 0));
}

template <class T>
FOLIO_HOST_DEVICE constexpr T encode_element(float x, Round round) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else if constexpr (std::is_same_v<T, int8_t>) {
    return encode_i8(x, round);
  } else if constexpr (std::is_same_v<T, f8_e8m0>) {
    return T{static_cast<uint8_t>(encode_e8m0(x, round))};
  } else {
    return T{static_cast<typename format<T>::bits>(encode<T>(x, round))};
  }
}

}  // namespace detail

FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr float to_float(float x) { return x; }
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr float to_float(int8_t x) {
  return static_cast<float>(x);
}
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr float to_float(f16 x) {
  return detail::decode<f16>(x.bits);
}
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr float to_float(bf16 x) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(x.bits) << 16);
}
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr float to_float(f8_e4m3 x) {
  return detail::decode<f8_e4m3>(x.bits);
}
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr float to_float(f8_e5m2 x) {
  return detail::decode<f8_e5m2>(x.bits);
}
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr float to_float(f8_e8m0 x) {
  const uint32_t code = x.bits;
  return __builtin_bit_cast(float, code == 255u ? 0x7fc00000u
                                   : code == 0u ? 0x00400000u
                                                : code << 23);
}

/// Nearest element, ties to even (f8_e8m0: up); overflow and NaN as in the table above.
template <Element T>
FOLIO_HOST_DEVICE constexpr T from_float(float x) {
  return detail::encode_element<T>(x, detail::Round::nearest_even);
}

/// Smallest element >= x, for x within the type's range; above it the type's overflow rule holds.
template <Element T>
FOLIO_HOST_DEVICE constexpr T from_float_up(float x) {
  return detail::encode_element<T>(x, detail::Round::toward_positive);
}

}  // namespace folio::inline v1
