// SPDX-License-Identifier: Apache-2.0
/// bench/fma.h: a loop of independent fused multiply-adds: what the arithmetic units can do at best.
#pragma once

#include <cstdint>

namespace folio::bench {

/// Runs `rounds` rounds on the calling thread and returns the floating-point operations done. `sink` keeps the result alive.
using FmaLoop = int64_t (*)(int64_t rounds, float* sink);

int64_t fma_x86_64_v3(int64_t rounds, float* sink);
int64_t fma_x86_64_v4(int64_t rounds, float* sink);

/// 12 chains cover the latency of two units; the register file holds them all in both instruction sets.
template <class F, class Fma>
int64_t fma_chains(int64_t rounds, float* sink, F one, Fma fma) {
  constexpr int chains = 12;
  F sum[chains];
  for (F& s : sum) s = one;
  const F factor = one * 0.999f, addend = one * 0.001f;
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (F& s : sum) s = fma(s, factor, addend);
  }
  F total = sum[0];
  for (int c = 1; c < chains; ++c) total += sum[c];
  __builtin_memcpy(sink, &total, sizeof *sink);
  return rounds * chains * static_cast<int64_t>(sizeof(F) / sizeof(float)) * 2;
}

}  // namespace folio::bench
