// SPDX-License-Identifier: Apache-2.0
/// src/attention/schedule.cpp: splits sequences into tasks, from their lengths alone.
#include "attention/schedule.h"

#include <algorithm>

#include "core/checked.h"
#include "kernel/sequence.h"

namespace folio::inline v1 {
namespace {

// Proportions of a plan, and no numbers of a machine: with the limits they bound its memory, and a
// plan is a function of lengths, masks and the kernel's geometry alone. Per worker: few enough that
// plans stay small, enough that the last tasks of a step are a few per cent of it.
constexpr int64_t divided_units = 4;
constexpr int64_t pieces = 64;
constexpr int64_t stored_spans = 64;
// a piece is at least one part in so many of a worker's work, where spans allow it
constexpr int64_t smallest_share = 32;

constexpr int32_t efficient_rows = 128;  // a staged key pays off over so many rows

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t n, int64_t multiple) { return ceil_div(n, multiple) * multiple; }

/// Bytes of one span's state of `rows` padded rows: the share of geometry.partial_bytes, whose
/// arrays are aligned to 16 rows.
int64_t state_bytes(const KernelGeometry& geometry, int64_t rows) {
  const int64_t row_bytes = ceil_div(geometry.partial_bytes, geometry.rows);
  const CheckedSize bytes = round_up(CheckedSize(row_bytes) * round_up(rows, 16), 64);
  return std::min(geometry.partial_bytes, bytes.value());
}

int64_t padded_rows(const Task& task, const KernelGeometry& geometry) {
  return task.heads * round_up(task.row_end - task.row_begin, geometry.row_granule);
}

int64_t spans_of(const Task& task) { return task.span_end - task.span_begin; }

/// The order of tasks, total, so that it does not depend on the sorting.
bool comes_first(const Task& a, const Task& b) {
  if (a.cost != b.cost) return a.cost > b.cost;
  if (a.sequence != b.sequence) return a.sequence < b.sequence;
  if (a.head != b.head) return a.head < b.head;
  if (a.row_begin != b.row_begin) return a.row_begin < b.row_begin;
  return a.span_begin < b.span_begin;
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
  unit.cost = pairs * round_up(rows, geometry.row_granule) / rows + keys * geometry.key_cost;
  if (keys > 0) {
    const int64_t first =
        seen.sinks.size() > 0 ? std::min(seen.sinks.begin, seen.keys.begin) : seen.keys.begin;
    unit.span_begin = static_cast<int32_t>(first / geometry.span_keys);
    unit.span_end = static_cast<int32_t>(ceil_div(last, geometry.span_keys));
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
    const int64_t fit = std::clamp<int64_t>(
        geometry.rows / round_up(std::min(part, rows), geometry.row_granule), 1, heads);
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

/// Into how many pieces each extent of a unit is divided.
struct Division {
  int64_t rows = 1;
  int64_t spans = 1;
  int64_t heads = 1;

  [[nodiscard]] int64_t pieces() const { return rows * spans * heads; }
};

class Divider {
 public:
  Divider(const AttentionProblem& problem, const KernelGeometry& geometry,
          const ScheduleSize& bounds, int64_t workers, int64_t total, Task* tasks, int64_t count,
          Split* splits)
      : geometry_(geometry),
        heads_first_(problem.key.head_stride_bytes > problem.key.slot_stride_bytes),
        bounds_(bounds),
        workers_(workers),
        total_(total),
        tasks_(tasks),
        splits_(splits) {
    size_.tasks = count;
  }

  /// Divides the units that the workers would wait for.
  void run() {
    int64_t rest = total_, divided = 0;
    const int64_t count = size_.tasks;
    for (int64_t i = 0; i < count && divided < divided_units * workers_; ++i) {
      const Task unit = tasks_[i];
      if (unit.cost * smallest_share * workers_ <= total_) break;
      if (unit.cost * 2 * workers_ > rest && divide(i, division_of(unit, rest))) ++divided;
      rest -= unit.cost;
    }
  }

  [[nodiscard]] const ScheduleSize& size() const { return size_; }

 private:
  enum class Extent : uint8_t { many_rows, spans, heads, rows };

  /// Pieces of about rest / (share * workers), but not too small; further extents only while a
  /// piece is more than half a worker's work.
  [[nodiscard]] Division division_of(const Task& unit, int64_t rest) const {
    Division division;
    const Extent token_major[] = {Extent::many_rows, Extent::spans, Extent::heads, Extent::rows};
    const Extent head_major[] = {Extent::many_rows, Extent::heads, Extent::spans, Extent::rows};
    for (const Extent extent : heads_first_ ? head_major : token_major) {
      int64_t wanted = 0;
      if (division.pieces() == 1) {
        wanted = std::min(ceil_div(unit.cost * share(extent) * workers_, rest),
                          ceil_div(unit.cost * smallest_share * workers_, total_));
      } else if (unit.cost * 2 * workers_ > total_ * division.pieces()) {
        wanted = ceil_div(unit.cost * std::max<int64_t>(2, share(extent)) * workers_,
                          total_ * division.pieces());
      }
      if (wanted > 1) apply(extent, wanted, unit, division);
    }
    return division;
  }

  /// Finer pieces where division is free, fewer where it shortens runs or stages keys again.
  [[nodiscard]] int64_t share(Extent extent) const {
    if (extent == Extent::spans || (extent == Extent::heads && heads_first_)) return 4;
    return extent == Extent::heads ? 1 : 2;
  }

  void apply(Extent extent, int64_t wanted, const Task& unit, Division& division) const {
    const int64_t rows = unit.row_end - unit.row_begin;
    switch (extent) {
      case Extent::many_rows:
        division.rows = std::clamp<int64_t>(rows / efficient_rows, 1, wanted);
        // nothing may be left to divide further
        if (division.rows > workers_) division.rows -= division.rows % workers_;
        break;
      case Extent::rows:
        if (division.rows == 1)
          division.rows = std::min(wanted, ceil_div(rows, geometry_.row_granule));
        break;
      case Extent::heads: division.heads = std::min<int64_t>(wanted, unit.heads); break;
      case Extent::spans:
        if (size_.partial_bytes + stored_bytes(unit, division) <= bounds_.partial_bytes)
          division.spans = std::min(wanted, spans_of(unit));
        break;
    }
  }

  /// Each piece of rows and heads is padded by itself.
  [[nodiscard]] int64_t stored_bytes(const Task& unit, const Division& division) const {
    Task piece = unit;
    piece.row_end = piece.row_begin + static_cast<int32_t>(rows_of_piece(unit, division));
    piece.heads = static_cast<int32_t>(ceil_div(unit.heads, division.heads));
    return state_bytes(geometry_, padded_rows(piece, geometry_)) * spans_of(unit) * division.rows *
           division.heads;
  }

  [[nodiscard]] int64_t rows_of_piece(const Task& unit, const Division& division) const {
    return round_up(ceil_div(unit.row_end - unit.row_begin, division.rows), geometry_.row_granule);
  }

  /// Replaces task i by its pieces, the first in its place, the others behind the last task. False:
  /// it stays whole.
  bool divide(int64_t i, const Division& division) {
    if (division.pieces() <= 1 || size_.tasks + division.pieces() > bounds_.tasks) return false;
    if (division.spans > 1) {
      if (size_.splits + division.rows * division.heads > bounds_.splits) return false;
      if (size_.partial_bytes + stored_bytes(tasks_[i], division) > bounds_.partial_bytes)
        return false;
    }
    const Task unit = tasks_[i];
    const auto rows = static_cast<int32_t>(rows_of_piece(unit, division));
    const int32_t heads = static_cast<int32_t>(ceil_div(unit.heads, division.heads));
    int64_t at = i;
    for (int32_t row = unit.row_begin; row < unit.row_end; row += rows) {
      for (int32_t head = unit.head; head < unit.head + unit.heads; head += heads) {
        Task part = unit;
        part.row_begin = row;
        part.row_end = std::min(row + rows, unit.row_end);
        part.head = head;
        part.heads = std::min(heads, unit.head + unit.heads - head);
        part.cost = unit.cost * (part.row_end - row) / (unit.row_end - unit.row_begin) *
                    part.heads / unit.heads;
        at = add(part, division.spans, at);
      }
    }
    return true;
  }

  /// Writes the tasks of a part at `at`, then at the end; returns where the next one goes.
  int64_t add(const Task& part, int64_t parts, int64_t at) {
    const auto put = [&](const Task& task) {
      if (at == size_.tasks) ++size_.tasks;
      tasks_[at] = task;
      at = size_.tasks;
    };
    if (parts <= 1) {
      put(part);
      return at;
    }
    Split& split = splits_[size_.splits];
    split.whole = part;
    split.whole.partial_bytes = state_bytes(geometry_, padded_rows(part, geometry_));
    split.tasks = static_cast<int32_t>(parts);
    split.first_byte = size_.partial_bytes;
    const int64_t spans = spans_of(part);
    for (int64_t p = 0; p < parts; ++p) {
      Task piece = split.whole;
      piece.span_begin = part.span_begin + static_cast<int32_t>(spans * p / parts);
      piece.span_end = part.span_begin + static_cast<int32_t>(spans * (p + 1) / parts);
      piece.split = static_cast<int32_t>(size_.splits);
      piece.cost = part.cost * spans_of(piece) / spans;
      put(piece);
    }
    size_.partial_bytes += split.whole.partial_bytes * spans;
    ++size_.splits;
    return at;
  }

  const KernelGeometry& geometry_;
  const bool heads_first_;
  const ScheduleSize bounds_;
  const int64_t workers_;
  const int64_t total_;
  Task* tasks_;
  Split* splits_;
  ScheduleSize size_;
};

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
  const int64_t rows =
      std::min<int64_t>(geometry.rows, heads * round_up(head_rows, geometry.row_granule));
  const CheckedSize at_most = CheckedSize(std::max(spans, stored_spans * workers)) *
                              state_bytes(geometry, std::min(efficient_rows, geometry.rows));
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
  Divider divider(problem, geometry, schedule_bounds(problem, limits, geometry), limits.parallelism,
                  total.value(), tasks, count, splits);
  divider.run();
  std::sort(tasks, tasks + divider.size().tasks, comes_first);
  return divider.size();
}

}  // namespace folio::inline v1
