// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/scale_lanes.h: registers of scales as floats, whatever their type. For AVX-512.
///
/// ISA-safe: templates on a tag type.
#pragma once

#include <immintrin.h>

#include <cstddef>

#include "cpu/convert/small_floats.h"
#include "cpu/vec/simd.h"
#include "folio/core/dtype.h"
#include "folio/core/host_device.h"

namespace folio::inline v1 {

template <class I>
struct ScaleLanes {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;

  /// Words of a type, zero-extended.
  FOLIO_ALWAYS_INLINE static F widen(const U& words, DType dtype) {
    static_assert(detail::num_scale_dtypes == 5);
    switch (dtype) {
      case DType::f32: return V::floats(words);
      case DType::bf16: return V::floats(words << 16);
      case DType::f16: return SmallFloats<I>::from_f16(words);
      case DType::f8_e8m0: return SmallFloats<I>::from_e8m0(words);
      default: return SmallFloats<I>::from_e4m3(words);
    }
  }

  /// `count` of 1 to 16 scales side by side; nothing behind them is read.
  FOLIO_ALWAYS_INLINE static F load(const std::byte* from, int count, DType dtype) {
    const auto there = static_cast<__mmask16>((1u << count) - 1);
    __m512i words;
    switch (bit_width(dtype)) {
      case 32: words = _mm512_maskz_loadu_epi32(there, from); break;
      case 16:
        words = _mm512_maskz_cvtepu16_epi32(there, _mm256_maskz_loadu_epi16(there, from));
        break;
      default: words = _mm512_maskz_cvtepu8_epi32(there, _mm_maskz_loadu_epi8(there, from));
    }
    return widen(reinterpret_cast<U>(words), dtype);
  }
};

}  // namespace folio::inline v1
