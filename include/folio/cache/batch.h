// SPDX-License-Identifier: Apache-2.0
/// folio/cache/batch.h: who is in the step: one batch of sequences, shared by all layers.
///
/// Sequence b owns the query rows query_offsets[b] .. query_offsets[b + 1) and the first context_lengths[b] keys of its table row.
/// Key j of the row has position key_position + j. All arrays live on the host, or all on the device. `plan` copies offsets and
/// lengths and borrows the table and the per-query arrays until the step's last `attend`.
#pragma once

#include <cstdint>

#include "folio/cache/page_table.h"

namespace folio {
inline namespace v1 {

struct Batch {
  int32_t size = 0;
  const int32_t* query_offsets = nullptr;    ///< [size + 1] first row of q of each sequence; ascending from 0
  const int32_t* context_lengths = nullptr;  ///< [size] keys in the row when attention runs, this step's tokens included
  PageTable table = {};
  /// [size] position of the first query. Null: key position + context - new tokens, which is negative where the context is the
  /// shorter (cross-attention, padded rows of a captured graph); such queries see what the mask shows to a negative position.
  const int32_t* query_positions = nullptr;
  const int32_t* key_positions = nullptr;  ///< [size] position of key 0 of the row; null: 0
  const int32_t* visible_begin = nullptr;  ///< [tokens] with visible_end: explicit interval of positions of each query
  const int32_t* visible_end = nullptr;    ///< [tokens]
  const uint64_t* tree = nullptr;          ///< [tokens, tree_words] bit j: the query sees new token j of its sequence
  int32_t tree_words = 0;
  const int32_t* selected = nullptr;  ///< [tokens, selected_stride] the only visible keys, as row indices; -1 = none
  int32_t selected_stride = 0;
};

}  // namespace v1
}  // namespace folio
