// SPDX-License-Identifier: Apache-2.0
/// src/sparse/schedule.cpp: cuts a batch into tasks of an index kernel.
#include "sparse/schedule.h"

#include <algorithm>

#include "folio/attention/kv_buffer/page_cursor.h"

namespace folio::inline v1 {
namespace {

/// Fewer keys than that are no piece of their own.
constexpr int64_t piece_keys_min = 2048;
/// As many pieces as workers twice over: unlike workers even out.
constexpr int64_t pieces_per_worker = 2;

/// The keys that some query of the unit sees lie within.
Interval keys_of(const IndexProblem& problem, const Batch& batch, const Sequence& s, int32_t begin,
                 int32_t end) {
  Visible all = visible_of(problem, batch, s, begin);
  for (int32_t t = begin + 1; t < end; ++t) all = hull(all, visible_of(problem, batch, s, t));
  const bool has_sinks = all.sinks.begin < all.sinks.end;
  return {has_sinks ? all.sinks.begin : all.keys.begin,
          std::max(all.keys.end, has_sinks ? all.sinks.end : 0)};
}

/// Makes tasks of units, one for each as yet.
int64_t make_units(const IndexProblem& problem, const IndexGeometry& geometry, const Batch& batch,
                   const KeyRange& range, IndexTask* tasks) {
  int64_t count = 0;
  for (int32_t b = 0; b < batch.size; ++b) {
    const Sequence s = sequence_of(batch, b);
    for (int32_t begin = 0; begin < s.new_tokens; begin += geometry.queries) {
      const int32_t end = std::min(begin + geometry.queries, s.new_tokens);
      const Interval keys = range.is_given ? Interval{range.begin, range.end}
                                           : keys_of(problem, batch, s, begin, end);
      IndexTask& task = tasks[count++] = {};
      task.sequence = b;
      task.token_begin = begin;
      task.token_end = end;
      task.key_begin = static_cast<int32_t>(keys.begin);
      task.key_end = static_cast<int32_t>(keys.end);
      task.cost = (keys.end - keys.begin) * (end - begin);
    }
  }
  return count;
}

/// Where piece `piece` begins: at a whole tile, but for the first and the end of the last.
int32_t cut_of(const IndexTask& unit, int64_t piece, int64_t pieces) {
  if (piece == 0) return unit.key_begin;
  if (piece == pieces) return unit.key_end;
  const int64_t key = unit.key_begin + (unit.key_end - unit.key_begin) * piece / pieces;
  return static_cast<int32_t>(key / tile_keys * tile_keys);
}

int64_t pieces_of(const IndexTask& unit, int64_t cost_wanted) {
  if (unit.cost <= cost_wanted) return 1;
  const int64_t most = (int64_t{unit.key_end} - unit.key_begin) / piece_keys_min;
  return std::clamp<int64_t>((unit.cost + cost_wanted - 1) / cost_wanted, 1,
                             std::max<int64_t>(1, most));
}

}  // namespace

IndexScheduleSize schedule_bounds(const IndexLimits& limits,
                                  const IndexGeometry& geometry) noexcept {
  const int64_t tokens = limits.tokens;
  IndexScheduleSize size;
  // The units that are split cost more than the cost wanted, so that each has fewer pieces than
  // twice its share of pieces_per_worker * parallelism.
  if (limits.parallelism > 1) size.pieces = 2 * pieces_per_worker * limits.parallelism;
  size.splits = size.pieces / 2;
  size.tasks = std::min(tokens, tokens / geometry.queries + limits.batch) + size.pieces;
  return size;
}

IndexWorkspace index_workspace(void* memory, const IndexLimits& limits,
                               const IndexGeometry& geometry) noexcept {
  const IndexScheduleSize bounds = schedule_bounds(limits, geometry);
  const CheckedSize workers = limits.parallelism, queries = geometry.queries,
                    room = indexer::Top::room_for(limits.top);
  Carver carver(memory);
  IndexWorkspace w;
  w.next_task = carver.take<int64_t>(1);
  w.tasks = carver.take<IndexTask>(bounds.tasks);
  w.splits = carver.take<IndexSplit>(bounds.splits);
  w.scratch = carver.take<std::byte>(workers * geometry.scratch_bytes);
  w.tops = carver.take<indexer::Top>(workers * queries);
  w.kept = carver.take<uint64_t>(workers * queries * room);
  w.spare = carver.take<uint64_t>(workers * room);
  w.counts = carver.take<int32_t>(CheckedSize(bounds.pieces) * queries);
  w.candidates = carver.take<uint64_t>(CheckedSize(bounds.pieces) * queries * limits.top);
  w.bytes = carver.bytes();
  return w;
}

IndexScheduleSize make_schedule(const IndexProblem& problem, const IndexLimits& limits,
                                const IndexGeometry& geometry, const Batch& batch,
                                const KeyRange& range, const IndexWorkspace& workspace) noexcept {
  IndexTask* const tasks = workspace.tasks;
  IndexScheduleSize size;
  const int64_t units = make_units(problem, geometry, batch, range, tasks);
  size.tasks = units;
  int64_t total = 0;
  for (int64_t i = 0; i < units; ++i) total += tasks[i].cost;
  const int64_t wanted = std::max<int64_t>(1, (total + pieces_per_worker * limits.parallelism - 1) /
                                                  (pieces_per_worker * limits.parallelism));
  for (int64_t i = 0; i < units && limits.parallelism > 1; ++i) {
    const IndexTask unit = tasks[i];
    const int64_t pieces = pieces_of(unit, wanted);
    if (pieces == 1) continue;
    const auto split = static_cast<int32_t>(size.splits++);
    workspace.splits[split] = {static_cast<int32_t>(size.pieces), static_cast<int32_t>(pieces), 0};
    for (int64_t p = 0; p < pieces; ++p) {
      IndexTask& task = p == 0 ? tasks[i] : tasks[size.tasks++];
      task = unit;
      task.key_begin = cut_of(unit, p, pieces);
      task.key_end = cut_of(unit, p + 1, pieces);
      task.split = split;
      task.piece = static_cast<int32_t>(size.pieces++);
      task.cost = (int64_t{task.key_end} - task.key_begin) * (task.token_end - task.token_begin);
    }
  }
  std::sort(tasks, tasks + size.tasks, [](const IndexTask& a, const IndexTask& b) {
    if (a.cost != b.cost) return a.cost > b.cost;
    if (a.sequence != b.sequence) return a.sequence < b.sequence;
    if (a.token_begin != b.token_begin) return a.token_begin < b.token_begin;
    return a.key_begin < b.key_begin;
  });
  return size;
}

}  // namespace folio::inline v1
