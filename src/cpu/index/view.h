// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/view.h: one task as an index engine sees it: which queries, and which keys each
/// sees.
///
/// ISA-safe: always-inline functions only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/index/mutant.h"
#include "folio/attention/kv_buffer/page_cursor.h"
#include "kernel/index_kernel.h"

namespace folio::inline v1::indexer {

class IndexView {
 public:
  /// `visible`: memory for one Visible per query of the task.
  FOLIO_ALWAYS_INLINE IndexView(const IndexCall& call, const IndexTask& a_task, Visible* visible)
      : problem(*call.problem),
        args(*call.args),
        batch(*call.batch),
        task(a_task),
        sequence(sequence_of(batch, a_task.sequence)),
        queries(a_task.token_end - a_task.token_begin),
        group(problem.q_heads / problem.key.num_heads),
        visible_(visible) {}

  /// `mutant` is a constant.
  FOLIO_ALWAYS_INLINE void find_visible(IndexMutant mutant) {
    for (int t = 0; t < queries; ++t)
      visible_[t] =
          visible_of(problem, batch, sequence,
                     task.token_begin + (mutant == IndexMutant::mask_of_first_query ? 0 : t));
  }

  /// The keys [first, first + 64) of the task that query t sees.
  [[nodiscard]] FOLIO_ALWAYS_INLINE uint64_t seen(int t, int64_t first) const {
    return seen_in_tile(visible_[t], first) & of_task(first);
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE uint64_t seen_by_any(int64_t first) const {
    uint64_t any = 0;
    for (int t = 0; t < queries; ++t) any |= seen_in_tile(visible_[t], first);
    return any & of_task(first);
  }

  /// Of all rows.
  [[nodiscard]] FOLIO_ALWAYS_INLINE int64_t row(int t) const {
    return sequence.first_query + task.token_begin + t;
  }
  /// The head_size elements of a q head.
  [[nodiscard]] FOLIO_ALWAYS_INLINE const std::byte* query(int t, int q_head) const {
    return static_cast<const std::byte*>(args.q.data) + row(t) * args.q.stride_bytes[0] +
           q_head * args.q.stride_bytes[1];
  }
  /// The q_heads weights of a query.
  [[nodiscard]] FOLIO_ALWAYS_INLINE const std::byte* weights(int t) const {
    return static_cast<const std::byte*>(args.weights.data) + row(t) * args.weights.stride_bytes[0];
  }

  const IndexProblem& problem;
  const ScoreArgs& args;
  const Batch& batch;
  const IndexTask& task;
  const Sequence sequence;
  const int queries;
  const int group;  // q heads of a head of K

 private:
  [[nodiscard]] FOLIO_ALWAYS_INLINE uint64_t of_task(int64_t first) const {
    return seen_in_tile({{}, {task.key_begin, task.key_end}}, first);
  }

  Visible* visible_;
};

}  // namespace folio::inline v1::indexer
