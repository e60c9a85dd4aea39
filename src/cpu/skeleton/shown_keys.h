// SPDX-License-Identifier: Apache-2.0
/// src/cpu/skeleton/shown_keys.h: the keys of a tile that a row of biases does not hide. ISA-safe:
/// always-inline functions only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/core/dtype.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::skeleton {

/// Those of the keys `asked` whose word is another; `count` words from `from` on.
template <class Word>
FOLIO_ALWAYS_INLINE uint64_t not_equal(const std::byte* from, Word minus_infinity, int count,
                                       uint64_t asked) {
  const auto* const words = reinterpret_cast<const Word*>(from);
  int hidden = 0;
  for (int i = 0; i < count; ++i) hidden |= words[i] == minus_infinity ? 1 : 0;
  if (hidden == 0) return asked;
  uint64_t shown = 0;
  for (uint64_t left = asked; left != 0; left &= left - 1) {
    const int key = __builtin_ctzll(left);
    if (words[key] != minus_infinity) shown |= uint64_t{1} << key;
  }
  return shown;
}

/// Those of the keys `asked` whose bias is not -inf; `count` biases of `dtype` lie at `bias`.
FOLIO_ALWAYS_INLINE uint64_t shown_by(const std::byte* bias, DType dtype, int count,
                                      uint64_t asked) {
  static_assert(folio::detail::num_activation_dtypes == 3);
  switch (dtype) {
    case DType::bf16: return not_equal<uint16_t>(bias, 0xff80, count, asked);
    case DType::f16: return not_equal<uint16_t>(bias, 0xfc00, count, asked);
    default: return not_equal<uint32_t>(bias, 0xff800000u, count, asked);
  }
}

}  // namespace folio::inline v1::skeleton
