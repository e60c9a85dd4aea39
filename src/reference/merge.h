// SPDX-License-Identifier: Apache-2.0
/// reference/merge.h: joins softmax-weighted means over disjoint sets of keys, in double.
#pragma once

#include <span>
#include <vector>

namespace folio::reference {

/// The mean of the values and the logarithm of the denominator over some keys. No keys: any `out`,
/// an infinite lse.
struct Part {
  std::vector<double> out;
  double lse;
};

/// lse = log(sum_i exp(lse_i)), out = sum_i exp(lse_i - lse) out_i; parts of infinite lse are not
/// looked at. All parts such: out = 0 (`size` elements), lse = -infinity.
Part merge(std::span<const Part> parts, size_t size);

}  // namespace folio::reference
