// SPDX-License-Identifier: Apache-2.0
/// src/cuda/plan/device_plan.h: a step's work list as it lies in device memory, and one layer's
/// call, as kernels get it.
///
/// Where they lie: plan_layout.h. The plan kernel writes plan memory, attention kernels the
/// workspace. Block `i` of a kernel's grid does tasks [block_tasks[i], block_tasks[i + 1]) of its
/// list.
#pragma once

#include <cstdint>

#include "folio/attention/attend.h"
#include "folio/attention/problem.h"
#include "folio/cache/batch.h"
#include "folio/tma/encode.h"

namespace folio::cuda {

/// Rows [row_begin, row_end) of one sequence and KV head over spans [span_begin, span_end), spans
/// of the kernel's span_keys keys at absolute multiples. Row r is query token r / group, q head
/// head * group + r % group. Spans that none of the rows sees, between sink tokens and a window,
/// are skipped and have no partial (cuda/attention/live_tiles.h); without any the task writes o =
/// 0.
struct alignas(16) DeviceTask {
  int32_t sequence = 0;
  int32_t head = 0;
  int32_t row_begin = 0;
  int32_t row_end = 0;
  int32_t span_begin = 0;
  int32_t span_end = 0;
  int32_t split = -1;  ///< shared with others; -1: the task holds all spans of its rows
  /// where this task's first partial lies: of its first span, or of the task itself
  int32_t partial = 0;
};

/// Rows whose spans several tasks share: the last of them to arrive folds the partials in ascending
/// order and writes the output.
struct alignas(16) DeviceSplit {
  int32_t tasks = 0;
  int32_t first_partial = 0;
  int32_t partials = 0;
  int32_t reserved = 0;
};

/// Log2 domain: `max` of score * log2(e), `sum` of exp2(score - max).
struct alignas(8) MaxSum {
  float max = 0;
  float sum = 0;
};

/// What a list of tasks is cut by; constants of the kernel that runs it.
struct DeviceGeometry {
  int32_t rows = 0;       ///< (token, q head) rows of a task at the most; partials have so many
  int32_t span_keys = 0;  ///< a multiple of 16
  /// sequences of at most so many rows belong to the list of few rows; 0: none do
  int32_t rows_at_most = 0;
};

/// One list of tasks. All arrays in plan memory.
struct TaskList {
  int32_t* block_tasks = nullptr;  ///< [blocks + 1]
  DeviceTask* tasks = nullptr;
};

/// At the front of the plan memory. The kernels read it from there, since a replayed graph knows no
/// more than addresses.
struct DevicePlan {
  Batch batch = {};           ///< offsets, lengths and positions point into the plan memory
  int32_t num_tasks[2] = {};  ///< of few rows, of many rows
  int32_t num_splits[2] = {};
  int32_t num_partials[2] = {};
};

/// A counter of arrivals between two calls; anything that is not this plus less than the split's
/// tasks is memory that nobody prepared.
inline constexpr uint32_t arrivals_ready = 0x666f6c00u;

/// One layer's call, by value: lies in constant memory.
struct AttendCall {
  AttentionProblem problem = {};  ///< resolved
  AttentionArgs args = {};
  const DevicePlan* plan = nullptr;
  TaskList list = {};  ///< the kernel's own
  const DeviceSplit* splits = nullptr;
  uint32_t* arrivals = nullptr;    ///< [splits]
  MaxSum* partial_rows = nullptr;  ///< [partial][rows]
  float* partials = nullptr;       ///< [partial][rows][v_head_size]
  /// Partials are per span, so that no bit depends on the cut; else per task.
  bool stores_spans = false;
};

/// With tensor maps of the planes: boxes of a page's rows, as tma::page_tile describes them.
struct AttendTileCall {
  AttendCall call = {};
  tma::EncodedTensorMap key = {};
  tma::EncodedTensorMap value = {};
};

}  // namespace folio::cuda
