// SPDX-License-Identifier: Apache-2.0
/// src/cuda/append/granule_scale.h: scales made from magnitudes or read, and what elements are
/// divided by: bit for bit what the CPU computes.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/primitives/device.h"
#include "folio/cache/page_walk.h"
#include "folio/core/element.h"

namespace folio::cuda {

/// The largest number that is stored.
FOLIO_DEVICE float qmax_of(DType dtype) {
  return dtype == DType::i8 ? 127.0f : dtype == DType::f8_e4m3 ? 448.0f : 57344.0f;
}

/// Rounded to nearest.
FOLIO_DEVICE float square_root(float x) { return std::sqrt(x); }

/// The bits of |x|, which order as the numbers do; 0 for what is not finite.
FOLIO_DEVICE uint32_t finite_magnitude(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x) & 0x7fffffffu;
  return bits < 0x7f800000u ? bits : 0u;
}

/// The smallest float that is not below largest / qmax; 1 for a largest of 0.
template <class Thread>
FOLIO_DEVICE float wanted_scale(Thread& t, uint32_t largest, DType dtype) {
  if (largest == 0) return 1.0f;
  const float qmax = qmax_of(dtype), x = __builtin_bit_cast(float, largest);
  const float nearest = x / qmax;
  // exact: whole multiples of the quotient's last place
  if (!(t.fma(nearest, qmax, -x) < 0.0f)) return nearest;
  return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, nearest) + 1u);
}

/// The same of largest / (qmax * tensor_scale), the quotient rounded to double.
FOLIO_DEVICE float wanted_scale(uint32_t largest, DType dtype, float tensor_scale) {
  if (largest == 0) return 1.0f;
  // the product is exact
  const double reach = static_cast<double>(qmax_of(dtype)) * static_cast<double>(tensor_scale);
  const double exact = static_cast<double>(__builtin_bit_cast(float, largest)) / reach;
  const auto nearest = static_cast<float>(exact);
  if (!(static_cast<double>(nearest) < exact)) return nearest;
  return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, nearest) + 1u);
}

/// Writes `x` to a scale, rounded toward +infinity but finite; returns what it has become.
template <class T, class Thread>
FOLIO_DEVICE float put_scale(Thread& t, float x, float largest, bool writes, std::byte* at) {
  const T scale = from_float_up<T>(x < largest ? x : largest);
  if (writes) t.store(reinterpret_cast<T*>(at), scale);
  return to_float(scale);
}
template <class Thread>
FOLIO_DEVICE float put_scale(Thread& t, float x, DType dtype, bool writes, std::byte* at) {
  static_assert(folio::detail::num_scale_dtypes == 5);
  switch (dtype) {
    case DType::f32: return put_scale<float>(t, x, 0x1.fffffep127f, writes, at);
    case DType::f16: return put_scale<f16>(t, x, 65504.0f, writes, at);
    case DType::bf16: return put_scale<bf16>(t, x, 0x1.fep127f, writes, at);
    case DType::f8_e8m0: return put_scale<f8_e8m0>(t, x, 0x1p127f, writes, at);
    default: return put_scale<f8_e4m3>(t, x, 448.0f, writes, at);
  }
}

/// A scale that nobody writes meanwhile.
template <class Thread>
FOLIO_DEVICE float get_scale(Thread& t, DType dtype, const std::byte* at) {
  uint32_t code = 0;
  static_assert(folio::detail::num_scale_dtypes == 5);
  switch (dtype) {
    case DType::f32: code = t.read(reinterpret_cast<const uint32_t*>(at)); break;
    case DType::f16:
    case DType::bf16: code = t.read(reinterpret_cast<const uint16_t*>(at)); break;
    default: code = t.read(reinterpret_cast<const uint8_t*>(at)); break;
  }
  return folio::detail::load_scale(reinterpret_cast<const std::byte*>(&code), dtype);
}

/// The tensor's factor; 1 where there is none.
template <class Thread>
FOLIO_DEVICE float tensor_scale_of(Thread& t, const ScaleView& scales) {
  return scales.data != nullptr && scales.tensor_scale != nullptr ? t.read(scales.tensor_scale)
                                                                  : 1.0f;
}

/// What the elements of a granule are divided by, for elements of 8 bits: quotients come from the
/// reciprocal and one step of correction (Markstein 1990), which gives the rounded quotient as long
/// as nothing under- or overflows. Divisors beyond 2^+-80 are brought there together with what they
/// divide; what under- or overflows then rounds to the same 8 bits. They are made positive
/// likewise, which keeps the sign of zeros.
struct Divisor {
  float value = 1.0f;
  float reciprocal = 1.0f;
  float factor = 1.0f;  ///< of the divisor and of what it divides

  static FOLIO_DEVICE Divisor of(float value) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, value);
    const float magnitude = __builtin_bit_cast(float, bits & 0x7fffffffu);
    const float factor = magnitude < 0x1p-80f ? 0x1p100f : magnitude > 0x1p80f ? 0x1p-100f : 1.0f;
    Divisor divisor;
    divisor.factor =
        __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, factor) | (bits & 0x80000000u));
    divisor.value = value * divisor.factor;
    divisor.reciprocal = 1.0f / divisor.value;
    return divisor;
  }
  /// Zero, infinity and NaN: the product with the reciprocal is the quotient.
  FOLIO_DEVICE bool is_special() const {
    return !(reciprocal != 0.0f && reciprocal - reciprocal == 0.0f);
  }
};

/// x / divisor, as far as its 8 bits show.
template <class Thread>
FOLIO_DEVICE float divided(Thread& t, float x, const Divisor& divisor) {
  const float scaled = x * divisor.factor;
  const float first = scaled * divisor.reciprocal;
  if (divisor.is_special()) return first;
  const float rest = -t.fma(first, divisor.value, -scaled);  // in this form a zero keeps its sign
  const float quotient = t.fma(rest, divisor.reciprocal, first);
  // infinities, and quotients beyond float, leave NaN behind
  return quotient == quotient ? quotient : first;
}

}  // namespace folio::cuda
