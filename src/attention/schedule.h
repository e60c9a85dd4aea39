// SPDX-License-Identifier: Apache-2.0
/// src/attention/schedule.h: how a batch is cut into tasks: a pure function of lengths, masks and a kernel's geometry.
///
/// A unit is up to `geometry.rows` rows of one sequence over all the keys they see: of one KV head, or of several where a head has
/// few rows and the batch has units enough, since token-major pages are read fastest whole. Units are tasks, except that with
/// parallelism P > 1 a unit of more than 1 / 2P of the step's cost is cut along spans into pieces of about 1 / 4P. There are fewer
/// than 2P such units, so memory is bounded by the limits alone. Tasks are ordered by falling cost.
#pragma once

#include <cstdint>

#include "cpu/kernel.h"
#include "folio/attention/problem.h"
#include "folio/cache/batch.h"

namespace folio {
inline namespace v1 {

/// A unit whose spans several tasks share: `unit` names all its rows and spans.
struct Cut {
  Task unit = {};
  int32_t tasks = 0;
  int32_t reserved = 0;
  int64_t first_partial = 0;  // of the workspace, in partials
};

/// Numbers of tasks, cuts and stored partials: of a schedule, or the most that any batch within the limits can need.
struct ScheduleSize {
  int64_t tasks = 0;
  int64_t cuts = 0;
  int64_t partials = 0;
};

[[nodiscard]] ScheduleSize schedule_bounds(const AttentionProblem& problem, const AttentionLimits& limits,
                                           const KernelGeometry& geometry) noexcept;

/// Writes at most schedule_bounds() tasks and cuts. The batch is within the limits.
ScheduleSize make_schedule(const AttentionProblem& problem, const Batch& batch, const KernelGeometry& geometry,
                           int32_t parallelism, Task* tasks, Cut* cuts) noexcept;

}  // namespace v1
}  // namespace folio
