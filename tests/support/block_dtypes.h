// SPDX-License-Identifier: Apache-2.0
/// tests/support/block_dtypes.h: the block formats of folio/core/dtype.h, for tests of all of them.
#pragma once

#include <array>
#include <cstddef>

#include "folio/core/dtype.h"

namespace folio::test {

inline constexpr auto block_dtypes = [] {
  std::array<DType, folio::detail::num_block_dtypes> blocks = {};
  size_t found = 0;
  for (int i = 0; i < folio::detail::num_dtypes; ++i)
    if (folio::detail::is_block(static_cast<DType>(i))) blocks[found++] = static_cast<DType>(i);
  return blocks;
}();

/// Whether an f16 behind d is added to the elements; elsewhere patterns stand there.
constexpr bool has_minimum(DType dtype) {
  static_assert(folio::detail::num_block_dtypes == 6);
  return dtype == DType::q4_1 || dtype == DType::q5_1;
}

}  // namespace folio::test
