// SPDX-License-Identifier: Apache-2.0
/// src/kernel/sequence.h: one sequence of a batch as planner and kernels see it: lengths,
/// positions, and what each query sees.
///
/// ISA-safe: always-inline functions only.
#pragma once

#include <cstdint>

#include "folio/attention/problem.h"
#include "folio/attention/visible_keys.h"
#include "folio/cache/batch.h"

namespace folio::inline v1 {

struct Sequence {
  int64_t first_query = 0;  // row of q
  int32_t new_tokens = 0;
  int32_t context = 0;
  int64_t key_position = 0;
  int64_t query_position = 0;  // of the first query
};

FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE Sequence sequence_of(const Batch& batch, int32_t b) {
  Sequence s;
  s.first_query = batch.query_offsets[b];
  s.new_tokens = batch.query_offsets[b + 1] - batch.query_offsets[b];
  s.context = batch.context_lengths[b];
  s.key_position = batch.key_positions != nullptr ? batch.key_positions[b] : 0;
  s.query_position = batch.query_positions != nullptr ? batch.query_positions[b]
                                                      : s.key_position + s.context - s.new_tokens;
  return s;
}

/// The keys, as indices of the table row, that new token `token` of the sequence sees.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE Visible visible_of(const AttentionProblem& problem,
                                                         const Batch& batch, const Sequence& s,
                                                         int32_t token) {
  if (problem.intervals) {
    const int64_t row = s.first_query + token;
    return visible_keys(Interval{batch.visible_begin[row], batch.visible_end[row]}, s.key_position,
                        s.context);
  }
  return visible_keys(problem.mask, s.query_position + token, s.key_position, s.context);
}

/// Bits of the keys [first_key, first_key + 64) that the tree does not hide from new token `token`:
/// all, where there is no tree. Bits of keys behind the context are arbitrary.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE uint64_t tree_in_tile(const AttentionProblem& problem,
                                                            const Batch& batch, const Sequence& s,
                                                            int32_t token, int64_t first_key) {
  if (!problem.tree) return ~uint64_t{0};
  // of the row, may be negative
  const int64_t first_bit = first_key - (static_cast<int64_t>(s.context) - s.new_tokens);
  if (first_bit <= -64) return ~uint64_t{0};
  const uint64_t* row = batch.tree + (s.first_query + token) * batch.tree_words;
  if (first_bit < 0) return row[0] << -first_bit | ((uint64_t{1} << -first_bit) - 1);
  const int64_t word = first_bit / 64, shift = first_bit % 64;
  const uint64_t low = word < batch.tree_words ? row[word] >> shift : 0;
  const uint64_t high =
      shift != 0 && word + 1 < batch.tree_words ? row[word + 1] << (64 - shift) : 0;
  return low | high;
}

/// The smallest Visible that covers what two queries of a sequence see; its parts may overlap.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE Visible hull(const Visible& a, const Visible& b) {
  const bool a_empty = a.keys.begin == a.keys.end, b_empty = b.keys.begin == b.keys.end;
  Visible v;
  // those of one sequence begin at the same key, and where there are none at 0
  v.sinks.begin = a.sinks.begin > b.sinks.begin ? a.sinks.begin : b.sinks.begin;
  v.sinks.end = a.sinks.end > b.sinks.end ? a.sinks.end : b.sinks.end;
  v.keys.begin = a_empty                                  ? b.keys.begin
                 : b_empty || a.keys.begin < b.keys.begin ? a.keys.begin
                                                          : b.keys.begin;
  v.keys.end = a_empty ? b.keys.end : b_empty || a.keys.end > b.keys.end ? a.keys.end : b.keys.end;
  return v;
}

/// Bits of the keys [first, first + 64) that are visible.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE uint64_t seen_in_tile(const Visible& v, int64_t first) {
  const auto below = [first](int64_t end) {  // bits of the keys < end
    const int64_t n = end - first;
    return n <= 0 ? uint64_t{0} : n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
  };
  return (below(v.sinks.end) & ~below(v.sinks.begin)) | (below(v.keys.end) & ~below(v.keys.begin));
}

}  // namespace folio::inline v1
