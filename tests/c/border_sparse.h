// SPDX-License-Identifier: Apache-2.0
/// tests/c/border_sparse.h: right calls of the functions of folio/c/sparse.h, for
/// border_walk_test.cpp.
#pragma once

#include "border_calls.h"
#include "c/border_world.h"

namespace folio::test {

inline void fill(BorderWorld& w, folio_refuse_index_call& c) {
  c = {&w.index_problem, FOLIO_CPU, 0};
}
inline void fill(BorderWorld& w, folio_create_index_call& c) {
  c = {&w.index_problem, &w.index_limits, FOLIO_CPU, 0, "", &w.made_index, &w.message};
}
inline void fill(BorderWorld& w, folio_index_with_limits_call& c) {
  c = {w.index, &w.index_limits, &w.made_index, &w.message};
}
inline void fill(BorderWorld& w, folio_destroy_index_call& c) { c = {w.index}; }
inline void fill(BorderWorld& w, folio_get_index_kernel_call& c) { c = {w.index}; }
inline void fill(BorderWorld& w, folio_get_index_workspace_bytes_call& c) { c = {w.index}; }
inline void fill(BorderWorld& w, folio_score_index_call& c) {
  c = {w.index,         &w.sparse_batch,        &w.score_args,           0,
       &w.score_matrix, w.index_workspace_data, w.index_workspace_bytes, &w.executor,
       &w.message};
}
inline void fill(BorderWorld& w, folio_select_keys_call& c) {
  c = {
      w.index,     &w.sparse_batch, &w.select_args, w.index_workspace_data, w.index_workspace_bytes,
      &w.executor, &w.message};
}
inline void fill(BorderWorld&, folio_get_select_top_bytes_call& c) { c = {5, 2}; }
inline void fill(BorderWorld& w, folio_select_top_call& c) {
  c = {&w.top_args, w.top_workspace_data, w.top_workspace_bytes, &w.executor, &w.message};
}
inline void fill(BorderWorld& w, folio_remap_call& c) {
  c = {&w.sparse_batch, &w.remap_args, &w.executor, &w.message};
}
inline void fill(BorderWorld& w, folio_summarise_call& c) {
  c = {&w.key_to.view, &w.summaries, w.filled_pages, 1, &w.executor, &w.message};
}
inline void fill(BorderWorld& w, folio_get_select_pages_bytes_call& c) {
  c = {&w.page_args, BorderWorld::context, 2};
}
inline void fill(BorderWorld& w, folio_select_pages_call& c) {
  c = {&w.sparse_batch,        &w.page_args, w.page_workspace_data,
       w.page_workspace_bytes, &w.executor,  &w.message};
}

/// What a call destroyed is the world's no more.
inline void settle(BorderWorld& w, const folio_destroy_index_call& c) {
  if (c.index != nullptr) w.index = nullptr;
}

}  // namespace folio::test
