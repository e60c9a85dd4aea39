// SPDX-License-Identifier: Apache-2.0
/// tier/load_steps.h: how far loads go at once whose leading extents come first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "folio/tier/tier.h"

namespace folio::inline v1::tier {

/// A step takes the next extents of every page.
class LoadSteps {
 public:
  /// One more page. Throws bad_alloc.
  void add(std::span<const Extent> page) {
    if (largest_.size() < page.size()) largest_.resize(page.size());
    for (size_t i = 0; i < page.size(); ++i) largest_[i] = std::max(largest_[i], page[i].bytes);
  }
  /// Of the page that has most.
  [[nodiscard]] uint32_t num_extents() const noexcept {
    return static_cast<uint32_t>(largest_.size());
  }
  /// Behind the extents, from `first` on, that have `wanted` bytes if each is taken from the page
  /// where it is largest; behind the last one where there are fewer.
  [[nodiscard]] uint32_t end_of_step(uint32_t first, int64_t wanted) const noexcept {
    uint32_t end = first;
    for (int64_t bytes = 0; end < largest_.size() && bytes < wanted; ++end) bytes += largest_[end];
    return end;
  }

 private:
  std::vector<int64_t> largest_;  ///< bytes of each extent, of any page
};

}  // namespace folio::inline v1::tier
