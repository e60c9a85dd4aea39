// SPDX-License-Identifier: Apache-2.0
/// src/cpu/skeleton/mutant.h: the deliberate faults that the tests build into the portable kernel,
/// to prove that they would see them.
///
/// Each changes one expression. The shipped kernels are instantiated with `none`, so nothing of
/// this reaches the library.
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
};

/// What `dense_page_stride` takes a view for.
FOLIO_ALWAYS_INLINE PagedKVView with_dense_pages(PagedKVView view) {
  view.page_stride_bytes = view.page_size * view.slot_stride_bytes;
  return view;
}

}  // namespace folio::inline v1
