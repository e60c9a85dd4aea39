// SPDX-License-Identifier: Apache-2.0
/// folio/cache/batch.h: who is in the step: one batch of sequences, shared by all layers.
///
/// Sequence b owns the query rows query_offsets[b] .. query_offsets[b + 1) and the first
/// context_lengths[b] keys of its table row. Key j of the row has position key_position + j. All
/// arrays live on the host, or all on the device. `plan` copies offsets and lengths and borrows the
/// table and the per-query arrays until the step's last `attend`. The table's entries stay as they
/// are from `plan` on: which rows begin alike decides what is computed together.
///
/// Tree (speculative decoding). The new tokens of a sequence are its last new_tokens keys: new
/// token j is key context - new_tokens + j, where `append` puts it. A query sees a new token if its
/// mask (or interval) shows that key and its bit is set; the keys before the new tokens as the mask
/// says. Bits neither add to a mask nor follow from one another: a node's row sets its ancestors'
/// bits and its own. Positions, and so windows and ALiBi, are those of keys; where siblings should
/// stand at one position, give intervals. Every row of the batch has its bits, those of sequences
/// that just decode too; bits from new_tokens on are ignored.
///
/// Selection (sparse attention). A list of `selected` names keys by their slots in the plane: page
/// id * page_size + offset, or the row number where pages are unbounded. It alone decides what its
/// query sees, in all KV heads or (selection_per_head) in one; table, lengths and positions, which
/// are checked, do not matter. A key listed twice counts twice, -1 may stand anywhere; bits depend
/// on the order. `plan` keeps the pointer and reads no slot; every `attend` reads and checks them,
/// so that a layer may bring its own lists in the same memory.
#pragma once

#include <cstdint>

#include "folio/cache/page_table.h"

namespace folio::inline v1 {

struct Batch {
  int32_t size = 0;
  /// [size + 1] first row of q of each sequence; ascending from 0
  const int32_t* query_offsets = nullptr;
  /// [size] keys in the row when attention runs, this step's tokens included
  const int32_t* context_lengths = nullptr;
  PageTable table = {};
  /// [size] position of the first query. Null: key position + context - new tokens, which is
  /// negative where the context is the shorter (cross-attention, padded rows of a captured graph);
  /// such queries see what the mask shows to a negative position.
  const int32_t* query_positions = nullptr;
  const int32_t* key_positions = nullptr;  ///< [size] position of key 0 of the row; null: 0
  /// [tokens] with visible_end: explicit interval of positions of each query
  const int32_t* visible_begin = nullptr;
  const int32_t* visible_end = nullptr;  ///< [tokens]
  /// [tokens, tree_words] bit j % 64 of word j / 64: the query may see new token j
  const uint64_t* tree = nullptr;
  /// words of a row, 64 new tokens each: enough for the sequence with the most
  int32_t tree_words = 0;
  /// [tokens, selected_stride], with selection_per_head [tokens, KV heads, selected_stride]: the
  /// only keys that each query sees, see above; -1: none
  const int32_t* selected = nullptr;
  int32_t selected_stride = 0;  ///< at most limits.context
  /// [size, alibi_positions_stride] position of key j of each sequence for ALiBi, in place of
  /// key_position + j
  const int32_t* alibi_positions = nullptr;
  /// at least the longest context; 0: one row for all sequences
  int64_t alibi_positions_stride = 0;
};

}  // namespace folio::inline v1
