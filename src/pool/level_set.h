// SPDX-License-Identifier: Apache-2.0
/// pool/level_set.h: which levels have pages that wait, and the lowest of them.
#pragma once

#include <bit>
#include <cstdint>

#include "pool/page_lists.h"

namespace folio::inline v1::pool {

/// A bit for each level; none that has pages lacks it.
class LevelSet {
 public:
  void add(uint8_t level) noexcept { words_[level / 64] |= uint64_t{1} << level % 64; }
  [[nodiscard]] bool may_have(uint8_t level) const noexcept {
    return (words_[level / 64] >> level % 64 & 1) != 0;
  }
  /// The lowest level in [0, end) for which `has_pages(level)`; num_levels without one. Amortised
  /// O(1): levels without pages lose their bits.
  template <class HasPages>
  [[nodiscard]] uint32_t lowest(uint32_t end, HasPages has_pages) noexcept {
    for (uint32_t level = 0; level < end;) {
      uint64_t& word = words_[level / 64];
      const uint64_t rest = word >> level % 64;
      if (rest == 0) {
        level = (level / 64 + 1) * 64;
        continue;
      }
      level += static_cast<uint32_t>(std::countr_zero(rest));
      if (level >= end) break;
      if (has_pages(static_cast<uint8_t>(level))) return level;
      word &= ~(uint64_t{1} << level % 64);  // its pages were found, or are gone
    }
    return num_levels;
  }

 private:
  uint64_t words_[2] = {};
};

}  // namespace folio::inline v1::pool
