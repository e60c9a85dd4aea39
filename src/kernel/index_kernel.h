// SPDX-License-Identifier: Apache-2.0
/// src/kernel/index_kernel.h: what a kernel of an indexer is to the rest of folio: a name, what it
/// needs of the machine, what it supports, how it wants its work cut, and plain functions.
///
/// ISA-safe: no functions with bodies but always-inline ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "folio/attention/visible_keys.h"
#include "folio/cache/batch.h"
#include "folio/sparse/index.h"
#include "kernel/capability.h"
#include "kernel/kernel.h"
#include "kernel/sequence.h"

namespace folio::inline v1 {

namespace indexer {
struct Top;
}

/// How a kernel wants its work cut: functions of the problem alone. Bits depend on none of it.
struct IndexGeometry {
  int32_t queries = 0;        ///< of one sequence, of a task at the most
  int64_t scratch_bytes = 0;  ///< memory of a running task, 64-byte aligned
};

/// New tokens [token_begin, token_end) of a sequence and keys [key_begin, key_end) of its table
/// row.
struct IndexTask {
  int32_t sequence = 0;
  int32_t token_begin = 0;
  int32_t token_end = 0;
  int32_t key_begin = 0;
  int32_t key_end = 0;
  int32_t split = -1;  ///< whose keys this task shares with others; -1: it has them all
  int32_t piece = -1;  ///< of a split: which one, of all splits
  int64_t cost = 0;
};

/// What all tasks of a call share.
struct IndexCall {
  const IndexProblem* problem = nullptr;
  const ScoreArgs* args = nullptr;
  const Batch* batch = nullptr;
};

/// Where the scores of a batch go: that of query row t and key j at data + t * stride_bytes +
/// (j - first_key) * 4.
struct ScoresTo {
  std::byte* data = nullptr;
  int64_t stride_bytes = 0;
  int64_t first_key = 0;
};

/// The keys that new token `token` of the sequence sees, as indices of the table row.
FOLIO_ALWAYS_INLINE Visible visible_of(const IndexProblem& problem, const Batch& batch,
                                       const Sequence& s, int32_t token) {
  if (problem.intervals) {
    const int64_t row = s.first_query + token;
    return visible_keys(Interval{batch.visible_begin[row], batch.visible_end[row]}, s.key_position,
                        s.context);
  }
  return visible_keys(problem.mask, s.query_position + token, s.key_position, s.context);
}

/// Shapes alone, as KernelRefuse.
using IndexRefuse = const char*(const IndexProblem&) noexcept;
using IndexGeometryOf = IndexGeometry(const IndexProblem&) noexcept;
/// Writes the scores of the task's queries and keys, -inf too.
using ScoreTask = void(const IndexCall&, const IndexTask&, void* scratch,
                       const ScoresTo& to) noexcept;
/// Candidates of the task's keys to `tops`, one for each of its queries; `spare`: as top.h says.
using SelectTask = void(const IndexCall&, const IndexTask&, void* scratch, indexer::Top* tops,
                        uint64_t* spare) noexcept;
/// Scores of the keys [first, first + count) of one query, in memory, to `top`.
using CollectScores = void(const float* scores, int32_t first, int64_t count, indexer::Top& top,
                           uint64_t* spare) noexcept;

struct IndexKernel {
  std::string_view name;    ///< a literal: null-terminated
  Capabilities needs = {};  ///< what the machine must offer
  Support supports = {};    ///< of K, q and masks; what is not named is refused
  IndexRefuse* refuse = nullptr;
  IndexGeometryOf* geometry = nullptr;
  ScoreTask* score = nullptr;
  SelectTask* select = nullptr;
  CollectScores* collect = nullptr;
  Arithmetic arithmetic = Arithmetic::vector;
  /// What elements of q and K are rounded to, where it does not hold them as they come.
  DType operands = DType::f32;
};

}  // namespace folio::inline v1
