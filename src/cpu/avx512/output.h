// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/output.h: sums times the factor of their row.
///
/// ISA-safe: always-inline functions only.
#pragma once

#include "cpu/avx512/vectors.h"

namespace folio::inline v1::avx512 {

struct Output {
  /// output * factor, without negative zeros.
  FOLIO_ALWAYS_INLINE static __m512 scaled(__m512 output, float factor) {
    return _mm512_add_ps(_mm512_mul_ps(output, splat(factor)), _mm512_setzero_ps());
  }
};

}  // namespace folio::inline v1::avx512
