// SPDX-License-Identifier: Apache-2.0
/// bench/fma_x86_64_v4.cpp: the loop of fused multiply-adds for AVX-512.
#include <immintrin.h>

#include "fma.h"

namespace folio::bench {

int64_t fma_x86_64_v4(int64_t rounds, float* sink) {
  return fma_chains(rounds, sink, _mm512_set1_ps(1.0f), [](auto a, auto b, auto c) { return _mm512_fmadd_ps(a, b, c); });
}

}  // namespace folio::bench
