// SPDX-License-Identifier: Apache-2.0
/// tests/sparse/index_case.h: one indexer's problem with all its memory: the queries, keys, pages
/// and masks of an AttentionCase, and weights.
///
/// As there, page ids are permuted, prefixes shared, and whatever no query sees is NaN. Not thread
/// safe.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "folio/sparse/index.h"
#include "folio/sparse/select.h"
#include "kernel/index_kernel.h"
#include "reference/index.h"
#include "support/attention_case.h"
#include "support/guarded_memory.h"

namespace folio::test {

struct IndexCaseOptions {
  CaseOptions attention = {};
  bool has_weights = true;
  DType weight_dtype = DType::f32;
  bool relu = true;
  bool q_is_turned = false;
  int32_t top = 64;
};

/// A random one of what the portable kernel takes.
IndexCaseOptions random_index_options(Rng& rng);

class IndexCase {
 public:
  explicit IndexCase(const IndexCaseOptions& options);

  [[nodiscard]] const Batch& batch() const { return attention_.batch(); }
  [[nodiscard]] int64_t tokens() const { return attention_.tokens(); }
  [[nodiscard]] int32_t context(int64_t row) const {
    return batch().context_lengths[attention_.sequence_of(row)];
  }
  [[nodiscard]] int32_t sequence_of(int64_t row) const { return attention_.sequence_of(row); }
  [[nodiscard]] int32_t longest() const;
  /// Kernel and parallelism; limits of the case.
  [[nodiscard]] Index index(std::string_view kernel, int32_t parallelism = 1) const;
  AttentionCase& attention() { return attention_; }

  /// Small whole numbers in q, K and weights, so that scores are exact in any order.
  void make_whole();

  /// Scores of all keys up to the longest context: [tokens][longest()].
  [[nodiscard]] std::vector<float> scores(const Index& index, const Executor& executor) const;
  /// [tokens][k]
  [[nodiscard]] std::vector<int32_t> lists(const Index& index, int32_t k, ListEntries entries,
                                           const Executor& executor) const;
  [[nodiscard]] reference::IndexScores expected(int64_t row);

  IndexProblem problem = {};
  ScoreArgs args = {};

 private:
  AttentionCase attention_;
  IndexLimits limits_ = {};
  GuardedMemory weights_;
  reference::DecodedRows decoded_ = {};
};

/// The kernels that this machine runs and that take the case's problem.
std::vector<const IndexKernel*> index_kernels_for(const IndexCase& c);

/// Whether q or K lose bits where the kernel multiplies.
bool rounds_operands(const IndexKernel& kernel, const IndexProblem& problem);

}  // namespace folio::test
