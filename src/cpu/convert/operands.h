// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/operands.h: registers of floats to memory as what products multiply: floats, or
/// bf16.
///
/// bf16 is rounded to nearest even; an instruction set that rounds itself, by `operands_of` and
/// `rounded_floats`, may make subnormals 0. ISA-safe: templates on a tag type.
#pragma once

#include "cpu/vec/simd.h"
#include "folio/core/element.h"
#include "folio/core/host_device.h"

namespace folio::inline v1 {

template <class I>
struct Operands {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  using U16 = typename V::U16;
  static constexpr int W = V::W;

  /// W floats.
  FOLIO_ALWAYS_INLINE static void put(float* to, const F& v) { V::store(to, v); }
  FOLIO_ALWAYS_INLINE static void put(bf16* to, const F& v) {
    U16 halves;
    if constexpr (requires { I::template operands_of<U16>(v); }) {
      halves = I::template operands_of<U16>(v);
    } else {
      halves = __builtin_convertvector(to_bf16(V::bits(v)), U16);
    }
    __builtin_memcpy(static_cast<void*>(to), &halves, sizeof halves);
  }
  /// 2 W floats.
  template <class To>
  FOLIO_ALWAYS_INLINE static void put(To* to, const F& low, const F& high) {
    if constexpr (requires { I::rounded_floats(low, high); } && sizeof(To) == sizeof(bf16)) {
      const auto halves = I::rounded_floats(low, high);
      __builtin_memcpy(static_cast<void*>(to), &halves, sizeof halves);
    } else {
      put(to, low);
      put(to + W, high);
    }
  }

  /// The bits of any float to those of a bf16; a NaN becomes quiet.
  FOLIO_ALWAYS_INLINE static U to_bf16(const U& x) {
    const U magnitude = x & V::splat(0x7fffffffu);
    const U rounded = (x + V::splat(0x7fffu) + ((x >> 16) & V::splat(1u))) >> 16;
    return magnitude > V::splat(0x7f800000u) ? (x >> 16) | V::splat(0x40u) : rounded;
  }
};

}  // namespace folio::inline v1
