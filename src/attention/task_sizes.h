// SPDX-License-Identifier: Apache-2.0
/// src/attention/task_sizes.h: rows of a task with those that pad them, spans, splits, bytes of its
/// states; numbers of all tasks.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "core/checked.h"
#include "kernel/kernel.h"

namespace folio::inline v1 {

inline constexpr int32_t efficient_rows = 128;  // a staged key pays off over so many rows

/// Numbers of tasks, splits and shared queries, and bytes of stored states: of a schedule, or the
/// most that any batch within the limits can need.
struct ScheduleSize {
  int64_t tasks = 0;
  int64_t splits = 0;
  int64_t shared_queries = 0;
  int64_t partial_bytes = 0;
};

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t n, int64_t multiple) { return ceil_div(n, multiple) * multiple; }

/// Rows that a kernel computes for so many of a head.
inline int64_t padded_rows(int64_t rows, const KernelGeometry& geometry) {
  if (rows > geometry.few_rows) return round_up(rows, geometry.row_granule);
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows)));
}
inline int64_t padded_rows(const Task& task, const KernelGeometry& geometry) {
  return task.heads * padded_rows(task.row_end - task.row_begin, geometry);
}

inline int64_t spans_of(const Task& task, const KernelGeometry& geometry) {
  return ceil_div(task.key_end, geometry.span_keys) - task.key_begin / geometry.span_keys;
}

/// Whether others fold what the task computes.
inline bool stores_states(const Task& task) { return task.split >= 0 || task.first_query >= 0; }

/// Calls visit(split) for each split that the task stores states of.
template <class Visit>
void for_each_split(const Task& task, const SharedQuery* queries, int32_t group, Visit visit) {
  if (task.split >= 0) visit(task.split);
  if (task.first_query < 0) return;
  int32_t last = -1;  // a sequence's tokens follow one another
  for (int32_t i = 0; i < task.row_end / group; ++i) {
    const int32_t split = queries[task.first_query + i].split;
    if (split != last) visit(split);
    last = split;
  }
}

/// Bytes of one state of `rows` padded rows: the share of geometry.partial_bytes, whose
/// arrays are aligned to 16 rows.
inline int64_t state_bytes(const KernelGeometry& geometry, int64_t rows) {
  const int64_t row_bytes = ceil_div(geometry.partial_bytes, geometry.rows);
  const CheckedSize bytes = round_up(CheckedSize(row_bytes) * round_up(rows, 16), 64);
  return std::min(geometry.partial_bytes, bytes.value());
}

}  // namespace folio::inline v1
