// SPDX-License-Identifier: Apache-2.0
/// src/attention/convert.h: rows of elements to float and back, written so that compilers vectorise
/// them.
///
/// Bit for bit the conversions of core/dtype.h (a test compares them), but without branches. They
/// rely on the default rounding mode where a subnormal result is rounded by a float addition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "folio/core/dtype.h"
#include "folio/core/element.h"

namespace folio::inline v1 {

/// Elements that a conversion keeps on the stack at a time.
inline constexpr int64_t convert_chunk = 256;

namespace detail {

constexpr uint32_t float_bits(float x) { return __builtin_bit_cast(uint32_t, x); }
constexpr float bits_float(uint32_t x) { return __builtin_bit_cast(float, x); }

/// An element of a narrow format widened: its magnitude in the place of float's, the exponent
/// rebased.
template <class T>
constexpr float widen_element(T x) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else if constexpr (std::is_same_v<T, bf16>) {
    return bits_float(static_cast<uint32_t>(x.bits) << 16);
  } else {
    static_assert(std::is_same_v<T, f16>, "activations are f32, bf16 or f16");
    constexpr uint32_t rebias = 112u << 23;
    const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16;
    const uint32_t magnitude = static_cast<uint32_t>(x.bits & 0x7fffu) << 13;
    const uint32_t normal = magnitude + rebias;
    const uint32_t special = normal + rebias;  // exponent 31 becomes 255
    const uint32_t subnormal = float_bits(bits_float(magnitude + (113u << 23)) - 0x1p-14f);
    const uint32_t wide = magnitude >= (31u << 23) ? special
                          : magnitude < (1u << 23) ? subnormal
                                                   : normal;
    const uint32_t quiet = magnitude > (31u << 23) ? 0x400000u : 0u;
    return bits_float(sign | wide | quiet);
  }
}

/// from_float<T> without branches.
template <class T>
constexpr T narrow_element(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else if constexpr (std::is_same_v<T, int8_t>) {
    const float number = x == x ? x : 0.0f;
    const float clamped = number > 127.0f ? 127.0f : number < -127.0f ? -127.0f : number;
    // its last place is 1: the addition rounds to an integer, ties to even
    constexpr float magic = 0x1.8p23f;
    return static_cast<int8_t>(static_cast<int32_t>(float_bits(clamped + magic)) -
                               static_cast<int32_t>(float_bits(magic)));
  } else {
    using L = layout<T>;
    using F = format<T>;
    constexpr int drop = 23 - F::mantissa_bits;
    constexpr uint32_t rebias = static_cast<uint32_t>(127 - L::bias) << 23;
    const uint32_t bits = float_bits(x);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t sign = (bits & 0x80000000u) >> (31 - F::exponent_bits - F::mantissa_bits);
    uint32_t code =
        (magnitude + ((1u << (drop - 1)) - 1u) + ((magnitude >> drop) & 1u) - rebias) >> drop;
    // below the first normal number; the magic number's last place is the subnormal unit
    if constexpr (rebias != 0) {
      constexpr uint32_t magic = static_cast<uint32_t>(127 - L::bias + 1 + drop) << 23;
      const uint32_t subnormal = float_bits(bits_float(magnitude) + bits_float(magic)) - magic;
      code = magnitude < rebias + (1u << 23) ? subnormal : code;
    }
    constexpr uint32_t overflow = F::saturates ? L::largest : L::infinity;
    code = code > L::largest ? overflow : code;
    code = magnitude > 0x7f800000u ? L::nan : code;
    return T{static_cast<typename F::bits>(sign | code)};
  }
}

template <class T>
void widen_row(const std::byte* from, int64_t n, float* __restrict to) noexcept {
  const T* __restrict row = reinterpret_cast<const T*>(from);
  for (int64_t i = 0; i < n; ++i) to[i] = widen_element(row[i]);
}

template <class T>
void narrow_row(const float* __restrict from, int64_t n, std::byte* to) noexcept {
  T* __restrict row = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < n; ++i) row[i] = narrow_element<T>(from[i]);
}

}  // namespace detail

/// Reads `n` elements as floats.
using WidenRow = void (*)(const std::byte* from, int64_t n, float* to) noexcept;
/// Writes `n` floats as elements: from_float<T> of each.
using NarrowRow = void (*)(const float* from, int64_t n, std::byte* to) noexcept;

/// `dtype` is an activation dtype.
constexpr WidenRow widen_row_of(DType dtype) {
  if (dtype == DType::bf16) return detail::widen_row<bf16>;
  return dtype == DType::f16 ? detail::widen_row<f16> : detail::widen_row<float>;
}

/// `dtype` is a plane dtype.
constexpr NarrowRow narrow_row_of(DType dtype) {
  static_assert(detail::num_plane_dtypes == 6);
  switch (dtype) {
    case DType::bf16: return detail::narrow_row<bf16>;
    case DType::f16: return detail::narrow_row<f16>;
    case DType::f8_e4m3: return detail::narrow_row<f8_e4m3>;
    case DType::f8_e5m2: return detail::narrow_row<f8_e5m2>;
    case DType::i8: return detail::narrow_row<int8_t>;
    default: return detail::narrow_row<float>;
  }
}

}  // namespace folio::inline v1
