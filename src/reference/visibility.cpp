// SPDX-License-Identifier: Apache-2.0
/// reference/visibility.cpp: one predicate per clause of the definition.
#include "reference/visibility.h"

namespace folio::reference {
namespace {

int64_t chunk_of(int64_t position, int64_t chunk) {
  int64_t index = position / chunk;
  if (index * chunk > position) --index;  // toward minus infinity
  return index;
}

int64_t first_key_position(const Batch& batch, int32_t sequence) {
  return batch.key_positions != nullptr ? batch.key_positions[sequence] : 0;
}

/// Whether the tree's row has the bit of that key, if it is a new token.
bool tree_shows(const Batch& batch, int32_t sequence, int64_t row, int64_t key) {
  const int64_t new_tokens = batch.query_offsets[sequence + 1] - batch.query_offsets[sequence];
  const int64_t token = key - (batch.context_lengths[sequence] - new_tokens);
  if (token < 0) return true;
  const uint64_t word = batch.tree[row * batch.tree_words + token / 64];
  return (word >> (token % 64)) % 2 == 1;
}

}  // namespace

bool mask_shows(const Mask& mask, int64_t query_position, int64_t key_position) {
  // What lies behind the query's reach is never visible, sink token or not.
  if (mask.right >= 0 && key_position > query_position + mask.right) return false;
  if (mask.chunk > 0 && chunk_of(key_position, mask.chunk) > chunk_of(query_position, mask.chunk))
    return false;
  if (key_position >= 0 && key_position < mask.sink_tokens) return true;
  if (mask.left >= 0 && key_position < query_position - mask.left) return false;
  if (mask.chunk > 0 && chunk_of(key_position, mask.chunk) < chunk_of(query_position, mask.chunk))
    return false;
  return true;
}

int64_t query_position(const Batch& batch, int32_t sequence, int64_t row) {
  const int64_t begin = batch.query_offsets[sequence];
  const int64_t new_tokens = batch.query_offsets[sequence + 1] - begin;
  const int64_t first =
      batch.query_positions != nullptr
          ? batch.query_positions[sequence]
          : first_key_position(batch, sequence) + batch.context_lengths[sequence] - new_tokens;
  return first + (row - begin);
}

bool is_visible(const AttentionProblem& problem, const Batch& batch, int32_t sequence, int64_t row,
                int64_t key) {
  if (key < 0 || key >= batch.context_lengths[sequence]) return false;
  if (problem.tree && !tree_shows(batch, sequence, row, key)) return false;
  const int64_t position = first_key_position(batch, sequence) + key;
  if (problem.intervals)
    return position >= batch.visible_begin[row] && position < batch.visible_end[row];
  return mask_shows(problem.mask, query_position(batch, sequence, row), position);
}

}  // namespace folio::reference
