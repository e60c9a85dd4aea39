// SPDX-License-Identifier: Apache-2.0
/// src/attention/schedule.cpp: splits sequences into tasks, from their lengths alone.
#include "attention/schedule.h"

#include <algorithm>

#include "attention/divider.h"
#include "attention/task_sizes.h"
#include "core/checked.h"
#include "kernel/sequence.h"

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
  return a.key_begin < b.key_begin;
}

/// Rows [row_begin, row_end) of one head of a sequence: spans and cost.
Task rows_of(const AttentionProblem& problem, const Batch& batch, const KernelGeometry& geometry,
             const Sequence& sequence, int32_t row_begin, int32_t row_end) {
  const int32_t group = problem.q_heads / problem.key.num_heads;
  Task unit;
  unit.row_begin = row_begin;
  unit.row_end = row_end;
  Visible seen;
  int64_t pairs = 0;
  for (int32_t token = row_begin / group; token <= (row_end - 1) / group; ++token) {
    const Visible v = problem.selection ? Visible{{}, {0, batch.selected_stride}}
                                        : visible_of(problem, batch, sequence, token);
    pairs += group * (v.sinks.size() + v.keys.size());
    seen = hull(seen, v);
  }
  const int64_t keys = seen.sinks.size() + seen.keys.size();
  const int64_t last = std::max(seen.sinks.end, seen.keys.end);
  const int64_t rows = row_end - row_begin;
  unit.cost = pairs * padded_rows(rows, geometry) / rows + keys * geometry.key_cost;
  if (keys > 0) {
    const int64_t first =
        seen.sinks.size() > 0 ? std::min(seen.sinks.begin, seen.keys.begin) : seen.keys.begin;
    unit.key_begin = static_cast<int32_t>(first / geometry.span_keys * geometry.span_keys);
    unit.key_end = static_cast<int32_t>(last);
  }
  return unit;
}

/// Calls visit(unit) for all units. How a sequence's rows and heads are parted follows from its own
/// length.
template <class Visit>
void for_each_unit(const AttentionProblem& problem, const Batch& batch,
                   const KernelGeometry& geometry, Visit visit) {
  const int32_t heads = problem.key.num_heads, group = problem.q_heads / heads;
  for (int32_t b = 0; b < batch.size; ++b) {
    const Sequence sequence = sequence_of(batch, b);
    const int64_t all = static_cast<int64_t>(sequence.new_tokens) * group;
    if (all == 0) continue;
    // of one token where each has its own list of keys
    const int64_t rows = problem.selection ? group : all;
    const int64_t parts = ceil_div(rows, geometry.rows);
    const int64_t part =
        std::min<int64_t>(geometry.rows, round_up(ceil_div(rows, parts), geometry.row_granule));
    const int64_t fit =
        std::clamp<int64_t>(geometry.rows / padded_rows(std::min(part, rows), geometry), 1, heads);
    const auto together = static_cast<int32_t>(ceil_div(heads, ceil_div(heads, fit)));
    for (int64_t row = 0, end = 0; row < all; row = end) {
      end = std::min(row + part, (row / rows + 1) * rows);
      Task unit = rows_of(problem, batch, geometry, sequence, static_cast<int32_t>(row),
                          static_cast<int32_t>(end));
      const int64_t head_cost = unit.cost;
      unit.sequence = b;
      for (int32_t head = 0; head < heads; head += together) {
        unit.head = head;
        unit.heads = std::min(together, heads - head);
        unit.cost = head_cost * unit.heads;
        visit(unit);
      }
    }
  }
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
  const int64_t spans = ceil_div(limits.context, geometry.span_keys);
  const int64_t workers = limits.parallelism;
  ScheduleSize size;
  size.tasks = units.value();
  if (workers == 1 || size.tasks == 0) return size;
  size.tasks = (units + pieces * workers).value();
  if (spans <= 1) return size;
  size.splits = pieces * workers;
  // few rows of a head, too, for its state is as large if the head is a piece
  const int64_t rows =
      std::min<int64_t>(geometry.rows, heads * round_up(head_rows, geometry.row_granule));
  const CheckedSize at_most =
      CheckedSize(std::max(spans, stored_spans * workers)) *
      state_bytes(geometry, std::min(Divider::efficient_rows, geometry.rows));
  // pieces of rows are padded each
  const CheckedSize all = CheckedSize(spans) * units * state_bytes(geometry, rows + rows / 8);
  size.partial_bytes = std::min(at_most, all).value();
  return size;
}

ScheduleSize make_schedule(const AttentionProblem& problem, const AttentionLimits& limits,
                           const Batch& batch, const KernelGeometry& geometry, Task* tasks,
                           Split* splits) noexcept {
  int64_t count = 0;
  CheckedSize total;
  for_each_unit(problem, batch, geometry, [&](const Task& unit) {
    tasks[count++] = unit;
    total += unit.cost;
  });
  std::sort(tasks, tasks + count, comes_first);
  if (limits.parallelism == 1) return {.tasks = count};
  Divider divider(geometry, schedule_bounds(problem, limits, geometry), limits.parallelism,
                  total.value(), tasks, count, splits);
  divider.run();
  std::sort(tasks, tasks + divider.size().tasks, comes_first);
  return divider.size();
}

}  // namespace folio::inline v1
