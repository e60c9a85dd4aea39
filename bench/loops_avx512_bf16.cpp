// SPDX-License-Identifier: Apache-2.0
/// bench/loops_avx512_bf16.cpp: dot products of pairs of bf16, accumulated in float32.
#include <immintrin.h>

#include "loops.h"

namespace folio::bench {

int64_t bf16_dot_avx512_bf16(int64_t rounds, float* sink) {
  constexpr int chains = 14;
  Noise noise(88172645463325252u);
  alignas(64) uint16_t values[4][32];
  for (auto& row : values)
    for (uint16_t& v : row) v = noise.bf16();
  __m512bh operands[4];
  __builtin_memcpy(operands, values, sizeof values);
  __m512 sum[chains];
  for (__m512& s : sum) s = _mm512_set1_ps(0.0f);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 14
    for (int c = 0; c < chains; ++c)
      sum[c] = _mm512_dpbf16_ps(sum[c], operands[c % 2], operands[2 + c / 2 % 2]);
  }
  __m512 total = sum[0];
  for (int c = 1; c < chains; ++c) total += sum[c];
  __builtin_memcpy(sink, &total, sizeof *sink);
  return rounds * chains * 64;
}

}  // namespace folio::bench
