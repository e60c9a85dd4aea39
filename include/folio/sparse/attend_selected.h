// SPDX-License-Identifier: Apache-2.0
/// folio/sparse/attend_selected.h: the keys that an indexer chooses, and attention over them, in
/// one call.
#pragma once

#include "folio/attention/attend.h"
#include "folio/attention/plan.h"
#include "folio/sparse/select.h"

namespace folio::inline v1 {

/// What select_keys takes.
struct SelectCall {
  const Index& index;
  const Batch& batch;  ///< its own table where the index cache has other pages
  const SelectArgs& args;
  MemorySpan workspace = {};
};

/// select_keys into the lists of the plan's batch, then attend: select.args.lists and k are that
/// batch's `selected` and selected_stride, entries slots of the planes of `args`.
///
/// Errors:  as select_keys and attend, under their own names; invalid_argument for lists that are
///          not the plan's. Where attend refuses its arguments the lists are written already
/// Effects: as both
FOLIO_EXPORT Status attend_selected(const SelectCall& select, const Attention& attention,
                                    const AttentionPlan& plan, const AttentionArgs& args,
                                    MemorySpan workspace, const Executor& executor) noexcept;

}  // namespace folio::inline v1
