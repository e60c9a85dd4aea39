// SPDX-License-Identifier: Apache-2.0
/// src/attention/cascade.h: sequences that begin with the same pages read them in shared tasks.
///
/// A tree of chosen ranges (cascade_choice.h) becomes shared tasks for the rows of all members of
/// each range, and for each member tasks for the keys behind its last range. All rows that a member
/// has in some heads are a split, whose states lie in the order of keys. Cuts are such that bits
/// stay as promised:
///
///     per_plan                   ranges end at tiles; a task stores one state of each row
///     per_sequence, per_query    ranges end at spans; a task stores a state for each of its spans,
///                                but one in all if it begins with key 0, which is what folding the
///                                first spans gives
///
/// Only sequences with few rows take part: tasks of more have staged a key for enough already.
#pragma once

#include <cstdint>
#include <span>

#include "attention/cascade_choice.h"
#include "attention/sharing.h"
#include "attention/task_sizes.h"
#include "kernel/sequence.h"

namespace folio::inline v1 {

/// A sequence as the cascade sees it.
struct CascadeMember {
  int32_t node = -1;      // the last one that it is a member of; -1: none
  int32_t own_begin = 0;  // keys behind those that it shares
  int32_t split = 0;      // in the heads that are added
  bool is_left = false;   // there was no room for its tree
};

struct CascadeMemory {
  SharingMemory sharing;
  ChoiceMemory choice;
  Hull* hulls = nullptr;             // [batch]
  CascadeMember* members = nullptr;  // [batch]
};

/// Room for the tasks, splits and queries of a schedule.
struct ScheduleMemory {
  Task* tasks = nullptr;
  Split* splits = nullptr;
  SharedQuery* queries = nullptr;
  CascadeMemory cascade = {};
};

[[nodiscard]] CascadeMemory take_cascade_memory(Carver& carver, int64_t batch,
                                                int64_t levels) noexcept;

class Cascade {
 public:
  /// Finds the ranges of the batch that are worth it.
  Cascade(const AttentionProblem& problem, const AttentionLimits& limits, const Batch& batch,
          const KernelGeometry& geometry, const ScheduleMemory& memory) noexcept;

  /// Whether the units of the sequence are the cascade's to make.
  [[nodiscard]] bool has(int32_t b) const { return is_on_ && members()[b].node >= 0; }
  /// They were, but there was no room for them.
  [[nodiscard]] bool left(int32_t b) const { return is_on_ && members()[b].is_left; }

  /// Row-keys of all its tasks, as Task::cost.
  [[nodiscard]] int64_t cost() const;

  /// Adds tasks, splits and queries to those that `size` counts, a tree at a time, at most as many
  /// as `room` says. `total`: cost of the step.
  void add_tasks(int64_t total, const ScheduleSize& room, ScheduleSize& size) noexcept;

 private:
  struct Heads {
    int32_t begin = 0;
    int32_t count = 0;
  };

  [[nodiscard]] CascadeMember* members() const { return memory_.cascade.members; }
  [[nodiscard]] std::span<const int32_t> members_of(const CascadeNode& node) const;
  [[nodiscard]] int64_t rows_of(int32_t b) const;
  [[nodiscard]] Hull hull_of(int32_t b) const;
  [[nodiscard]] std::span<CascadeNode> tree_from(size_t node) const;
  [[nodiscard]] Task shared_task(const CascadeNode& node, Heads heads) const;
  [[nodiscard]] Task own_task(int32_t b, Heads heads) const;
  [[nodiscard]] int64_t wanted(int64_t cost) const;
  [[nodiscard]] int64_t pieces_of(const Task& task) const;
  [[nodiscard]] Task piece_of(const Task& task, int64_t piece, int64_t pieces) const;
  [[nodiscard]] int32_t states_of(const Task& task) const;
  [[nodiscard]] bool add_tree(std::span<CascadeNode> tree, ScheduleSize& size) const;
  [[nodiscard]] bool add_heads(std::span<CascadeNode> tree, Heads heads, ScheduleSize& size) const;
  [[nodiscard]] bool add_split(int32_t b, Heads heads, ScheduleSize& size) const;
  [[nodiscard]] bool add_shared(const CascadeNode& node, Heads heads, ScheduleSize& size) const;
  [[nodiscard]] bool add_pieces(const Task& task, int64_t pieces, ScheduleSize& size) const;

  const AttentionProblem& problem_;
  const Batch& batch_;
  const KernelGeometry& geometry_;
  const ScheduleMemory memory_;
  const int32_t heads_, group_, workers_;
  const bool is_on_;
  std::span<CascadeNode> nodes_;
  ScheduleSize bounds_;
  int64_t total_ = 0;
  int64_t pieces_ = 0;  // of a worker's share of the step
};

/// What it adds to the bounds of a schedule; nothing where `limits` or the kernel want no sharing.
[[nodiscard]] ScheduleSize cascade_bounds(const AttentionProblem& problem,
                                          const AttentionLimits& limits,
                                          const KernelGeometry& geometry) noexcept;

}  // namespace folio::inline v1
