// SPDX-License-Identifier: Apache-2.0
/// src/cuda/mla/rows.h: the rows of a task: which queries they are, which keys each sees, and what
/// is added to their logits.
#pragma once

#include <cstdint>

#include "cuda/attention/live_tiles.h"
#include "cuda/attention/logits.h"
#include "cuda/plan/device_plan.h"
#include "cuda/primitives/device.h"
#include "kernel/sequence.h"

namespace folio::cuda::mla {

/// folio's Visible; contexts are below 2^31.
struct SeenKeys {
  int32_t sinks_begin = 0, sinks_end = 0, begin = 0, end = 0;
};

FOLIO_DEVICE SeenKeys narrow(const Visible& v) {
  return {static_cast<int32_t>(v.sinks.begin), static_cast<int32_t>(v.sinks.end),
          static_cast<int32_t>(v.keys.begin), static_cast<int32_t>(v.keys.end)};
}

/// Bits of the keys [first, first + 32) that are seen.
FOLIO_DEVICE uint32_t seen_in_tile(const SeenKeys& v, int32_t first) {
  const auto below = [first](int32_t end) {
    const int32_t n = end - first;
    return n <= 0 ? 0u : n >= 32 ? ~0u : (1u << n) - 1;
  };
  return (below(v.sinks_end) & ~below(v.sinks_begin)) | (below(v.end) & ~below(v.begin));
}

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
    return narrow(visible_of(problem, batch, sequence, token));
  }
  /// The same of the keys [first, first + 32), less what a tree hides.
  [[nodiscard]] FOLIO_DEVICE uint32_t seen_in_tile(const AttentionProblem& problem,
                                                   const Batch& batch, int32_t token,
                                                   const SeenKeys& seen, int32_t first) const {
    const uint32_t bits = mla::seen_in_tile(seen, first);
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
