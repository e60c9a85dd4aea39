// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/sign_bits.h: the signs of a rotation: PagedKVView::hadamard.
#pragma once

#include <cstdint>

namespace folio::inline v1 {

/// 1 or -1 for each element of a block. Not initialised.
struct SignBits {
  alignas(64) float of[512];
};

/// Of `seed`, other than 0: those of the first seeds are made once and kept, others are made in
/// `own`. Thread safety: any number of callers; nobody waits.
[[nodiscard]] const SignBits& sign_bits(uint32_t seed, SignBits& own) noexcept;

}  // namespace folio::inline v1
