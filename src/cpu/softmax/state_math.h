// SPDX-License-Identifier: Apache-2.0
/// src/cpu/softmax/state_math.h: what the skeleton does with the states of rows, on every
/// instruction set: weigh them against each other, and fold them.
///
/// ISA-safe: templates on a tag type.
#pragma once

#include "cpu/skeleton/mutant.h"
#include "cpu/vec/simd.h"
#include "kernel/units.h"

namespace folio::inline v1::softmax {

/// Of an engine whose logits are in `U`; one with an exp of its own declares it anew.
template <class I, class U>
struct StateMath {
  using Units = U;
  using V = Simd<I>;

  /// The base of the units to the power of x, x <= 0: exactly 1 at 0 and 0 at -inf.
  static float exp(float x) { return V::exp_one(x * U::unit); }

  /// One row of states: to = to * keep + from * add; n is a multiple of 16.
  static void fold(float* to, const float* from, int n, float keep, float add) {
    if (I::mutant == Mutant::spans_not_weighed) keep = add = 1.0f;
    for (int d = 0; d < n; d += V::W) {
      typename V::F part = V::load(from + d);
      if (I::mutant == Mutant::partials_in_bf16)
        part = V::floats(V::bits(part) & V::splat(0xffff0000u));
      V::store(to + d, V::fma(part, V::splat(add), V::load(to + d) * keep));
    }
  }
};

}  // namespace folio::inline v1::softmax
