// SPDX-License-Identifier: Apache-2.0
/// src/sparse/seen_pages.h: the pages that hold keys which a query sees, in ascending order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "folio/attention/visible_keys.h"

namespace folio::inline v1 {

/// Two runs of logical pages: those of the sinks, and those of the other keys which come behind
/// them. Number i counts through both.
class SeenPages {
 public:
  SeenPages(const mask::Visible& seen, int64_t page_size)
      : seen_(seen),
        page_size_(page_size),
        sinks_(pages_of(seen.sinks, 0)),
        keys_(pages_of(seen.keys, sinks_.end)) {}

  [[nodiscard]] int64_t size() const { return sinks_.size() + keys_.size(); }
  /// The logical page.
  [[nodiscard]] int64_t page(int64_t i) const {
    return i < sinks_.size() ? sinks_.begin + i : keys_.begin + (i - sinks_.size());
  }
  /// Numbers [i, run_end(i)) are consecutive pages.
  [[nodiscard]] int64_t run_end(int64_t i) const {
    return i < sinks_.size() ? sinks_.size() : size();
  }
  [[nodiscard]] int64_t keys(int64_t i) const {
    int64_t count = 0;
    for_each_part(i, [&count](const mask::Interval& part) { count += part.size(); });
    return count;
  }
  /// Visits the keys of page number i that the query sees, as up to two intervals.
  template <class Visit>
  void for_each_part(int64_t i, Visit visit) const {
    const int64_t first = page(i) * page_size_, end = first + page_size_;
    for (const mask::Interval& seen : {seen_.sinks, seen_.keys}) {
      const mask::Interval part{std::max(seen.begin, first), std::min(seen.end, end)};
      if (part.begin < part.end) visit(part);
    }
  }

 private:
  /// From page `first` on.
  [[nodiscard]] mask::Interval pages_of(const mask::Interval& keys, int64_t first) const {
    if (keys.begin >= keys.end) return {first, first};
    const int64_t end = (keys.end - 1) / page_size_ + 1;
    return {std::min(std::max(keys.begin / page_size_, first), end), end};
  }

  mask::Visible seen_;
  int64_t page_size_;
  mask::Interval sinks_;
  mask::Interval keys_;
};

}  // namespace folio::inline v1
