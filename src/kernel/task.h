// SPDX-License-Identifier: Apache-2.0
/// src/kernel/task.h: what a kernel does: tasks of a call, with the functions that it is made of.
///
/// The planner (src/attention/plan.cpp) splits a batch into tasks by a kernel's geometry; `run`
/// does one task, `finish` folds the states of rows whose keys several tasks shared. Kernels know
/// nothing of plans, executors or workspaces: they get scratch memory and arrays.
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
  /// keys that sequences share are cut at multiples of this, so that bits stay as promised; 0: none
  /// are shared
  int32_t shared_cut = 0;
};

/// Rows [row_begin, row_end) of one sequence and each of the KV heads [head, head + heads), over
/// keys [key_begin, key_end). Row r of KV head h is query token r / group, q head h * group + r %
/// group.
///
/// A shared task computes rows of several sequences, its members, whose tables name the same pages
/// for those keys: `sequence` is the first of them, row r is of query r / group of the task's, and
/// each row's states go to the split of its query.
struct Task {
  int32_t sequence = 0;
  int32_t head = 0;
  int32_t heads = 1;
  int32_t row_begin = 0;
  int32_t row_end = 0;
  int32_t key_begin = 0;  // a multiple of 64
  int32_t key_end = 0;    // of a shared task, too
  /// index of the split whose keys this task shares with others; -1: it holds all keys of its rows,
  /// or is a shared task
  int32_t split = -1;
  int32_t first_query = -1;  // of a shared task: of the call's shared queries
  /// of each row in its split: one for each span, or one for all its keys
  int32_t first_state = 0;
  int32_t states = 0;
  int64_t cost = 0;
  /// of a split: one state of the rows of this task, padded as the geometry says, 64-byte aligned
  int64_t partial_bytes = 0;
};

/// A query token of a shared task.
struct SharedQuery {
  int32_t sequence = 0;
  int32_t token = 0;  // of the sequence's new tokens
  int32_t split = 0;  // of all rows that the token has among the heads of the task
};

/// Rows whose keys several tasks share: `whole` names all of them and their states.
struct Split {
  Task whole = {};
  int32_t tasks = 0;  // that store states of it
  int32_t reserved = 0;
  int64_t first_byte = 0;  // of the partials
};

/// What all tasks of a call share. The batch's offsets and lengths are the plan's copies.
struct KernelCall {
  const AttentionProblem* problem = nullptr;
  const AttentionArgs* args = nullptr;
  const Batch* batch = nullptr;
  const Split* splits = nullptr;
  const SharedQuery* shared_queries = nullptr;
};

/// Shapes alone: what `Support` says of options and types holds already. Null: accepts; otherwise
/// the reason, a string literal.
using KernelRefuse = const char*(const AttentionProblem&) noexcept;
using KernelGeometryOf = KernelGeometry(const AttentionProblem&) noexcept;
/// `partials` null: the task holds all keys of its rows and writes the output. Otherwise those of
/// the call, where it stores its states.
using KernelRun = void(const KernelCall&, const Task&, void* scratch, std::byte* partials) noexcept;
/// Folds the states of a split, which lie at `partials`, in ascending order and writes the output.
using KernelFinish = void(const KernelCall&, const Task& whole, void* scratch,
                          const std::byte* partials) noexcept;

}  // namespace folio::inline v1
