// SPDX-License-Identifier: Apache-2.0
/// src/cpu/vec/baseline_lanes.h: what Simd and Rows ask of an instruction set, in the compilers'
/// own vectors: for any machine of the architecture.
///
/// ISA-safe: always-inline functions only.
#pragma once

#include <cstdint>

#include "folio/core/host_device.h"

#ifdef __aarch64__
#include "cpu/vec/neon_lanes.h"

namespace folio::inline v1 {

using BaselineLanes = NeonLanes;

}  // namespace folio::inline v1

#else

namespace folio::inline v1 {

struct BaselineLanes {
  static constexpr int width = 4;          // floats per register
  static constexpr int score_vectors = 2;  // registers of keys (or dimensions) beside 4 rows

  /// x86-64 has no fused form, and all others of the portable kernel give the same bits; rows use
  /// it only where the product is exact.
  template <class F>
  FOLIO_ALWAYS_INLINE static F fma(F a, F b, F c) {
    return a * b + c;
  }
  /// Bit i: the sign of lane i.
  template <class S>
  FOLIO_ALWAYS_INLINE static uint32_t signs(S lanes) {
    uint32_t bits = 0;
    for (int i = 0; i < width; ++i) bits |= (lanes[i] < 0 ? 1u : 0u) << i;
    return bits;
  }
  /// `width` 16-bit words, or bytes, zero-extended.
  template <class U>
  FOLIO_ALWAYS_INLINE static U widen16(const void* from) {
    typedef uint16_t H __attribute__((vector_size(sizeof(U) / 2)));  // NOLINT(modernize-use-using)
    H h;
    __builtin_memcpy(&h, from, sizeof h);
    return __builtin_convertvector(h, U);
  }
  template <class U>
  FOLIO_ALWAYS_INLINE static U widen8(const void* from) {
    typedef uint8_t B __attribute__((vector_size(sizeof(U) / 4)));  // NOLINT(modernize-use-using)
    B b;
    __builtin_memcpy(&b, from, sizeof b);
    return __builtin_convertvector(b, U);
  }
  /// table[i] for the indices of each lane, 0 to 15.
  template <class F, class U>
  FOLIO_ALWAYS_INLINE static F pick16(const float* table, U i) {
    F picked = {};
    for (int lane = 0; lane < width; ++lane) picked[lane] = table[i[lane]];
    return picked;
  }
};

}  // namespace folio::inline v1

#endif
