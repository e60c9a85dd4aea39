// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/elements.h: a register of stored elements as floats, one load per type: what all
/// CPU kernels know of element types.
///
/// Exact for every pattern, whatever the host's rounding and flush modes; NaN becomes some NaN. An
/// instruction set that widens f16 itself says so by `from_f16`. ISA-safe: templates on a tag type.
#pragma once

#include "cpu/convert/small_floats.h"
#include "cpu/vec/simd.h"
#include "folio/core/dtype.h"
#include "folio/core/host_device.h"

namespace folio::inline v1 {

template <class I, DType D>
struct StoredLanes {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  static constexpr int bytes = bit_width(D) / 8;

  /// W elements; no alignment required.
  FOLIO_ALWAYS_INLINE static F load(const void* p) {
    if constexpr (D == DType::f32) {
      return V::template load_as<F>(p);
    } else if constexpr (D == DType::bf16) {
      return V::floats(I::template widen16<U>(p) << 16);
    } else if constexpr (D == DType::f16) {
      return SmallFloats<I>::from_f16(I::template widen16<U>(p));
    } else if constexpr (D == DType::f8_e4m3) {
      return SmallFloats<I>::from_e4m3(I::template widen8<U>(p));
    } else if constexpr (D == DType::f8_e5m2) {
      return SmallFloats<I>::from_f16(I::template widen8<U>(p) << 8);
    } else {
      static_assert(D == DType::i8, "StoredLanes: no element type");
      return __builtin_convertvector(signed8(p), F);
    }
  }

 private:
  using S = typename V::S;

  FOLIO_ALWAYS_INLINE static S signed8(const void* p) {
    if constexpr (requires { I::template widen_signed8<S>(p); }) {
      return I::template widen_signed8<S>(p);
    } else {
      return reinterpret_cast<S>(I::template widen8<U>(p) << 24) >> 24;
    }
  }
};

}  // namespace folio::inline v1
