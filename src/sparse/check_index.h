// SPDX-License-Identifier: Apache-2.0
/// src/sparse/check_index.h: the border checks of an indexer: problems, limits, batches and the
/// arguments of a call.
#pragma once

#include "folio/attention/problem.h"
#include "folio/core/status.h"
#include "folio/sparse/index.h"
#include "folio/sparse/select.h"
#include "kernel/index_kernel.h"

namespace folio::inline v1 {

/// What a problem asks of K, q and the mask, as attention over a latent cache would: for what the
/// two have in common.
[[nodiscard]] AttentionProblem as_attention(const IndexProblem& problem) noexcept;

/// Checks the problem and fills in the scale. Pointers and num_pages are cleared.
[[nodiscard]] Result<IndexProblem> resolve(const IndexProblem& problem) noexcept;

[[nodiscard]] Status check_limits(const char* function, const IndexProblem& problem,
                                  const IndexLimits& limits) noexcept;

/// `batch` against the limits, with the arrays that the problem asks for.
[[nodiscard]] Status check_batch(const char* function, const Index& index,
                                 const Batch& batch) noexcept;

/// q, weights and K against the problem and its kernel.
[[nodiscard]] Status check_scores(const char* function, const Index& index, const Batch& batch,
                                  const ScoreArgs& args) noexcept;

/// Query rows of a batch that passed its check.
[[nodiscard]] inline int64_t tokens_of(const Batch& batch) noexcept {
  return batch.size > 0 ? batch.query_offsets[batch.size] : 0;
}

struct IndexInternals {
  /// Null of an Index that was not made by create.
  static const IndexKernel* kernel(const Index& index) noexcept {
    return static_cast<const IndexKernel*>(index.kernel_);
  }
};

/// Errors: invalid_argument for an Index that is empty.
[[nodiscard]] Status check_made(const char* function, const Index& index) noexcept;

}  // namespace folio::inline v1
