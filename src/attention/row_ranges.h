// SPDX-License-Identifier: Apache-2.0
/// src/attention/row_ranges.h: cuts a range of independent rows into tasks for an Executor.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/profile.h"

namespace folio::inline v1 {

/// `rows` rows in `tasks` ranges of nearly equal length.
struct RowRanges {
  int64_t rows = 0;
  int64_t tasks = 0;

  [[nodiscard]] int64_t begin(int64_t task) const {
    return task * (rows / tasks) + std::min(task, rows % tasks);
  }
  [[nodiscard]] int64_t end(int64_t task) const { return begin(task + 1); }
};

/// Tasks of at least the profile's `task_bytes`, and not more of them per thread than it says.
/// `rows` >= 1.
inline RowRanges row_ranges(int64_t rows, int64_t row_bytes, int64_t threads) {
  const AppendProfile& profile = machine_profile().append;
  const int64_t rows_min =
      std::max<int64_t>(1, profile.task_bytes / std::max<int64_t>(1, row_bytes));
  return {rows, std::clamp<int64_t>(rows / rows_min, 1, threads * profile.tasks_per_thread)};
}

}  // namespace folio::inline v1
