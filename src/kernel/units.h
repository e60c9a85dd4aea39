// SPDX-License-Identifier: Apache-2.0
/// src/kernel/units.h: the units that kernels keep logits in, and what any finite logit is there.
///
/// ISA-safe: always-inline functions and constants only.
#pragma once

#include "folio/core/host_device.h"

namespace folio::inline v1::skeleton {

inline constexpr float largest_float = 3.40282347e38f;

/// A logit as it is.
struct NaturalUnits {
  static constexpr float unit = 1.0f;  // as a natural logit
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE static float of(float logit) { return logit; }
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE static float natural(float x) { return x; }
};

/// In units of ln 2, up to 2^126. Beyond that these would leave the range of float32, and logits
/// lie so far from one another that only their order matters: they grow by a half.
struct Log2Units {
  static constexpr float ln_2 = 0.693147181f, log2_e = 1.44269504f;
  static constexpr float unit = ln_2;
  static constexpr float turn = 0x1p126f;                 // of the logit
  static constexpr float shift = (log2_e - 0.5f) * turn;  // turn / 2 + shift = turn log2 e
  static constexpr float turned = log2_e * turn;          // the turn in these units
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE static float of(float logit) {
    const float size = __builtin_fabsf(logit);
    return size > turn ? __builtin_copysignf(size * 0.5f + shift, logit) : logit / ln_2;
  }
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE static float natural(float x) {
    const float size = __builtin_fabsf(x);
    if (!(size > turned)) return x * ln_2;
    const float wide = (size - shift) * 2.0f;
    return __builtin_copysignf(wide < largest_float ? wide : largest_float, x);
  }
};

}  // namespace folio::inline v1::skeleton
