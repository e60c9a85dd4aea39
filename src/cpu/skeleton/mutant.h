// SPDX-License-Identifier: Apache-2.0
/// src/cpu/skeleton/mutant.h: the deliberate faults that the tests build into the kernels, to prove
/// that they would see them.
///
/// Each changes one expression of an engine, or of the skeleton that all share. `I::mutant` is a
/// constant `none` in the shipped kernels, so nothing of this reaches the library; in the tests' it
/// is a variable, so one instance of an engine is every mutant in turn.
#pragma once

#include <cstdint>

#include "folio/cache/paged_kv_view.h"

namespace folio::inline v1 {

enum class Mutant : uint8_t {
  none,
  dense_page_stride,         ///< page stride computed from the page instead of taken from the view
  window_off_by_one,         ///< every window begins one key too early
  value_tail_not_zeroed,     ///< rows of V that nobody sees keep what lies in memory
  scale_index_by_ceil,       ///< granule = ceil(dim / granularity)
  sink_counted_per_split,    ///< the sink logit joins the denominator once per span
  unassigned_entry_counted,  ///< keys of unassigned pages count as visible zeros
  tree_ignored,              ///< an option dropped that narrows what is seen
  softcap_ignored,           ///< an option dropped
  partials_in_bf16,          ///< span results rounded before they are folded
  tile_edge_off_by_one,      ///< the last key that a row sees of a tile is left out
  last_row_decides,          ///< what the last row sees whole counts as seen whole by its block
  heads_interleaved,         ///< rows of several heads in a task taken for one another
  value_order_wrong,         ///< V staged in another order than its weights
  sink_of_first_query,       ///< sink logits of a sequence's first query taken for all of its
  bias_of_first_sequence,    ///< the bias of sequence 0 taken for all
  key_positions_ignored,     ///< positions of keys for ALiBi taken to follow one another
  selection_of_first_query,  ///< the list of a sequence's first query taken for all of its
  selection_of_first_head,   ///< the list of KV head 0 taken for all
  block_halves_swapped,      ///< low four bits of a block's bytes taken for its later elements
  spans_not_weighed,         ///< a span's output added to another's, whatever their maxima
  table_read_past_end,       ///< entries of a tile's keys behind the context are read, too
  // shared tasks
  terms_of_first_member,        ///< positions of a shared task's first member taken for all
  states_to_next_query,         ///< states of a shared task stored with the query behind
  keys_in_front_counted_again,  ///< keys in front of a task's own computed, too
  // rows of four bits
  pattern_halves_swapped,    ///< low four bits of a row's bytes taken for its later elements
  pattern_sign_lost,         ///< patterns of i4 taken for 0 to 15
  code_bias_kept,            ///< what unsigned codes of K add to products is not taken back
  zero_points_ignored,       ///< patterns of u4 less 8, whatever zero points say
  key_granule_of_next_lane,  ///< scales of K taken from the 16 bytes beside
  weight_unit_of_next_lane,  ///< steps of weights taken from the 16 bytes beside
  sides_kept,                ///< a negative scale of V multiplied as its magnitude
  // rotated planes, and scales of channels
  butterfly_stage_left_out,  ///< no sums and differences of neighbours
  rotation_signs_ignored,    ///< every sign of a rotation taken for 1
  outputs_not_turned_back,   ///< outputs left as V is stored
  channels_divided,          ///< scales of channels divided by, not multiplied with
  channels_of_first_head,    ///< the channels of KV head 0 taken for all
};

/// What `dense_page_stride` takes a view for.
FOLIO_ALWAYS_INLINE PagedKVView with_dense_pages(PagedKVView view) {
  view.page_stride_bytes = view.page_size * view.slot_stride_bytes;
  return view;
}
/// What `zero_points_ignored` takes scales for.
FOLIO_ALWAYS_INLINE ScaleView without_zero_points(ScaleView scales) {
  scales.zeros = Zeros::none;
  return scales;
}

}  // namespace folio::inline v1
