// SPDX-License-Identifier: Apache-2.0
/// src/cpu/softmax/lazy_maximum.h: when the maximum that a row's weights are relative to moves.
///
/// It moves late, so that outputs are rescaled rarely: not before weights reach 2^8. An engine that
/// knows a tile's maximum before its weights moves it where a logit is higher by more than 8
/// (units of log2); one that weighs first, where the sum of the weights exceeds 2^8, or is no
/// number because there was no maximum yet. Either follows from the row alone.
///
/// ISA-safe: templates on a tag type. Source: lazy rescaling as in FlashAttention-4.
#pragma once

#include "cpu/vec/simd.h"

namespace folio::inline v1::softmax {

/// Of W rows, one in each lane.
template <class I>
struct LazyMaximum {
  using V = Simd<I>;
  using F = typename V::F;
  using S = typename V::S;
  static constexpr float reach = 8.0f;
  static constexpr float most = 256.0f;    // 2^reach
  static constexpr float large = 0x1p20f;  // logits are rounded products from here on

  /// Rows whose logits are not to be made by a fused product.
  static S is_large(F maximum) {
    const F size = V::floats(V::bits(maximum) & V::splat(0x7fffffffu));
    return (size > V::splat(large)) & (size < V::splat(__builtin_inff()));
  }
  /// Rows whose weights, of that sum, are to be made again, relative to the highest of their
  /// logits if that is higher than `maximum`.
  static S is_outgrown(F sum, F maximum) { return ~(sum <= V::splat(most)) | is_large(maximum); }
  /// What logits are relative to: 0 where all of them are -inf, for -inf - 0 is no NaN.
  static F reference(F maximum) { return maximum == V::splat(-__builtin_inff()) ? F{} : maximum; }
};

}  // namespace folio::inline v1::softmax
