// SPDX-License-Identifier: Apache-2.0
/// src/mask/runs.h: queries that each see one run of keys, as sequences over an unbounded page.
#pragma once

#include <cstdint>

#include "mask/arrays.h"
#include "mask/rows.h"

namespace folio::inline v1::mask {

/// The queries of a stream whose key 0 is row `first_row` of the plane. `positions`: of each query,
/// counted as keys are, for ALiBi; null: none.
void add_runs(Arrays& arrays, const Span* spans, int64_t queries, uint32_t first_row,
              const int64_t* positions);

/// The queries of a stream as one sequence, each over the span of what it sees.
void add_spans(Arrays& arrays, const Span* spans, int64_t queries, uint32_t first_row);

}  // namespace folio::inline v1::mask
