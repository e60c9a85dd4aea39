// SPDX-License-Identifier: Apache-2.0
/// src/mask/arrays.h: the arrays of a batch while it is put together, sequence by sequence.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "folio/cache/batch.h"

namespace folio::inline v1::mask {

/// A sequence's entries, intervals and positions are pushed after begin_sequence, its numbers of
/// queries and keys are given by end_sequence. All throw std::bad_alloc.
struct Arrays {
  std::vector<int32_t> offsets, contexts, query_positions, begins, ends;
  std::vector<uint32_t> entries;
  std::vector<int64_t> row_starts;
  std::vector<int32_t> key_positions;    // of each entry, where cells have positions
  std::vector<int32_t> alibi_positions;  // the same, a row per sequence
  int32_t longest = 0;

  void clear() {
    for (auto* array : {&offsets, &contexts, &query_positions, &begins, &ends, &key_positions})
      array->clear();
    entries.clear();
    row_starts.clear();
    offsets.push_back(0);
    longest = 0;
  }
  void begin_sequence() { row_starts.push_back(static_cast<int64_t>(entries.size())); }
  void end_sequence(int32_t queries, int32_t context) {
    offsets.push_back(offsets.back() + queries);
    contexts.push_back(context);
    longest = std::max(longest, context);
  }
  /// What the query sees, as keys of its sequence.
  void push_interval(int32_t begin, int32_t end) {
    begins.push_back(begin);
    ends.push_back(end);
  }
  [[nodiscard]] int32_t size() const { return static_cast<int32_t>(contexts.size()); }

  [[nodiscard]] Batch batch() const {
    Batch batch;
    batch.size = size();
    batch.query_offsets = offsets.data();
    batch.context_lengths = contexts.data();
    batch.table = {entries.data(), 0, row_starts.data()};
    batch.visible_begin = begins.data();
    batch.visible_end = ends.data();
    return batch;
  }
};

}  // namespace folio::inline v1::mask
