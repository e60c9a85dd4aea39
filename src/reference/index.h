// SPDX-License-Identifier: Apache-2.0
/// reference/index.h: what an indexer scores, and which keys it chooses: by sorting all of them.
///
/// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "folio/cache/batch.h"
#include "folio/sparse/index.h"
#include "reference/attention.h"

namespace folio::reference {

/// Of one query and all keys of its table row.
struct IndexScores {
  std::vector<double> score;  ///< -infinity where the key is not visible
  /// how far float32 may move each, by folio/sparse/index.h
  std::vector<double> error;
  /// what operands of bf16 may add
  std::vector<double> rounding;
};

/// `row` counts all query rows of the batch and belongs to `sequence`.
IndexScores index_scores(const IndexProblem& problem, const Batch& batch, const ScoreArgs& args,
                         int32_t sequence, int64_t row, DecodedRows* decoded = nullptr);

/// The list of k entries for the scores of one query: greatest first for as long as there are,
/// equal ones by their index, then in ascending order, -1 behind them.
std::vector<int32_t> top_of(std::span<const double> scores, int32_t k);

/// The slot of a key of `sequence` in pages of such planes; -1 for -1 and unassigned pages.
int64_t slot_number(const Batch& batch, int32_t sequence, int64_t key, int32_t page_size,
                    int64_t num_pages);

}  // namespace folio::reference
