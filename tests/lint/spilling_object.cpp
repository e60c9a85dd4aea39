// SPDX-License-Identifier: Apache-2.0
/// tests/lint/spilling_object.cpp: needs more vectors than there are registers; the lint of spills
/// is tested on it.
#include <immintrin.h>

#include <cstdint>

namespace folio::test {

/// 40 sums in 32 registers.
void folio_spilling_tile(const float* from, int count, float* to) {
  constexpr int sums = 40;
  __m512 sum[sums];
  for (auto& s : sum) s = _mm512_set1_ps(0.0f);
  for (int i = 0; i < count; ++i) {
    const __m512 factor = _mm512_loadu_ps(from + 16 * i);
#pragma GCC unroll 40
    for (int j = 0; j < sums; ++j)
      sum[j] = _mm512_fmadd_ps(_mm512_set1_ps(from[j]), factor, sum[j]);
  }
  for (int j = 0; j < sums; ++j) _mm512_storeu_ps(to + 16 * j, sum[j]);
}

/// One sum too many, in a loop that is not innermost: the one within it multiplies nothing.
void folio_spilling_paced_tile(const float* from, int count, int lines, float* to) {
  constexpr int sums = 33;
  __m512 sum[sums];
  for (auto& s : sum) s = _mm512_set1_ps(0.0f);
  for (int i = 0; i < count; ++i) {
    for (int line = 0; line < lines; ++line)
      __builtin_prefetch(from + (int64_t{i} * lines + line) * 16);
    const __m512 factor = _mm512_loadu_ps(from + 16 * i);
#pragma GCC unroll 40
    for (int j = 0; j < sums; ++j)
      sum[j] = _mm512_fmadd_ps(_mm512_set1_ps(from[j]), factor, sum[j]);
  }
  for (int j = 0; j < sums; ++j) _mm512_storeu_ps(to + 16 * j, sum[j]);
}

}  // namespace folio::test
