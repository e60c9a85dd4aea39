// SPDX-License-Identifier: Apache-2.0
/// folio/sparse/pages.h: which pages matter to a query, by what is known of their keys: sparse
/// attention for models without an indexer.
///
/// `append` keeps summaries (folio/cache/page_summaries.h) up to date, `summarise` makes those of
/// pages that were written without. `select_pages` scores each page for each q head,
///
///   bounds   scale * sum_d max(q_d low_d, q_d high_d)   no key of the page scores higher
///   mean     scale * sum_d q_d mean_d                   what its keys score on average
///
/// and lists the keys of the best pages, by their slots: what Batch::selected takes. What is left
/// out is an error that the model was not trained for. With bounds it has a bound of its own, by
/// `missed`; what it does to a model is measured, not known.
///
/// Scores are in float32: they round by (head_size + 8) * 2^-24 * |scale| * sum_d |q_d|
/// max(|low_d|, |high_d|). One that is NaN, as those of infinite bounds are, counts as +inf: what
/// has no bound is not left out for another.
#pragma once

#include <cstdint>
#include <span>

#include "folio/attention/mask.h"
#include "folio/cache/batch.h"
#include "folio/cache/page_summaries.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/core/any_tensor.h"
#include "folio/core/execution.h"
#include "folio/core/export.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

/// A page, and how many of its slots are filled: those in front.
struct FilledPage {
  uint32_t page = 0;
  int32_t slots = 0;  ///< 1 to page_size
};

/// Makes the summaries of `pages`, each listed once, from K as it lies there: of any dtype, scales
/// and turn. They are those that `append` makes of pages that it fills from the front, bit for bit.
///
/// Errors:  invalid_argument for planes and summaries that `append` refuses, a page that is not
///          below num_pages, slots out of range; unsupported for a head_size above 4096. Nothing is
///          written then; internal if the executor throws or leaves out tasks: the summaries of
///          `pages` are undefined then
/// Effects: allocates nothing; pages run in parallel on `executor`
FOLIO_EXPORT Status summarise(const PagedKVView& key, const PageSummaries& summaries,
                              std::span<const FilledPage> pages, const Executor& executor) noexcept;

/// Who has a list of pages.
enum class PageLists : uint8_t {
  per_query = 0,    ///< one for all q heads: what Batch::selected takes
  per_kv_head = 1,  ///< one for the q heads of each KV head
};

/// What the scores of q heads that share a list become.
enum class PageScore : uint8_t { greatest = 0, sum = 1 };

struct PageArgs {
  /// [tokens, q_heads, head_size] f32, bf16 or f16; normalised, rotated, and turned where K is
  ConstTensor<3> q = {};
  PageSummaries summaries = {};
  int32_t page_size = 0;  ///< of K and V
  Mask mask = Mask::causal();
  bool intervals = false;  ///< Batch::visible_begin / visible_end replace the mask
  float scale = 0.0f;      ///< 0: 1 / sqrt(head_size)
  PageLists lists = PageLists::per_query;
  PageScore score = PageScore::greatest;
  /// pages of a list, at most 4096. Of those that the query sees the first (attention sinks) and
  /// the last (its neighbourhood) are always among them, and count
  int32_t k_pages = 0;
  int32_t first_pages = 1;
  int32_t last_pages = 1;
  /// [tokens, k_pages * page_size], rows `stride` apart; per_kv_head: [tokens, num_heads, ..]
  int32_t* selected = nullptr;
  int64_t stride = 0;
  /// [tokens, q_heads], with bounds: the natural log of the sum over pages that were left out of
  /// keys * exp(score), -inf where there are none. With attention's lse over the list, at the same
  /// scale and without further terms, they would have had a share of at most e^(missed - log(e^
  /// missed + e^lse)) of the weights; no output is further from the dense one than twice that times
  /// the largest |v|. Null: not wanted
  float* missed = nullptr;
};

/// Bytes of a workspace in which `parallelism` tasks select at once from contexts of up to
/// `context` keys. Of `args` it takes extents of q, head size, page_size and k_pages; 0 for such
/// as there cannot be.
[[nodiscard]] FOLIO_EXPORT int64_t select_pages_bytes(const PageArgs& args, int32_t context,
                                                      int32_t parallelism) noexcept;

/// The k_pages best pages of each query (per_kv_head: and KV head), of equal ones the earlier, as
/// lists of slots: in ascending order of keys, those that the query sees alone, -1 behind them. A
/// query without visible keys has a list of -1. Pages whose table entries are unassigned are not
/// there.
///
/// Of the batch it reads offsets, lengths, positions, table and, with intervals, those of each
/// query; Batch::tree is unsupported, selected and alibi_positions are not looked at.
///
/// Errors:  invalid_argument for a broken batch, shapes, dtypes, strides, null arrays, sizes out of
///          range, a k_pages that is less than first_pages + last_pages, missed without bounds, a
///          workspace that is misaligned (64 bytes) or too small for one task; unsupported for a
///          tree and a head_size above 4096. Nothing is written then; internal if the executor
///          throws or leaves out tasks: the lists are undefined then
/// Effects: allocates nothing; reads table entries of pages that hold a visible key; runs as many
///          tasks at once as executor and workspace have room for; bits depend on neither threads
///          nor what else is in the batch
FOLIO_EXPORT Status select_pages(const Batch& batch, const PageArgs& args, MemorySpan workspace,
                                 const Executor& executor) noexcept;

}  // namespace folio::inline v1
