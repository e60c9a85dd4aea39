// SPDX-License-Identifier: Apache-2.0
/// src/cpu/vec/neon_lanes.h: what Simd and Rows ask of an instruction set, for NEON as every 64-bit
/// Arm has it: the base of each aarch64 object's own type.
///
/// ISA-safe: always-inline functions only.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "folio/core/host_device.h"

namespace folio::inline v1 {

struct NeonLanes {
  static constexpr int width = 4;          // floats per register
  static constexpr int score_vectors = 4;  // registers of keys (or dimensions) beside 4 rows

  template <class F>
  FOLIO_ALWAYS_INLINE static F fma(F a, F b, F c) {
    return vfmaq_f32(c, a, b);
  }
  /// Bit i: the sign of lane i.
  template <class S>
  FOLIO_ALWAYS_INLINE static uint32_t signs(S lanes) {
    constexpr int32x4_t places = {0, 1, 2, 3};
    return vaddvq_u32(vshlq_u32(vshrq_n_u32(reinterpret_cast<uint32x4_t>(lanes), 31), places));
  }
  /// `width` 16-bit words, or bytes, zero-extended.
  template <class U>
  FOLIO_ALWAYS_INLINE static U widen16(const void* from) {
    return vmovl_u16(load_as<uint16x4_t>(from));
  }
  template <class U>
  FOLIO_ALWAYS_INLINE static U widen8(const void* from) {
    const uint32x2_t bytes = vdup_n_u32(load_as<uint32_t>(from));
    return vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(bytes))));
  }
  /// `width` bytes, sign-extended.
  template <class S>
  FOLIO_ALWAYS_INLINE static S widen_signed8(const void* from) {
    const uint32x2_t bytes = vdup_n_u32(load_as<uint32_t>(from));
    return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u32(bytes))));
  }
  /// IEEE binary16 in the low half of each lane.
  template <class F, class U>
  FOLIO_ALWAYS_INLINE static F from_f16(U x) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(x)));
  }
  /// table[i] for the indices of each lane, 0 to 15.
  template <class F, class U>
  FOLIO_ALWAYS_INLINE static F pick16(const float* table, U i) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(table);
    const uint8x16x4_t all = {
        {vld1q_u8(bytes), vld1q_u8(bytes + 16), vld1q_u8(bytes + 32), vld1q_u8(bytes + 48)}};
    const uint32x4_t places = vmlaq_n_u32(vdupq_n_u32(0x03020100), i, 0x04040404);
    return reinterpret_cast<F>(vqtbl4q_u8(all, vreinterpretq_u8_u32(places)));
  }

 private:
  template <class T>
  FOLIO_ALWAYS_INLINE static T load_as(const void* from) {
    T x;
    __builtin_memcpy(&x, from, sizeof x);
    return x;
  }
};

}  // namespace folio::inline v1
