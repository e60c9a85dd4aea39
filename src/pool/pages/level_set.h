// SPDX-License-Identifier: Apache-2.0
/// pool/pages/level_set.h: which levels have pages that wait, and the first page of the lowest.
#pragma once

#include <bit>
#include <cstdint>

#include "pool/pages/page_record.h"

namespace folio::inline v1::pool {

/// A bit for each level; none that has pages lacks it.
class LevelSet {
 public:
  void add(uint8_t level) noexcept { words_[level / 64] |= uint64_t{1} << level % 64; }
  [[nodiscard]] bool may_have(uint8_t level) const noexcept {
    return (words_[level / 64] >> level % 64 & 1) != 0;
  }
  /// The front of the lowest level in [0, end) that has pages, as `front_of(level)` says; no_page
  /// without one. Amortised O(1): levels without pages lose their bits.
  template <class FrontOf>
  [[nodiscard]] uint32_t lowest_front(uint32_t end, FrontOf front_of) noexcept {
    for (uint32_t level = 0; level < end;) {
      uint64_t& word = words_[level / 64];
      const uint64_t rest = word >> level % 64;
      if (rest == 0) {
        level = (level / 64 + 1) * 64;
        continue;
      }
      level += static_cast<uint32_t>(std::countr_zero(rest));
      if (level >= end) break;
      const uint32_t page = front_of(static_cast<uint8_t>(level));
      if (page != no_page) return page;
      word &= ~(uint64_t{1} << level % 64);  // its pages were found, or are gone
    }
    return no_page;
  }

 private:
  uint64_t words_[2] = {};
};

}  // namespace folio::inline v1::pool
