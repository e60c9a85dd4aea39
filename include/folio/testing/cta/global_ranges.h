// SPDX-License-Identifier: Apache-2.0
/// folio/testing/cta/global_ranges.h: the global memory that an emulated kernel was given, range by
/// range.
///
/// Inputs may be read; of buffers every access is tracked. Ranges may lie in one another, the
/// innermost counts; ranges that follow one another without a gap are one to whoever reads inputs.
/// Externally synchronised.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "folio/testing/cta/access_map.h"

namespace folio::inline v1::emulator::cta {

struct GlobalRange {
  std::string label;
  uintptr_t begin = 0;
  int64_t bytes = 0;
  bool is_tracked = false;
  AccessMap order{0};

  [[nodiscard]] bool contains(uintptr_t at, int64_t n) const noexcept {
    return at >= begin && at + static_cast<uintptr_t>(n) <= begin + static_cast<uintptr_t>(bytes);
  }
};

class GlobalRanges {
 public:
  void add(GlobalRange range) {
    ranges_.push_back(std::move(range));
    is_sorted_ = false;
  }
  /// Before anything is found.
  void sort() {
    if (is_sorted_) return;
    std::stable_sort(ranges_.begin(), ranges_.end(),
                     [](const GlobalRange& a, const GlobalRange& b) {
                       return a.begin != b.begin ? a.begin < b.begin : a.bytes > b.bytes;
                     });
    ends_.clear();
    for (const GlobalRange& range : ranges_) {
      const uintptr_t end = range.begin + static_cast<uintptr_t>(range.bytes);
      ends_.push_back(ends_.empty() ? end : std::max(ends_.back(), end));
    }
    last_ = 0;
    is_sorted_ = true;
  }
  /// The innermost range that holds all of these bytes; null: there is none.
  [[nodiscard]] GlobalRange* find(const void* pointer, int64_t bytes) {
    const auto at = reinterpret_cast<uintptr_t>(pointer);
    if (last_ < ranges_.size() && ranges_[last_].contains(at, bytes) && is_innermost(last_, at))
      return &ranges_[last_];
    for (size_t i = after(at); i-- > 0 && ends_[i] > at;) {
      if (!ranges_[i].contains(at, bytes)) continue;
      last_ = i;
      return &ranges_[i];
    }
    return nullptr;
  }
  /// Whether all of these bytes are inputs, of one range or of several side by side.
  [[nodiscard]] bool are_inputs(const void* pointer, int64_t bytes) {
    auto at = reinterpret_cast<uintptr_t>(pointer);
    const uintptr_t end = at + static_cast<uintptr_t>(bytes);
    while (at < end) {
      const GlobalRange* range = find(reinterpret_cast<const void*>(at), 1);
      if (range == nullptr || range->is_tracked) return false;
      at = range->begin + static_cast<uintptr_t>(range->bytes);
    }
    return true;
  }
  void settle() {
    for (GlobalRange& range : ranges_) range.order.settle();
  }

 private:
  /// Ranges that begin at or before `at`.
  [[nodiscard]] size_t after(uintptr_t at) const {
    const auto beyond = std::upper_bound(
        ranges_.begin(), ranges_.end(), at,
        [](uintptr_t value, const GlobalRange& range) { return value < range.begin; });
    return static_cast<size_t>(beyond - ranges_.begin());
  }
  [[nodiscard]] bool is_innermost(size_t i, uintptr_t at) const {
    return i + 1 == ranges_.size() || ranges_[i + 1].begin > at;
  }

  std::vector<GlobalRange> ranges_;
  std::vector<uintptr_t> ends_;  // [i]: the largest end of ranges 0 .. i
  size_t last_ = 0;
  bool is_sorted_ = true;
};

}  // namespace folio::inline v1::emulator::cta
