// SPDX-License-Identifier: Apache-2.0
/// src/attention/cascade.cpp: shared tasks, the splits of their members, and what is left of them.
#include "attention/cascade.h"

#include <algorithm>

#include "attention/units.h"

namespace folio::inline v1 {
namespace {

// A worker's share of the step is cut into so many pieces, where spans allow it.
constexpr int64_t pieces_of_worker = 4;
// For states that a step of shared prefixes stores beside those of divided units.
constexpr int64_t states_bytes_max = int64_t{64} << 20;

/// Engines read the positions of a tile's keys once for all rows of a task: where each sequence
/// gives its own, it keeps its own tasks. So it does where queries have lists.
bool is_on(const AttentionProblem& problem, const AttentionLimits& limits,
           const KernelGeometry& geometry) {
  return limits.shared_levels > 0 && limits.batch > 1 && geometry.shared_cut > 0 &&
         !problem.selection && !problem.alibi_positions;
}

/// Rows of a head that a sequence may have to take part.
int64_t most_rows(const KernelGeometry& geometry) {
  return std::min<int64_t>(efficient_rows, geometry.rows);
}

}  // namespace

CascadeMemory take_cascade_memory(Carver& carver, int64_t batch, int64_t levels) noexcept {
  CascadeMemory memory;
  memory.sharing = take_sharing_memory(carver, batch);
  memory.choice = take_choice_memory(carver, batch, levels);
  memory.hulls = carver.take<Hull>(batch);
  memory.members = carver.take<CascadeMember>(batch);
  return memory;
}

ScheduleSize cascade_bounds(const AttentionProblem& problem, const AttentionLimits& limits,
                            const KernelGeometry& geometry) noexcept {
  ScheduleSize size;
  if (!is_on(problem, limits, geometry)) return size;
  const int64_t heads = problem.key.num_heads, group = problem.q_heads / heads;
  const int64_t tokens = std::min<int64_t>(
      limits.tokens, limits.batch * std::max<int64_t>(1, most_rows(geometry) / group));
  // a nest's ranges at one depth have each member once
  const CheckedSize levels = limits.shared_levels;
  const CheckedSize shared =
      levels * heads * (2 * ceil_div(tokens * group, geometry.rows) + limits.batch / 2);
  const int64_t workers = limits.parallelism == 1 ? 0 : limits.parallelism;
  const CheckedSize own = CheckedSize(heads) * limits.batch;
  size.tasks = (shared + own + 4 * pieces_of_worker * workers).value();
  size.splits = own.value();
  size.shared_queries = (levels * heads * tokens).value();
  // a member's rows of some heads are padded to 16 at the most
  const CheckedSize rows = heads * (CheckedSize(tokens) * group + limits.batch * int64_t{16});
  const CheckedSize bytes =
      rows * (limits.shared_levels + 2) * ceil_div(geometry.partial_bytes, geometry.rows) +
      workers * 2 * pieces_of_worker * geometry.partial_bytes;
  size.partial_bytes = std::min(bytes.value(), states_bytes_max);
  return size;
}

Cascade::Cascade(const AttentionProblem& problem, const AttentionLimits& limits, const Batch& batch,
                 const KernelGeometry& geometry, const ScheduleMemory& memory) noexcept
    : problem_(problem),
      batch_(batch),
      geometry_(geometry),
      memory_(memory),
      heads_(problem.key.num_heads),
      group_(problem.q_heads / heads_),
      workers_(limits.parallelism),
      is_on_(is_on(problem, limits, geometry) && batch.size > 1) {
  if (!is_on_) return;
  const CascadeMemory& own = memory_.cascade;
  for (int32_t b = 0; b < batch.size; ++b) {
    own.hulls[b] = hull_of(b);
    own.members[b] = {};
  }
  const auto hulls = std::span<const Hull>(own.hulls, static_cast<size_t>(batch.size));
  const std::span<const SharedRange> ranges =
      find_shared(batch.table, problem.key.page_size, hulls, geometry.shared_cut, own.sharing);
  nodes_ = choose_ranges(ranges, own.sharing.order, batch, group_, geometry, limits.shared_levels,
                         own.choice);
  for (size_t i = 0; i < nodes_.size(); ++i)  // nodes behind their parents
    for (const int32_t b : members_of(nodes_[i])) {
      members()[b].node = static_cast<int32_t>(i);
      members()[b].own_begin = nodes_[i].key_end;
    }
}

int64_t Cascade::cost() const {
  int64_t cost = 0;
  for (const CascadeNode& node : nodes_) {
    int64_t rows = 0;
    for (const int32_t b : members_of(node)) rows += rows_of(b);
    cost += (node.key_end - node.key_begin) * heads_ *
            (padded_rows(rows, geometry_) + ceil_div(rows, geometry_.rows) * geometry_.key_cost);
  }
  for (int32_t b = 0; b < batch_.size; ++b)
    if (has(b)) cost += own_task(b, {0, heads_}).cost;
  return cost;
}

void Cascade::add_tasks(int64_t total, const ScheduleSize& room, ScheduleSize& size) noexcept {
  total_ = std::max<int64_t>(1, total);
  bounds_ = {.tasks = size.tasks + room.tasks,
             .splits = size.splits + room.splits,
             .shared_queries = size.shared_queries + room.shared_queries,
             .partial_bytes = size.partial_bytes + room.partial_bytes};
  for (size_t i = 0; i < nodes_.size();) {
    const std::span<CascadeNode> tree = tree_from(i);
    i += tree.size();
    pieces_ = pieces_of_worker;
    if (add_tree(tree, size)) continue;
    pieces_ = 0;  // fewer states, if workers have to wait
    if (add_tree(tree, size)) continue;
    for (const int32_t b : members_of(tree.front())) members()[b].is_left = true;
  }
}

/// All heads or, without room, nothing.
bool Cascade::add_tree(std::span<CascadeNode> tree, ScheduleSize& size) const {
  int64_t rows = 0;
  for (const int32_t b : members_of(tree.front())) rows = std::max(rows, rows_of(b));
  const int32_t together = heads_together(heads_, rows, geometry_);
  const ScheduleSize before = size;
  for (int32_t head = 0; head < heads_; head += together) {
    if (add_heads(tree, {head, std::min(together, heads_ - head)}, size)) continue;
    size = before;
    return false;
  }
  return true;
}

std::span<const int32_t> Cascade::members_of(const CascadeNode& node) const {
  return {memory_.cascade.sharing.order + node.first_member, static_cast<size_t>(node.members)};
}

/// Of one head.
int64_t Cascade::rows_of(int32_t b) const {
  return int64_t{group_} * (batch_.query_offsets[b + 1] - batch_.query_offsets[b]);
}

Hull Cascade::hull_of(int32_t b) const {
  const int64_t rows = rows_of(b);
  if (rows == 0 || rows > most_rows(geometry_)) return {};
  const SeenKeys seen =
      seen_by_rows(problem_, batch_, sequence_of(batch_, b), 0, static_cast<int32_t>(rows));
  return {.begin = static_cast<int32_t>(seen.hull.keys.begin),
          .end = static_cast<int32_t>(seen.hull.keys.end),
          .takes_part = seen.is_one_piece};
}

/// A node without a parent and those that follow it up to the next.
std::span<CascadeNode> Cascade::tree_from(size_t node) const {
  size_t end = node + 1;
  while (end < nodes_.size() && nodes_[end].parent >= 0) ++end;
  return nodes_.subspan(node, end - node);
}

/// The largest of a node, whole: its queries in nearly equal parts, as many heads as fit and leave
/// work for all workers.
Task Cascade::shared_task(const CascadeNode& node, Heads heads) const {
  int64_t rows = 0;
  for (const int32_t b : members_of(node)) rows += rows_of(b);
  const int64_t queries = rows / group_, parts = ceil_div(queries, geometry_.rows / group_);
  Task task;
  task.sequence = members_of(node).front();
  task.row_end = static_cast<int32_t>(ceil_div(queries, parts) * group_);
  task.head = heads.begin;
  task.key_begin = node.key_begin;
  task.key_end = node.key_end;
  task.first_state = node.first_state;
  const int64_t head_cost = int64_t{task.key_end - task.key_begin} *
                            (padded_rows(task.row_end, geometry_) + geometry_.key_cost);
  const int64_t pieces = wanted(head_cost * heads.count * parts);
  const int64_t groups = ceil_div(pieces, parts * spans_of(task, geometry_));
  task.heads = std::min(heads_together(heads.count, task.row_end, geometry_),
                        static_cast<int32_t>(std::max<int64_t>(1, heads.count / groups)));
  task.cost = head_cost * task.heads;
  return task;
}

/// The rows of a member and the keys that are left of it.
Task Cascade::own_task(int32_t b, Heads heads) const {
  const CascadeMember& member = members()[b];
  Task task;
  task.sequence = b;
  task.row_end = static_cast<int32_t>(rows_of(b));
  task.head = heads.begin;
  task.heads = heads.count;
  task.key_begin = member.own_begin;
  task.key_end = memory_.cascade.hulls[b].end;
  task.split = member.split;
  task.first_state = nodes_[static_cast<size_t>(member.node)].end_state;
  task.cost = int64_t{task.key_end - task.key_begin} * task.heads *
              (padded_rows(task.row_end, geometry_) + geometry_.key_cost);
  task.partial_bytes = state_bytes(geometry_, padded_rows(task, geometry_));
  return task;
}

/// Into how many pieces so much of the step's cost is best divided; at least one.
int64_t Cascade::wanted(int64_t cost) const {
  return workers_ == 1 ? 1 : std::max<int64_t>(1, ceil_div(cost * pieces_ * workers_, total_));
}

int64_t Cascade::pieces_of(const Task& task) const {
  if (task.key_begin == task.key_end) return 0;
  return std::min(wanted(task.cost), spans_of(task, geometry_));
}

/// One of so many pieces, which end at spans, with its states but not their number.
Task Cascade::piece_of(const Task& task, int64_t piece, int64_t pieces) const {
  const int64_t spans = spans_of(task, geometry_), first = task.key_begin / geometry_.span_keys;
  const auto cut = [&](int64_t at) {
    const int64_t key = (first + spans * at / pieces) * geometry_.span_keys;
    return static_cast<int32_t>(std::clamp<int64_t>(key, task.key_begin, task.key_end));
  };
  Task part = task;
  part.key_begin = cut(piece);
  part.key_end = cut(piece + 1);
  const bool is_total = part.key_begin == 0 || problem_.reproducible == Reproducible::per_plan;
  part.states = is_total ? 1 : static_cast<int32_t>(spans_of(part, geometry_));
  part.cost = task.cost * (part.key_end - part.key_begin) / (task.key_end - task.key_begin);
  return part;
}

int32_t Cascade::states_of(const Task& task) const {
  int32_t states = 0;
  const int64_t pieces = pieces_of(task);
  for (int64_t piece = 0; piece < pieces; ++piece) states += piece_of(task, piece, pieces).states;
  return states;
}

bool Cascade::add_heads(std::span<CascadeNode> tree, Heads heads, ScheduleSize& size) const {
  for (CascadeNode& node : tree) {
    node.first_state = node.parent < 0 ? 0 : nodes_[static_cast<size_t>(node.parent)].end_state;
    node.end_state = node.first_state + states_of(shared_task(node, heads));
  }
  for (const int32_t b : members_of(tree.front()))
    if (!add_split(b, heads, size)) return false;
  for (const CascadeNode& node : tree)
    if (!add_shared(node, heads, size)) return false;
  for (const int32_t b : members_of(tree.front())) {
    const Task own = own_task(b, heads);
    if (!add_pieces(own, pieces_of(own), size)) return false;
  }
  return true;
}

bool Cascade::add_split(int32_t b, Heads heads, ScheduleSize& size) const {
  members()[b].split = static_cast<int32_t>(size.splits);
  Split split;
  split.whole = own_task(b, heads);
  split.whole.states = split.whole.first_state + states_of(split.whole);
  split.whole.first_state = 0;
  split.whole.key_begin = 0;
  split.first_byte = size.partial_bytes;
  const CheckedSize end =
      CheckedSize(split.whole.partial_bytes) * split.whole.states + size.partial_bytes;
  if (size.splits == bounds_.splits || end.value() > bounds_.partial_bytes) return false;
  memory_.splits[size.splits++] = split;
  size.partial_bytes = end.value();
  return true;
}

bool Cascade::add_shared(const CascadeNode& node, Heads heads, ScheduleSize& size) const {
  const int64_t first = size.shared_queries;
  for (const int32_t b : members_of(node))
    for (int32_t token = 0; token < rows_of(b) / group_; ++token) {
      if (size.shared_queries == bounds_.shared_queries) return false;
      memory_.queries[size.shared_queries++] = {b, token, members()[b].split};
    }
  const Task most = shared_task(node, heads);
  const int64_t pieces = pieces_of(most);  // of all alike: states have one number in all splits
  for (int64_t query = first; query < size.shared_queries; query += most.row_end / group_) {
    for (int32_t head = heads.begin; head < heads.begin + heads.count; head += most.heads) {
      Task task = most;
      task.first_query = static_cast<int32_t>(query);
      task.sequence = memory_.queries[query].sequence;
      task.row_end = static_cast<int32_t>(
          std::min<int64_t>(most.row_end, (size.shared_queries - query) * group_));
      task.head = head;
      task.heads = std::min(most.heads, heads.begin + heads.count - head);
      task.cost = most.cost * task.row_end / most.row_end * task.heads / most.heads;
      if (!add_pieces(task, pieces, size)) return false;
    }
  }
  return true;
}

bool Cascade::add_pieces(const Task& task, int64_t pieces, ScheduleSize& size) const {
  int32_t state = task.first_state;
  for (int64_t i = 0; i < pieces; ++i) {
    if (size.tasks == bounds_.tasks) return false;
    Task& piece = memory_.tasks[size.tasks++];
    piece = piece_of(task, i, pieces);
    piece.first_state = state;
    state += piece.states;
    for_each_split(piece, memory_.queries, group_,
                   [&](int32_t split) { ++memory_.splits[split].tasks; });
  }
  return true;
}

}  // namespace folio::inline v1
