// SPDX-License-Identifier: Apache-2.0
/// src/cpu/pages/means.h: sums of rows, and means as they are stored.
///
/// Channel by channel: no bit depends on the width of registers. ISA-safe: templates on a tag type.
#pragma once

#include "cpu/convert/rows.h"
#include "cpu/pages/pages.h"

namespace folio::inline v1::pages {

template <class I>
class Means {
  using V = Simd<I>;
  static constexpr int W = V::W;

 public:
  static void add(const float* rows, int64_t count, int64_t n, float* sums) noexcept {
    for (; count > 0; --count, rows += n) {
      int64_t d = 0;
      for (; d + W <= n; d += W) V::store(sums + d, V::load(sums + d) + V::load(rows + d));
      for (; d < n; ++d) sums[d] += rows[d];
    }
  }

  static void store(DType dtype, const float* from, std::byte* to, int64_t n) noexcept {
    Rows<I>::narrow(dtype, from, to, static_cast<int>(n));
  }
};

}  // namespace folio::inline v1::pages
