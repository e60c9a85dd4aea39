// SPDX-License-Identifier: Apache-2.0
/// reference/merge.cpp: the log-sum-exp merge.
#include "reference/merge.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace folio::reference {

Part merge(std::span<const Part> parts, size_t size) {
  constexpr double nothing = -std::numeric_limits<double>::infinity();
  const auto is_empty = [](const Part& part) { return std::isinf(part.lse); };
  double largest = nothing;
  for (const Part& part : parts) {
    if (!is_empty(part)) largest = std::max(largest, part.lse);
  }
  Part merged{std::vector<double>(size, 0.0), nothing};
  if (largest == nothing) return merged;

  double sum = 0.0;
  for (const Part& part : parts) {
    if (!is_empty(part)) sum += std::exp(part.lse - largest);
  }
  merged.lse = largest + std::log(sum);
  for (const Part& part : parts) {
    if (is_empty(part)) continue;
    const double weight = std::exp(part.lse - merged.lse);
    for (size_t d = 0; d < size; ++d) merged.out[d] += weight * part.out[d];
  }
  return merged;
}

}  // namespace folio::reference
