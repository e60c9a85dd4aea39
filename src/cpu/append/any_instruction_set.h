// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/any_instruction_set.h: what rows ask of an instruction set and x86-64 has: the
/// base of each object's own type.
///
/// ISA-safe: always-inline functions only.
#pragma once

#include <xmmintrin.h>

#include "folio/core/host_device.h"

namespace folio::inline v1::rows {

struct AnyInstructionSet {
  /// mask ? a : b, bit by bit
  template <class U>
  FOLIO_ALWAYS_INLINE static U select(U mask, U a, U b) {
    return (mask & a) | (~mask & b);
  }
  /// The same, as a number that is not known: it stays in a register instead of being made again.
  template <class U>
  FOLIO_ALWAYS_INLINE static U kept(U x) {
    asm("" : "+v"(x));
    return x;
  }
  FOLIO_ALWAYS_INLINE static float square_root(float x) {
    return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x)));
  }
  FOLIO_ALWAYS_INLINE static void fence() { _mm_sfence(); }
};

}  // namespace folio::inline v1::rows
