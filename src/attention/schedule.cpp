// SPDX-License-Identifier: Apache-2.0
/// src/attention/schedule.cpp: cuts sequences into tasks, from their lengths alone.
#include "attention/schedule.h"

#include <algorithm>

#include "cpu/sequence.h"

namespace folio {
inline namespace v1 {
namespace {

constexpr int64_t staging_rows = 16;  // staging a key costs about as much as this many rows of arithmetic on it

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Calls visit(unit) for the units of KV head 0, costs and spans of one head filled in; the other heads' are equal.
template <class Visit>
void for_each_unit(const AttentionProblem& problem, const Batch& batch, const KernelGeometry& geometry, Visit visit) {
  const int32_t group = problem.q_heads / problem.key.num_heads;
  for (int32_t b = 0; b < batch.size; ++b) {
    const Sequence sequence = sequence_of(batch, b);
    const int64_t rows = static_cast<int64_t>(sequence.new_tokens) * group;
    for (int64_t row = 0; row < rows; row += geometry.rows) {
      Task unit;
      unit.sequence = b;
      unit.row_begin = static_cast<int32_t>(row);
      unit.row_end = static_cast<int32_t>(std::min<int64_t>(row + geometry.rows, rows));
      Visible seen;
      for (int32_t token = unit.row_begin / group; token <= (unit.row_end - 1) / group; ++token)
        seen = hull(seen, visible_of(problem, batch, sequence, token));
      const int64_t keys = seen.sinks + (seen.keys.end - seen.keys.begin);
      const int64_t last = std::max(seen.sinks, seen.keys.end);
      unit.cost = keys * (unit.row_end - unit.row_begin + staging_rows);
      if (keys > 0) {
        unit.span_begin = static_cast<int32_t>(seen.sinks > 0 ? 0 : seen.keys.begin / geometry.span_keys);
        unit.span_end = static_cast<int32_t>(ceil_div(last, geometry.span_keys));
      }
      visit(unit);
    }
  }
}

/// Cost of the step, and how many heads a task may take so that at least two tasks per lane remain.
struct Totals {
  int64_t cost = 0;
  int64_t heads = 0;
};

Totals totals_of(const AttentionProblem& problem, const Batch& batch, const KernelGeometry& geometry, int32_t parallelism) {
  const int64_t heads = problem.key.num_heads;
  Totals totals;
  int64_t units = 0;
  for_each_unit(problem, batch, geometry, [&](const Task& unit) {
    totals.cost += unit.cost * heads;
    ++units;
  });
  totals.heads = parallelism == 1 ? heads : std::clamp<int64_t>(units * heads / (2 * int64_t{parallelism}), 1, heads);
  return totals;
}

}  // namespace

ScheduleSize schedule_bounds(const AttentionProblem& problem, const AttentionLimits& limits,
                             const KernelGeometry& geometry) noexcept {
  const int64_t heads = problem.key.num_heads, group = problem.q_heads / heads;
  const int64_t units =
      heads * (static_cast<int64_t>(limits.tokens) * group / geometry.rows + std::min(limits.batch, limits.tokens));
  const int64_t spans = ceil_div(limits.context, geometry.span_keys);
  const int64_t parallelism = limits.parallelism;
  ScheduleSize size;
  size.tasks = units;
  if (parallelism > 1 && spans > 1) {
    size.cuts = std::min(units, 2 * parallelism);
    size.tasks += std::min(6 * parallelism, size.cuts * spans);
    size.partials = size.cuts * spans;
  }
  return size;
}

ScheduleSize make_schedule(const AttentionProblem& problem, const Batch& batch, const KernelGeometry& geometry,
                           int32_t parallelism, Task* tasks, Cut* cuts) noexcept {
  const int32_t heads = problem.key.num_heads;
  const Totals totals = totals_of(problem, batch, geometry, parallelism);
  const int64_t lanes = parallelism;
  ScheduleSize size;
  const auto add = [&](const Task& unit) {
    const int64_t spans = unit.span_end - unit.span_begin;
    if (lanes == 1 || spans <= 1 || unit.cost * 2 * lanes <= totals.cost) {
      tasks[size.tasks++] = unit;
      return;
    }
    const int64_t pieces = std::min(spans, ceil_div(unit.cost * 4 * lanes, totals.cost));
    for (int64_t i = 0; i < pieces; ++i) {
      Task piece = unit;
      piece.span_begin = unit.span_begin + static_cast<int32_t>(spans * i / pieces);
      piece.span_end = unit.span_begin + static_cast<int32_t>(spans * (i + 1) / pieces);
      piece.cut = static_cast<int32_t>(size.cuts);
      piece.cost = unit.cost * (piece.span_end - piece.span_begin) / spans;
      tasks[size.tasks++] = piece;
    }
    Cut& cut = cuts[size.cuts++];
    cut.unit = unit;
    cut.tasks = static_cast<int32_t>(pieces);
    cut.first_partial = size.partials;
    size.partials += spans;
  };
  for_each_unit(problem, batch, geometry, [&](Task unit) {
    const int64_t head_cost = unit.cost;
    const int64_t fit = geometry.rows / (unit.row_end - unit.row_begin);
    const auto together = static_cast<int32_t>(std::min(totals.heads, fit));
    for (; unit.head < heads; unit.head += together) {
      unit.heads = std::min(together, heads - unit.head);
      unit.cost = head_cost * unit.heads;
      add(unit);
    }
  });
  std::sort(tasks, tasks + size.tasks, [](const Task& a, const Task& b) { return a.cost > b.cost; });
  return size;
}

}  // namespace v1
}  // namespace folio
