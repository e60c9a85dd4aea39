// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/small_floats.h: registers of f16, e4m3 and e8m0, bit for bit as core/dtype.h
/// states.
///
/// By integer arithmetic and additions that are exact or round as the type does, to nearest even.
#pragma once

#include "cpu/vec/simd.h"
#include "folio/core/host_device.h"

namespace folio::inline v1 {

template <class I>
struct SmallFloats {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;

  /// OCP e4m3 "fn" in the low byte of each lane: 0x7f is NaN, there is no infinity.
  FOLIO_ALWAYS_INLINE static F from_e4m3(U x) {
    const U sign = (x & V::splat(0x80u)) << 24;
    const U magnitude = (x & V::splat(0x7fu)) << 20;
    const F normal = V::floats(magnitude + V::splat(120u << 23));
    const F subnormal = V::floats(magnitude + V::splat(121u << 23)) - V::splat(0.015625f);  // 2^-6
    F value = magnitude < V::splat(1u << 23) ? subnormal : normal;
    value = magnitude == V::splat(0x7fu << 20) ? V::floats(V::splat(0x7fc00000u)) : value;
    return V::floats(V::bits(value) | sign);
  }

  /// 2^(x - 127), an exponent alone: 0 is the subnormal 2^-127, 255 is NaN.
  FOLIO_ALWAYS_INLINE static F from_e8m0(U x) {
    U bits = x == U{} ? V::splat(0x00400000u) : x << 23;
    bits = x == V::splat(255u) ? V::splat(0x7fc00000u) : bits;
    return V::floats(bits);
  }

  /// IEEE binary16 in the low half of each lane; a NaN becomes quiet and keeps its payload.
  FOLIO_ALWAYS_INLINE static F from_f16(U x) {
    if constexpr (requires { I::template from_f16<F>(x); }) {
      return I::template from_f16<F>(x);
    } else {
      const U sign = (x & V::splat(0x8000u)) << 16;
      const U magnitude = (x & V::splat(0x7fffu)) << 13;
      const U normal = magnitude + V::splat(112u << 23);
      const U special = normal + V::splat(112u << 23);
      const U quiet = special | V::splat(0x400000u);
      // 2^-14
      const U subnormal =
          V::bits(V::floats(magnitude + V::splat(113u << 23)) - V::splat(6.103515625e-5f));
      U value = magnitude < V::splat(1u << 23) ? subnormal : normal;
      value = magnitude >= V::splat(31u << 23) ? special : value;
      value = magnitude > V::splat(31u << 23) ? quiet : value;
      return V::floats(value | sign);
    }
  }

  /// The bits of any float to IEEE binary16 in the low half of each lane.
  FOLIO_ALWAYS_INLINE static U to_f16(U x) {
    const U sign = (x >> 16) & V::splat(0x8000u);
    const U magnitude = x & V::splat(0x7fffffffu);
    const U normal = (magnitude - V::splat(112u << 23) + V::splat(0xfffu) +
                      ((magnitude >> 13) & V::splat(1u))) >>
                     13;
    // units of 2^-24
    const U subnormal = V::bits(V::floats(magnitude) + V::splat(0.5f)) - V::splat(0x3f000000u);
    U value = magnitude < V::splat(113u << 23) ? subnormal : normal;
    value = magnitude >= V::splat(0x477ff000u) ? V::splat(0x7c00u) : value;  // from 65520 on
    value = magnitude > V::splat(0x7f800000u) ? V::splat(0x7e00u) : value;
    return value | sign;
  }
};

}  // namespace folio::inline v1
