// SPDX-License-Identifier: Apache-2.0
/// src/sparse/schedule.h: how a batch is cut into tasks of an index kernel, and the workspace that
/// holds them.
///
/// A unit is as many queries of one sequence as a kernel takes, over the keys that they see. Units
/// that would keep one worker busy while others have nothing are split into pieces; scores are the
/// same wherever a cut lies, and lists are exact.
///
///     workspace   next task | tasks | splits | scratch [parallelism]
///                 | tops, kept, spare [parallelism] | counts, candidates [pieces of splits]
///
/// Every part begins at a multiple of 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/carver.h"
#include "cpu/index/top.h"
#include "folio/sparse/index.h"
#include "kernel/index_kernel.h"

namespace folio::inline v1 {

/// Pieces [first_piece, first_piece + pieces) share the keys of one unit.
struct IndexSplit {
  int32_t first_piece = 0;
  int32_t pieces = 0;
  int32_t finished = 0;
};

struct IndexScheduleSize {
  int64_t tasks = 0;
  int64_t splits = 0;
  int64_t pieces = 0;
};

/// What any batch within the limits needs at the most.
[[nodiscard]] IndexScheduleSize schedule_bounds(const IndexLimits& limits,
                                                const IndexGeometry& geometry) noexcept;

struct IndexWorkspace {
  int64_t* next_task = nullptr;
  IndexTask* tasks = nullptr;
  IndexSplit* splits = nullptr;
  std::byte* scratch = nullptr;    // [parallelism]
  indexer::Top* tops = nullptr;    // [parallelism][queries]
  uint64_t* kept = nullptr;        // [parallelism][queries][room]
  uint64_t* spare = nullptr;       // [parallelism][room]
  int32_t* counts = nullptr;       // [pieces][queries]
  uint64_t* candidates = nullptr;  // [pieces][queries][top]
  int64_t bytes = 0;
};

/// From null: the bytes alone, the largest int64_t where no memory has so many.
[[nodiscard]] IndexWorkspace index_workspace(void* memory, const IndexLimits& limits,
                                             const IndexGeometry& geometry) noexcept;

/// The keys of a table row that are asked for: all that are seen, or a range whether seen or not.
struct KeyRange {
  bool is_given = false;
  int64_t begin = 0;
  int64_t end = 0;
};

/// Tasks of a checked batch, those of most work first.
IndexScheduleSize make_schedule(const IndexProblem& problem, const IndexLimits& limits,
                                const IndexGeometry& geometry, const Batch& batch,
                                const KeyRange& range, const IndexWorkspace& workspace) noexcept;

}  // namespace folio::inline v1
