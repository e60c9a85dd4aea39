// SPDX-License-Identifier: Apache-2.0
/// src/attention/schedule.cpp: splits sequences into tasks.
#include "attention/schedule.h"

#include <algorithm>

#include "attention/divider.h"
#include "attention/units.h"
#include "core/checked.h"

namespace folio::inline v1 {
namespace {

// Per worker. With the limits they bound a plan's memory.
constexpr int64_t pieces = 64;
constexpr int64_t stored_spans = 64;

/// The order of tasks, total, so that it does not depend on the sorting.
bool comes_first(const Task& a, const Task& b) {
  if (a.cost != b.cost) return a.cost > b.cost;
  if (a.sequence != b.sequence) return a.sequence < b.sequence;
  if (a.head != b.head) return a.head < b.head;
  if (a.row_begin != b.row_begin) return a.row_begin < b.row_begin;
  if (a.key_begin != b.key_begin) return a.key_begin < b.key_begin;
  return a.first_query < b.first_query;
}

}  // namespace

ScheduleSize schedule_bounds(const AttentionProblem& problem, const AttentionLimits& limits,
                             const KernelGeometry& geometry) noexcept {
  const int64_t heads = problem.key.num_heads, group = problem.q_heads / heads;
  const int64_t head_rows = limits.tokens * group;  // below 2^31: check_limits
  const CheckedSize units =
      CheckedSize(heads) *
      (problem.selection ? limits.tokens * ceil_div(group, geometry.rows)
                         : head_rows / geometry.rows + std::min(limits.batch, limits.tokens));
  const ScheduleSize shared = cascade_bounds(problem, limits, geometry);
  const int64_t spans = ceil_div(limits.context, geometry.span_keys);
  const int64_t workers = limits.parallelism;
  ScheduleSize size = shared;
  size.tasks = (units + shared.tasks).value();
  if (workers == 1 || units.value() == 0) return size;
  size.tasks = (units + shared.tasks + pieces * workers).value();
  if (spans <= 1) return size;
  size.splits = (CheckedSize(shared.splits) + pieces * workers).value();
  // few rows of a head, too, for its state is as large if the head is a piece
  const int64_t rows =
      std::min<int64_t>(geometry.rows, heads * round_up(head_rows, geometry.row_granule));
  const CheckedSize at_most = CheckedSize(std::max(spans, stored_spans * workers)) *
                              state_bytes(geometry, std::min(efficient_rows, geometry.rows));
  // pieces of rows are padded each
  const CheckedSize all = CheckedSize(spans) * units * state_bytes(geometry, rows + rows / 8);
  size.partial_bytes = (CheckedSize(shared.partial_bytes) + std::min(at_most, all).value()).value();
  return size;
}

ScheduleSize make_schedule(const AttentionProblem& problem, const AttentionLimits& limits,
                           const Batch& batch, const KernelGeometry& geometry,
                           const ScheduleMemory& memory) noexcept {
  const ScheduleSize bounds = schedule_bounds(problem, limits, geometry);
  ScheduleSize size;
  CheckedSize total;
  const auto add_units = [&](int32_t b) {
    for_each_unit(problem, batch, geometry, b, [&](const Task& unit) {
      memory.tasks[size.tasks++] = unit;
      total += unit.cost;
    });
  };
  Cascade cascade(problem, limits, batch, geometry, memory);
  for (int32_t b = 0; b < batch.size; ++b)
    if (!cascade.has(b)) add_units(b);
  total += cascade.cost();
  cascade.add_tasks(total.value(), cascade_bounds(problem, limits, geometry), size);
  for (int32_t b = 0; b < batch.size; ++b)
    if (cascade.left(b)) add_units(b);

  const auto sort = [&] { std::sort(memory.tasks, memory.tasks + size.tasks, comes_first); };
  sort();
  if (limits.parallelism == 1) return size;
  Divider divider(geometry, bounds, limits.parallelism, total.value(), memory.tasks, memory.splits,
                  size);
  divider.run();
  size = divider.size();
  sort();
  return size;
}

}  // namespace folio::inline v1
