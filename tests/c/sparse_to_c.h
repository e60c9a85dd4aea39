// SPDX-License-Identifier: Apache-2.0
/// tests/c/sparse_to_c.h: the structs of sparse attention as those of the C interface, as to_c.h
/// has the others.
#pragma once

#include <memory>

#include "c/to_c.h"
#include "folio/sparse/index.h"
#include "folio/sparse/pages.h"
#include "folio/sparse/select.h"

namespace folio::test {

struct IndexDeleter {
  void operator()(folio_index* index) const { folio_destroy_index(index); }
};
using IndexHandle = std::unique_ptr<folio_index, IndexDeleter>;

inline folio_index_limits to_c(const IndexLimits& from) {
  return {sizeof(folio_index_limits),
          from.batch,
          from.tokens,
          from.context,
          from.top,
          from.parallelism};
}

struct CIndexProblem {
  explicit CIndexProblem(const IndexProblem& from) : key(from.key) {
    problem.q_heads = from.q_heads;
    problem.key = &key.view;
    problem.q_dtype = static_cast<int32_t>(from.q_dtype);
    problem.weight_dtype = static_cast<int32_t>(from.weight_dtype);
    problem.options = (from.has_weights ? 0 : FOLIO_INDEX_NO_WEIGHTS) |
                      (from.relu ? 0 : FOLIO_INDEX_NO_RELU) |
                      (from.intervals ? FOLIO_INDEX_INTERVALS : 0) |
                      (from.bf16_operands ? FOLIO_INDEX_BF16_OPERANDS : 0) |
                      (from.q_is_turned ? FOLIO_INDEX_Q_IS_TURNED : 0);
    problem.lists = static_cast<int32_t>(from.lists);
    problem.block_keys = from.block_keys;
    problem.mask_left = from.mask.left;
    problem.mask_right = from.mask.right;
    problem.mask_chunk = from.mask.chunk;
    problem.mask_sink_tokens = from.mask.sink_tokens;
    problem.scale = from.scale;
  }
  CView key;
  folio_index_problem problem = c_struct<folio_index_problem>();
};

struct CScoreArgs {
  explicit CScoreArgs(const ScoreArgs& from)
      : key(from.key), q(to_c(from.q)), weights(to_c(from.weights)) {
    args.q = &q;
    args.weights = from.weights.data != nullptr ? &weights : nullptr;
    args.key = &key.view;
  }
  CView key;
  folio_tensor q;
  folio_matrix weights;
  folio_score_args args = c_struct<folio_score_args>();
};

struct CSelectArgs {
  explicit CSelectArgs(const SelectArgs& from) : score(from.score) {
    args.k = from.k;
    args.score = &score.args;
    args.lists = from.lists;
    args.stride = from.stride;
    args.entries = static_cast<int32_t>(from.entries);
    args.page_size = from.page_size;
    args.num_pages = from.num_pages;
    args.table_entries = from.table.entries;
    args.table_row_stride = from.table.row_stride;
    args.table_row_starts = from.table.row_starts;
  }
  CScoreArgs score;
  folio_select_args args = c_struct<folio_select_args>();
};

struct CSummaries {
  explicit CSummaries(const PageSummaries& from) : rows(from.rows) {
    summaries.kind = static_cast<int32_t>(from.kind);
    summaries.rows = &rows.view;
  }
  CView rows;
  folio_page_summaries summaries = c_struct<folio_page_summaries>();
};

struct CPageArgs {
  explicit CPageArgs(const PageArgs& from) : q(to_c(from.q)), summaries(from.summaries) {
    args.page_size = from.page_size;
    args.q = &q;
    args.summaries = &summaries.summaries;
    args.mask_left = from.mask.left;
    args.mask_right = from.mask.right;
    args.mask_chunk = from.mask.chunk;
    args.mask_sink_tokens = from.mask.sink_tokens;
    args.intervals = from.intervals ? 1 : 0;
    args.scale = from.scale;
    args.lists = static_cast<int32_t>(from.lists);
    args.score = static_cast<int32_t>(from.score);
    args.k_pages = from.k_pages;
    args.first_pages = from.first_pages == 0 ? -1 : from.first_pages;
    args.last_pages = from.last_pages == 0 ? -1 : from.last_pages;
    args.selected = from.selected;
    args.stride = from.stride;
    args.missed = from.missed;
  }
  folio_tensor q;
  CSummaries summaries;
  folio_page_args args = c_struct<folio_page_args>();
};

}  // namespace folio::test
