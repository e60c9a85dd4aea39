// SPDX-License-Identifier: Apache-2.0
/// src/attention/plan_memory.h: how plan memory and workspace are laid out.
///
///     plan       PlanHeader | offsets, lengths, positions (copies) | tasks | splits
///                | shared queries | what finds who shares
///     workspace  WorkspaceHeader | workers [parallelism] | finished [splits]
///                | scratch [parallelism] | partials
///
/// Every part begins at a multiple of 64 bytes. A worker's entry says whether its scratch memory is
/// taken; `finished` counts the tasks of a split.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/schedule.h"
#include "core/carver.h"
#include "folio/attention/plan.h"

namespace folio::inline v1 {

struct PlanHeader {
  /// of the call of `plan` that wrote this, as in AttentionPlan; 0: the memory holds no plan
  uint64_t generation = 0;
  const Kernel* kernel = nullptr;  // these three: what the tasks are split for
  AttentionLimits limits = {};
  AttentionProblem problem = {};
  Batch batch = {};  // its offsets, lengths and positions point into the plan memory
  const Task* tasks = nullptr;
  const Split* splits = nullptr;
  const SharedQuery* queries = nullptr;
  int64_t num_tasks = 0;
  int64_t num_splits = 0;
  int64_t tokens = 0;
  int64_t longest_context = 0;
  int64_t most_new_tokens = 0;  // of a sequence
};

struct WorkspaceHeader {
  int64_t next_task = 0;
  uint64_t generation = 0;  // of the plan that it was prepared for
};

struct PlanParts {
  PlanHeader* header = nullptr;
  int32_t* query_offsets = nullptr;
  int32_t* context_lengths = nullptr;
  int32_t* query_positions = nullptr;
  int32_t* key_positions = nullptr;
  ScheduleMemory schedule;
  int64_t bytes = 0;
};

/// `size`: bounds of the schedule.
inline ScheduleMemory take_schedule_memory(Carver& carver, const AttentionLimits& limits,
                                           const ScheduleSize& size) noexcept {
  ScheduleMemory memory;
  memory.tasks = carver.take<Task>(size.tasks);
  memory.splits = carver.take<Split>(size.splits);
  if (size.shared_queries == 0) return memory;
  memory.queries = carver.take<SharedQuery>(size.shared_queries);
  memory.cascade = take_cascade_memory(carver, limits.batch, limits.shared_levels);
  return memory;
}

inline PlanParts plan_parts(void* memory, const AttentionLimits& limits,
                            const ScheduleSize& size) noexcept {
  Carver carver(memory);
  const int64_t batch = limits.batch;
  PlanParts parts;
  parts.header = carver.take<PlanHeader>(1);
  parts.query_offsets = carver.take<int32_t>(CheckedSize(batch) + 1);
  parts.context_lengths = carver.take<int32_t>(batch);
  parts.query_positions = carver.take<int32_t>(batch);
  parts.key_positions = carver.take<int32_t>(batch);
  parts.schedule = take_schedule_memory(carver, limits, size);
  parts.bytes = carver.bytes();
  return parts;
}

struct WorkspaceParts {
  WorkspaceHeader* header = nullptr;
  uint32_t* workers = nullptr;
  int32_t* finished = nullptr;
  std::byte* scratch = nullptr;
  std::byte* partials = nullptr;
  int64_t bytes = 0;
};

inline WorkspaceParts workspace_parts(void* memory, int32_t parallelism, const ScheduleSize& bounds,
                                      const KernelGeometry& geometry) noexcept {
  Carver carver(memory);
  WorkspaceParts parts;
  parts.header = carver.take<WorkspaceHeader>(1);
  parts.workers = carver.take<uint32_t>(parallelism);
  parts.finished = carver.take<int32_t>(bounds.splits);
  parts.scratch = carver.take<std::byte>(CheckedSize(parallelism) * geometry.scratch_bytes);
  parts.partials = carver.take<std::byte>(bounds.partial_bytes);
  parts.bytes = carver.bytes();
  return parts;
}

}  // namespace folio::inline v1
