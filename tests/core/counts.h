// SPDX-License-Identifier: Apache-2.0
/// tests/core/counts.h: how often each task of a loop ran.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace folio::test {

struct Counts {
  std::vector<std::atomic<int>> runs;
  explicit Counts(int64_t n) : runs(static_cast<size_t>(n)) {}
  static void task(void* self, int64_t i) noexcept {
    ++static_cast<Counts*>(self)->runs[static_cast<size_t>(i)];
  }
  bool each_once() const {
    for (const auto& run : runs) {
      if (run != 1) return false;
    }
    return true;
  }
};

}  // namespace folio::test
