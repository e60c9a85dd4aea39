// SPDX-License-Identifier: Apache-2.0
/// folio/core/convert.h: two elements to floats and back, by a GPU's instructions where it has
/// them.
///
/// The only place of the public headers that asks which device it is compiled for. On a host, and
/// for what a device has no instruction for, the conversions are those of element.h; a device's
/// give the same values, a NaN for a NaN, whose payload is the instruction's:
///
///   f16            -> float   cvt.f32.f16                     exact
///   bf16           -> float   a shift                         exact
///   e4m3, e5m2     -> float   cvt.rn.f16x2.eXmYx2, then f16   exact; sm_89 on
///   float -> f16, bf16        cvt.rn.{f16x2,bf16x2}.f32       nearest, ties to even; sm_80 on
///   float -> e4m3, e5m2       cvt.rn.satfinite.eXmYx2.f32     the same, saturating; sm_89 on
///
/// Source: PTX ISA 8.7, cvt.
#pragma once

#include <cstdint>
#include <type_traits>

#include "folio/core/element.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::detail {

#ifdef __CUDA_ARCH__
inline constexpr int compute_capability = __CUDA_ARCH__;
#else
inline constexpr int compute_capability = 0;  // a host
#endif

template <class T>
inline constexpr bool is_f8 = std::is_same_v<T, f8_e4m3> || std::is_same_v<T, f8_e5m2>;
template <class T>
inline constexpr bool is_16_bits = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;
/// Whether the device that is compiled for has an instruction between T and float.
template <class T>
inline constexpr bool device_converts =
    (is_f8<T> && compute_capability >= 890) || (is_16_bits<T> && compute_capability >= 800);

#ifdef __CUDA_ARCH__

/// Two f16 of a word as floats, the lower half first.
__device__ __forceinline__ void floats_of_halves(uint32_t pair, float (&out)[2]) {
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %2;\n"
      "cvt.f32.f16 %0, low;\ncvt.f32.f16 %1, high;\n}"
      : "=f"(out[0]), "=f"(out[1])
      : "r"(pair));
}

template <class T>
__device__ __forceinline__ void device_floats(T low, T high, float (&out)[2]) {
  if constexpr (std::is_same_v<T, bf16>) {
    out[0] = to_float(low);
    out[1] = to_float(high);
  } else if constexpr (std::is_same_v<T, f16>) {
    floats_of_halves(uint32_t{low.bits} | uint32_t{high.bits} << 16, out);
  } else {
    const auto pair = static_cast<uint16_t>(low.bits | high.bits << 8);
    uint32_t halves = 0;
    if constexpr (std::is_same_v<T, f8_e4m3>)
      asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
    else
      asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(pair));
    floats_of_halves(halves, out);
  }
}

template <class T>
__device__ __forceinline__ void device_elements(float low, float high, T (&out)[2]) {
  if constexpr (is_16_bits<T>) {
    uint32_t pair = 0;
    if constexpr (std::is_same_v<T, bf16>)
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    else
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    out[0] = T{static_cast<uint16_t>(pair)};
    out[1] = T{static_cast<uint16_t>(pair >> 16)};
  } else {
    uint16_t pair = 0;
    if constexpr (std::is_same_v<T, f8_e4m3>)
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    else
      asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    out[0] = T{static_cast<uint8_t>(pair)};
    out[1] = T{static_cast<uint8_t>(pair >> 8)};
  }
}

#endif

/// out = {low, high} as floats: exact.
template <class T>
FOLIO_HOST_DEVICE constexpr void floats_of(T low, T high, float (&out)[2]) {
#ifdef __CUDA_ARCH__
  if constexpr (device_converts<T>) {
    if (!__builtin_is_constant_evaluated()) return device_floats(low, high, out);
  }
#endif
  out[0] = to_float(low);
  out[1] = to_float(high);
}

/// out = {low, high} as elements, as from_float says.
template <class T>
FOLIO_HOST_DEVICE constexpr void elements_of(float low, float high, T (&out)[2]) {
#ifdef __CUDA_ARCH__
  if constexpr (device_converts<T>) {
    if (!__builtin_is_constant_evaluated()) return device_elements(low, high, out);
  }
#endif
  out[0] = from_float<T>(low);
  out[1] = from_float<T>(high);
}

}  // namespace folio::inline v1::detail
