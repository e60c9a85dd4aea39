// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/cut_plane.h: planes without pages that end before their last sequence does.
#pragma once

#include <algorithm>
#include <cstdint>

#include "support/attention_case.h"

namespace folio::test {

/// Takes the last `rows` rows that a sequence has from the planes of a case: keys there are
/// invisible, and their memory is nobody's.
inline void cut_plane(AttentionCase& c, int64_t rows) {
  const Batch& batch = c.batch();
  int64_t end = 0;
  for (int32_t b = 0; b < batch.size; ++b)
    end = std::max(
        end, int64_t{batch.table.entries[batch.table.row_start(b)]} + batch.context_lengths[b]);
  for (PagedKVView* view : {&c.args().key, &c.args().value, &c.problem().key, &c.problem().value})
    view->num_pages = end - rows;
  c.forget_expected();
}

}  // namespace folio::test
