// SPDX-License-Identifier: Apache-2.0
/// src/attention/divider.h: divides the units of a schedule that workers would wait for.
///
/// Which are looked at, and along what they are divided, in which order: schedule.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/schedule.h"
#include "attention/task_sizes.h"

namespace folio::inline v1 {

/// Into how many pieces each extent of a unit is divided.
struct Division {
  int64_t rows = 1;
  int64_t spans = 1;
  int64_t heads = 1;

  [[nodiscard]] int64_t pieces() const { return rows * spans * heads; }
};

class Divider {
 public:
  /// `size`: of what `tasks` and `splits` hold already.
  Divider(const KernelGeometry& geometry, const ScheduleSize& bounds, int64_t workers,
          int64_t total, Task* tasks, Split* splits, const ScheduleSize& size)
      : geometry_(geometry),
        bounds_(bounds),
        workers_(workers),
        total_(total),
        tasks_(tasks),
        splits_(splits),
        size_(size) {}

  /// Divides the units that the workers would wait for. What stores states is divided already.
  void run() {
    int64_t rest = total_, divided = 0;
    const int64_t count = size_.tasks;
    for (int64_t i = 0; i < count && divided < divided_units * workers_; ++i) {
      const Task unit = tasks_[i];
      if (unit.cost * smallest_share * workers_ <= total_) break;
      if (!stores_states(unit) && unit.cost * 2 * workers_ > rest &&
          divide(i, division_of(unit, rest)))
        ++divided;
      rest -= unit.cost;
    }
  }

  [[nodiscard]] const ScheduleSize& size() const { return size_; }

 private:
  // Proportions of a plan, and no numbers of a machine: a plan is a function of lengths, masks and
  // the kernel's geometry alone. Units that are divided per worker: few enough that plans stay
  // small, enough that the last tasks of a step are a few per cent of it.
  static constexpr int64_t divided_units = 4;
  // a piece is at least one part in so many of a worker's work, where spans allow it
  static constexpr int64_t smallest_share = 32;

  enum class Extent : uint8_t { many_rows, spans, heads, rows };

  /// Pieces of about rest / (share * workers), but not too small; further extents only while a
  /// piece is more than half a worker's work, and none where pieces of spans, which are alike, are
  /// shared out evenly.
  [[nodiscard]] Division division_of(const Task& unit, int64_t rest) const {
    Division division;
    for (const Extent extent : {Extent::many_rows, Extent::spans, Extent::heads, Extent::rows}) {
      if (division.spans > 1 && division.pieces() % workers_ == 0) break;
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
    return extent == Extent::spans ? 4 : extent == Extent::heads ? 1 : 2;
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
          division.spans = std::min(wanted, spans_of(unit, geometry_));
        break;
    }
  }

  /// Each piece of rows and heads is padded by itself.
  [[nodiscard]] int64_t stored_bytes(const Task& unit, const Division& division) const {
    Task piece = unit;
    const int64_t rows = rows_of_piece(unit, division);
    piece.row_end = std::min(unit.row_end, unit.row_begin + static_cast<int32_t>(rows));
    piece.heads = static_cast<int32_t>(ceil_div(unit.heads, division.heads));
    return state_bytes(geometry_, padded_rows(piece, geometry_)) * spans_of(unit, geometry_) *
           division.rows * division.heads;
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
    const int64_t spans = spans_of(part, geometry_), span = part.key_begin / geometry_.span_keys;
    split.whole.states = static_cast<int32_t>(spans);
    for (int64_t p = 0; p < parts; ++p) {
      Task piece = split.whole;
      const int64_t begin = spans * p / parts, end = spans * (p + 1) / parts;
      piece.key_begin = first_key(part, span + begin);
      piece.key_end = first_key(part, span + end);
      piece.first_state = static_cast<int32_t>(begin);
      piece.states = static_cast<int32_t>(end - begin);
      piece.split = static_cast<int32_t>(size_.splits);
      piece.cost = part.cost * spans_of(piece, geometry_) / spans;
      put(piece);
    }
    size_.partial_bytes += split.whole.partial_bytes * spans;
    ++size_.splits;
    return at;
  }

  /// Of a span, as far as it is the task's.
  [[nodiscard]] int32_t first_key(const Task& task, int64_t span) const {
    return static_cast<int32_t>(
        std::clamp<int64_t>(span * geometry_.span_keys, task.key_begin, task.key_end));
  }

  const KernelGeometry& geometry_;
  const ScheduleSize bounds_;
  const int64_t workers_;
  const int64_t total_;
  Task* tasks_;
  Split* splits_;
  ScheduleSize size_;
};

}  // namespace folio::inline v1
