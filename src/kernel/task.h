// SPDX-License-Identifier: Apache-2.0
/// src/kernel/task.h: what a kernel does: tasks of a call, with the functions that it is made of.
///
/// The planner (src/attention/plan.cpp) splits a batch into tasks by a kernel's geometry; `run`
/// does one task, `finish` folds the spans of rows that several tasks shared. Kernels know nothing
/// of plans, executors or workspaces: they get scratch memory and arrays.
///
/// ISA-safe: no functions with bodies.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/attention/attend.h"
#include "folio/attention/problem.h"
#include "folio/cache/batch.h"

namespace folio::inline v1 {

/// How a kernel wants its work split. Functions of the problem alone, so that per_query holds.
struct KernelGeometry {
  int32_t rows = 0;           ///< (token, q head) rows of a task at the most
  int32_t span_keys = 0;      ///< keys of a span; spans lie at absolute multiples
  int64_t scratch_bytes = 0;  ///< memory of a running task, 64-byte aligned
  /// one span's result for `rows` rows, 64-byte aligned; tasks of fewer rows store less
  int64_t partial_bytes = 0;
  /// each head's rows of a task of several heads are padded to this: heads * padded rows <= rows
  int32_t row_granule = 1;
  /// so many rows of a head, or fewer, are padded to a power of two instead
  int32_t few_rows = 0;
  /// fetching and staging a key costs as much as so many rows of arithmetic on it
  int32_t key_cost = 16;
};

/// Rows [row_begin, row_end) of one sequence and each of the KV heads [head, head + heads), over
/// spans [span_begin, span_end). Row r of KV head h is query token r / group, q head h * group + r
/// % group.
struct Task {
  int32_t sequence = 0;
  int32_t head = 0;
  int32_t heads = 1;
  int32_t row_begin = 0;
  int32_t row_end = 0;
  int32_t span_begin = 0;
  int32_t span_end = 0;
  /// index of the split whose spans this task shares with others; -1: it holds all spans of its
  /// rows
  int32_t split = -1;
  int64_t cost = 0;
  /// of a split: one span's result for the rows of this task, padded as the geometry says, 64-byte
  /// aligned
  int64_t partial_bytes = 0;
};

/// What all tasks of a call share. The batch's offsets and lengths are the plan's copies.
struct KernelCall {
  const AttentionProblem* problem = nullptr;
  const AttentionArgs* args = nullptr;
  const Batch* batch = nullptr;
};

/// Shapes alone: what `Support` says of options and types holds already. Null: accepts; otherwise
/// the reason, a string literal.
using KernelRefuse = const char*(const AttentionProblem&) noexcept;
using KernelGeometryOf = KernelGeometry(const AttentionProblem&) noexcept;
/// `partials` null: the task holds all spans of its rows and writes the output. Otherwise it stores
/// the result of each of its spans, task.partial_bytes apart.
using KernelRun = void(const KernelCall&, const Task&, void* scratch, std::byte* partials) noexcept;
/// Folds the partials of spans [span_begin, span_end) of a split in ascending order and writes the
/// output.
using KernelFinish = void(const KernelCall&, const Task&, void* scratch,
                          const std::byte* partials) noexcept;

}  // namespace folio::inline v1
