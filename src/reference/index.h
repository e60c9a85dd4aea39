// SPDX-License-Identifier: Apache-2.0
/// reference/index.h: which keys an indexer chooses: by sorting all of them.
///
/// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "folio/cache/batch.h"

namespace folio::reference {

/// The list of k entries for the scores of one query: greatest first for as long as there are,
/// equal ones by their index, then in ascending order, -1 behind them.
std::vector<int32_t> top_of(std::span<const double> scores, int32_t k);

/// The slot of a key of `sequence` in pages of such planes; -1 for -1 and unassigned pages.
int64_t slot_number(const Batch& batch, int32_t sequence, int64_t key, int32_t page_size,
                    int64_t num_pages);

}  // namespace folio::reference
