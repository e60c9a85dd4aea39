// SPDX-License-Identifier: Apache-2.0
/// reference/visibility.h: which keys a query sees, key by key, straight from the definition
/// (design section 6).
///
/// The twin of folio/attention/mask.h, which works with intervals and clipping: nothing is shared
/// with it. Pure functions.
#pragma once

#include <cstdint>

#include "folio/attention/mask.h"
#include "folio/attention/problem.h"
#include "folio/cache/batch.h"

namespace folio::reference {

/// Whether the mask shows the key at `key_position` to the query at `query_position`; the context
/// is not considered.
bool mask_shows(const Mask& mask, int64_t query_position, int64_t key_position);

/// The position of query row `row` (of all rows) of `sequence`.
int64_t query_position(const Batch& batch, int32_t sequence, int64_t row);

/// Whether the query row sees key index `key` of its sequence, were its page assigned.
bool is_visible(const AttentionProblem& problem, const Batch& batch, int32_t sequence, int64_t row,
                int64_t key);

}  // namespace folio::reference
