// SPDX-License-Identifier: Apache-2.0
/// folio/testing/cta/numbers.h: what the arithmetic instructions of kernels give, as documented.
///
/// Conversions are exact or rounded as the instruction rounds, with the NaN that the hardware
/// writes: 0x7fff in f16 and bf16, 0x7f in fp8. Functions are the nearest float of the true value,
/// or nearly; the hardware's ex2.approx is within 2 ulp of that, so compare within a tolerance.
/// Pure functions. Source: PTX ISA 8.7, 9.7.9.21 (cvt), 9.7.3.20 (ex2).
#pragma once

#include <cmath>
#include <cstdint>

#include "folio/core/dtype.h"
#include "folio/core/element.h"

namespace folio::inline v1::emulator {

namespace detail {

[[nodiscard]] inline float flush_subnormal(float x) noexcept {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}

template <class T>
[[nodiscard]] constexpr uint32_t half_bits(float x) noexcept {
  return x != x ? 0x7fffu : uint32_t{from_float<T>(x).bits};
}
template <class T>
[[nodiscard]] constexpr uint32_t fp8_bits(float x) noexcept {
  return x != x ? 0x7fu : uint32_t{from_float<T>(x).bits};
}
template <class T>
[[nodiscard]] constexpr uint32_t half_of_fp8(uint32_t code) noexcept {
  return half_bits<f16>(to_float(T{static_cast<uint8_t>(code)}));
}

}  // namespace detail

/// ex2.approx.ftz.f32
[[nodiscard]] inline float machine_exp2(float x) noexcept {
  return detail::flush_subnormal(std::exp2(detail::flush_subnormal(x)));
}

/// cvt.rn.bf16x2.f32 and cvt.rn.f16x2.f32
template <DType Type>
[[nodiscard]] constexpr uint32_t machine_pack(float low, float high) noexcept {
  static_assert(Type == DType::bf16 || Type == DType::f16);
  if constexpr (Type == DType::bf16)
    return detail::half_bits<bf16>(low) | detail::half_bits<bf16>(high) << 16;
  else
    return detail::half_bits<f16>(low) | detail::half_bits<f16>(high) << 16;
}
template <DType Type>
[[nodiscard]] constexpr float machine_unpack(uint32_t pair, int part) noexcept {
  static_assert(Type == DType::bf16 || Type == DType::f16);
  const auto half = static_cast<uint16_t>(part == 0 ? pair : pair >> 16);
  if constexpr (Type == DType::bf16)
    return to_float(bf16{half});
  else
    return to_float(f16{half});
}

/// cvt.rn.f16x2.e4m3x2 (T = f8_e4m3) and cvt.rn.f16x2.e5m2x2 (T = f8_e5m2)
template <class T>
[[nodiscard]] constexpr uint32_t machine_half_pair(uint16_t pair) noexcept {
  return detail::half_of_fp8<T>(pair & 0xffu) | detail::half_of_fp8<T>(pair >> 8u) << 16;
}
/// cvt.rn.satfinite.e4m3x2.f32 and cvt.rn.satfinite.e5m2x2.f32
template <class T>
[[nodiscard]] constexpr uint16_t machine_fp8_pair(float low, float high) noexcept {
  return static_cast<uint16_t>(detail::fp8_bits<T>(low) | detail::fp8_bits<T>(high) << 8);
}

}  // namespace folio::inline v1::emulator
