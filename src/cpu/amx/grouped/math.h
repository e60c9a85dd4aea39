// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped/math.h: what the skeleton asks of the AMX engine for grouped heads. Logits
/// are in units of ln 2.
///
/// ISA-safe: templates on a tag type.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "cpu/vec/avx512_lanes.h"
#include "cpu/vec/simd.h"
#include "kernel/units.h"

namespace folio::inline v1::amx {

inline constexpr float log2_e = skeleton::Log2Units::log2_e;
inline constexpr float ln_2 = skeleton::Log2Units::ln_2;

/// What the skeleton asks of an engine.
template <class I>
struct GroupedMath {
  using Units = skeleton::Log2Units;
  static float exp(float x) { return Simd<I>::exp_one(x * ln_2); }
  /// to [n] = to * keep + from * add; n is a multiple of 16.
  static void fold(float* to, const float* from, int n, float keep, float add) {
    constexpr __mmask16 every = 0xffff;
    const __m512 k = _mm512_set1_ps(keep), a = _mm512_set1_ps(add);
    for (int i = 0; i < n; i += 16) {
      const __m512 kept = _mm512_maskz_mul_ps(every, _mm512_loadu_ps(to + i), k);
      __m512 part = _mm512_loadu_ps(from + i);
      if (I::mutant == Mutant::partials_in_bf16) part = cut_to_bf16(part);
      _mm512_storeu_ps(to + i, _mm512_maskz_fmadd_ps(every, part, a, kept));
    }
  }
};

}  // namespace folio::inline v1::amx
