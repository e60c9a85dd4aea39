// SPDX-License-Identifier: Apache-2.0
/// bench/loops_amx.cpp: products of bf16 tiles: 2 x 2 blocks over a depth of 128, operands from the
/// first-level cache.
///
/// Assembly, not intrinsics: g++ 12 gives _tile_loadconfig and _tile_loadd no memory operands. The
/// caller has asked the system for permission (machine_has() does).
#include <initializer_list>

#include "loops.h"

namespace folio::bench {
namespace {

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

constexpr int depth_tiles = 4;
constexpr int tile_elements = 512;

/// Accumulators 4 to 7 += rows of A (tiles 0 and 1) times columns of B (2 and 3); both 2 tiles side
/// by side per 32 of depth.
void multiply(const uint16_t* a, const uint16_t* b) {
  __asm__ volatile(
      "tileloadd (%0,%2,1), %%tmm0\n\t"
      "tileloadd (%1,%2,1), %%tmm2\n\t"
      "tdpbf16ps %%tmm2, %%tmm0, %%tmm4\n\t"
      "tileloadd 1024(%1,%2,1), %%tmm3\n\t"
      "tdpbf16ps %%tmm3, %%tmm0, %%tmm5\n\t"
      "tileloadd 1024(%0,%2,1), %%tmm1\n\t"
      "tdpbf16ps %%tmm2, %%tmm1, %%tmm6\n\t"
      "tdpbf16ps %%tmm3, %%tmm1, %%tmm7"
      :
      : "r"(a), "r"(b), "r"(int64_t{64})
      : "memory");
}

}  // namespace

int64_t amx_bf16(int64_t rounds, float* sink) {
  alignas(64) uint16_t a[depth_tiles][2 * tile_elements], b[depth_tiles][2 * tile_elements];
  Noise noise(88172645463325252u);
  for (auto* operand : {&a, &b})
    for (auto& tiles : *operand)
      for (uint16_t& v : tiles) v = noise.bf16();
  const TileConfig config;
  __asm__ volatile("ldtilecfg %0" : : "m"(config) : "memory");
  for (int64_t i = 0; i < rounds; ++i) {
    __asm__ volatile("tilezero %%tmm4\n\ttilezero %%tmm5\n\ttilezero %%tmm6\n\ttilezero %%tmm7"
                     :
                     :
                     : "memory");
    for (int k = 0; k < depth_tiles; ++k) multiply(a[k], b[k]);
  }
  alignas(64) float result[256];
  __asm__ volatile("tilestored %%tmm4, (%0,%1,1)\n\ttilerelease"
                   :
                   : "r"(result), "r"(int64_t{64})
                   : "memory");
  *sink = result[0];
  return rounds * depth_tiles * 4 * 16 * 16 * 32 * 2;
}

}  // namespace folio::bench
