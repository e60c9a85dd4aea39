// SPDX-License-Identifier: Apache-2.0
/// src/cuda/mla/rows.h: the rows of a task: which queries they are, which keys each sees, and what
/// is added to their logits.
#pragma once

#include <cstdint>

#include "cuda/attention/live_tiles.h"
#include "cuda/attention/logits.h"
#include "cuda/attention/seen_keys.h"
#include "cuda/plan/device_plan.h"
#include "cuda/primitives/device.h"
#include "kernel/sequence.h"

namespace folio::cuda::mla {

/// A task and the sequence that it belongs to.
struct TaskRows {
  DeviceTask task = {};
  Sequence sequence = {};
  int32_t group = 1;

  FOLIO_DEVICE TaskRows() {}
  template <class Thread>
  FOLIO_DEVICE TaskRows(Thread& t, const AttendCall& call, const Batch& batch, int32_t index)
      : task(t.read(call.list.tasks + index)),
        sequence(sequence_of(batch, task.sequence)),
        group(call.problem.q_heads / call.problem.key.num_heads) {}

  [[nodiscard]] FOLIO_DEVICE int32_t count() const { return task.row_end - task.row_begin; }
  [[nodiscard]] FOLIO_DEVICE int32_t first_token() const { return task.row_begin / group; }
  [[nodiscard]] FOLIO_DEVICE int32_t last_token() const { return (task.row_end - 1) / group; }
  [[nodiscard]] FOLIO_DEVICE int32_t token_of(int32_t row) const {
    return (task.row_begin + row) / group;
  }
  [[nodiscard]] FOLIO_DEVICE int32_t q_head_of(int32_t row) const {
    return task.head * group + (task.row_begin + row) % group;
  }

  /// What its tokens see together, at least.
  [[nodiscard]] FOLIO_DEVICE Visible seen(const AttentionProblem& problem,
                                          const Batch& batch) const {
    return seen_by_tokens(problem, batch, sequence, first_token(), last_token());
  }
  /// What new token `token` sees; nothing, if it is behind the task's last.
  [[nodiscard]] FOLIO_DEVICE SeenKeys seen_by(const AttentionProblem& problem, const Batch& batch,
                                              int32_t token) const {
    if (token > last_token()) return {};
    return SeenKeys::of(visible_of(problem, batch, sequence, token));
  }
  /// The same of the keys [first, first + 32), less what a tree hides.
  [[nodiscard]] FOLIO_DEVICE uint32_t seen_in_tile(const AttentionProblem& problem,
                                                   const Batch& batch, int32_t token,
                                                   const SeenKeys& seen, int32_t first) const {
    const uint32_t bits = seen.in_tile<32>(first);
    if (!problem.tree || bits == 0) return bits;
    return bits & static_cast<uint32_t>(tree_in_tile(problem, batch, sequence, token, first));
  }

  /// Of row `row`.
  template <class Thread>
  [[nodiscard]] FOLIO_DEVICE RowTerms terms_of(Thread& t, const AttendCall& call,
                                               int32_t row) const {
    const int32_t token = token_of(row);
    return RowTerms::of(t, call, sequence.first_query + token, q_head_of(row),
                        sequence.query_position + token - sequence.key_position);
  }
};

}  // namespace folio::cuda::mla
