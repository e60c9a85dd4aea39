// SPDX-License-Identifier: Apache-2.0
/// src/attention/units.h: the rows of a sequence as units of a schedule, and the keys they see.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/task_sizes.h"
#include "kernel/sequence.h"

namespace folio::inline v1 {

/// What rows of one head see between them.
struct SeenKeys {
  Visible hull;
  int64_t pairs = 0;         // of a row and a key that it sees
  bool is_one_piece = true;  // one query's keys after the other, all from key 0 on without a gap
};

inline SeenKeys seen_by_rows(const AttentionProblem& problem, const Batch& batch,
                             const Sequence& sequence, int32_t row_begin, int32_t row_end) {
  const int32_t group = problem.q_heads / problem.key.num_heads;
  SeenKeys seen;
  for (int32_t token = row_begin / group; token <= (row_end - 1) / group; ++token) {
    const Visible v = problem.selection ? Visible{{}, {0, batch.selected_stride}}
                                        : visible_of(problem, batch, sequence, token);
    seen.pairs += group * (v.sinks.size() + v.keys.size());
    if (v.sinks.size() > 0 || (v.keys.size() > 0 && v.keys.begin > seen.hull.keys.end))
      seen.is_one_piece = false;
    seen.hull = hull(seen.hull, v);
  }
  return seen;
}

/// Rows [row_begin, row_end) of one head of a sequence: keys and cost.
inline Task unit_of_rows(const AttentionProblem& problem, const Batch& batch,
                         const KernelGeometry& geometry, const Sequence& sequence,
                         int32_t row_begin, int32_t row_end) {
  Task unit;
  unit.row_begin = row_begin;
  unit.row_end = row_end;
  const auto [seen, pairs, is_one_piece] =
      seen_by_rows(problem, batch, sequence, row_begin, row_end);
  const int64_t keys = seen.sinks.size() + seen.keys.size();
  const int64_t rows = row_end - row_begin;
  unit.cost = pairs * padded_rows(rows, geometry) / rows + keys * geometry.key_cost;
  if (keys > 0) {
    const int64_t first =
        seen.sinks.size() > 0 ? std::min(seen.sinks.begin, seen.keys.begin) : seen.keys.begin;
    unit.key_begin = static_cast<int32_t>(first / geometry.span_keys * geometry.span_keys);
    unit.key_end = static_cast<int32_t>(std::max(seen.sinks.end, seen.keys.end));
  }
  return unit;
}

/// How many of `heads` heads with so many rows are computed together: nearly equal parts of them.
inline int32_t heads_together(int32_t heads, int64_t rows, const KernelGeometry& geometry) {
  const int64_t fit = std::clamp<int64_t>(geometry.rows / padded_rows(rows, geometry), 1, heads);
  return static_cast<int32_t>(ceil_div(heads, ceil_div(heads, fit)));
}

/// Calls visit(unit) for all units of sequence b. How its rows and heads are parted follows from
/// its own length.
template <class Visit>
void for_each_unit(const AttentionProblem& problem, const Batch& batch,
                   const KernelGeometry& geometry, int32_t b, Visit visit) {
  const int32_t heads = problem.key.num_heads, group = problem.q_heads / heads;
  const Sequence sequence = sequence_of(batch, b);
  const int64_t all = static_cast<int64_t>(sequence.new_tokens) * group;
  if (all == 0) return;
  // of one token where each has its own list of keys
  const int64_t rows = problem.selection ? group : all;
  const int64_t parts = ceil_div(rows, geometry.rows);
  const int64_t part =
      std::min<int64_t>(geometry.rows, round_up(ceil_div(rows, parts), geometry.row_granule));
  const int32_t together =
      problem.selection_per_head ? 1 : heads_together(heads, std::min(part, rows), geometry);
  for (int64_t row = 0, end = 0; row < all; row = end) {
    end = std::min(row + part, (row / rows + 1) * rows);
    Task unit = unit_of_rows(problem, batch, geometry, sequence, static_cast<int32_t>(row),
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

}  // namespace folio::inline v1
