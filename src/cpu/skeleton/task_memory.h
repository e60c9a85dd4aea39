// SPDX-License-Identifier: Apache-2.0
/// src/cpu/skeleton/task_memory.h: the scratch memory of a running task, and the geometry of a
/// kernel as far as it follows from the sizes of its engine.
///
/// `Sizes` is an engine (task_runner.h), or only its tiles_max, ahead_max, state_rows, width and
/// scratch_bytes: what is asked of a kernel before its instruction set may run. ISA-safe as far as
/// that is: everything is a template on it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/skeleton/state.h"
#include "cpu/skeleton/task_view.h"
#include "cpu/skeleton/turned_rows.h"
#include "kernel/task.h"

namespace folio::inline v1::skeleton {

template <class Sizes>
struct TaskMemory {
  static constexpr int tiles_max = Sizes::tiles_max + Sizes::ahead_max;

  /// From null: `bytes` alone.
  TaskMemory(void* at, const AttentionProblem& problem) : TaskMemory(Parts(at), problem) {}

  Visible* visible;  // of each row
  KeyTile* tiles;    // [tiles_max]
  State span, total;
  std::byte* engine;
  TurnedMemory turned;
  int64_t bytes;

 private:
  TaskMemory(Parts parts, const AttentionProblem& problem)
      : turned(parts, problem, Sizes::state_rows(problem)) {
    visible = parts.take<Visible>(Sizes::state_rows(problem));
    tiles = parts.take<KeyTile>(tiles_max);
    span = parts.take_state(Sizes::state_rows(problem), Sizes::width(problem));
    total = parts.take_state(Sizes::state_rows(problem), Sizes::width(problem));
    engine = parts.take<std::byte>(Sizes::scratch_bytes(problem));
    bytes = parts.bytes();
  }
};

template <class Sizes>
KernelGeometry geometry(const AttentionProblem& problem, int32_t row_granule = 1,
                        int32_t few_rows = 0) {
  KernelGeometry g;
  g.rows = Sizes::state_rows(problem);
  g.span_keys = span_keys;
  g.scratch_bytes = TaskMemory<Sizes>(nullptr, problem).bytes;
  g.partial_bytes = state_bytes(Sizes::state_rows(problem), Sizes::width(problem));
  g.row_granule = row_granule;
  g.few_rows = few_rows;
  g.shared_cut = problem.reproducible == Reproducible::per_plan ? tile_keys : span_keys;
  return g;
}

}  // namespace folio::inline v1::skeleton
