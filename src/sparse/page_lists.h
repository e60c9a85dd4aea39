// SPDX-License-Identifier: Apache-2.0
/// src/sparse/page_lists.h: from the scores of a query's pages to its lists.
#pragma once

#include <cstdint>

#include "cpu/pages/pages.h"
#include "folio/sparse/pages.h"
#include "sparse/seen_pages.h"

namespace folio::inline v1 {

/// Memory of one worker: of `pages` numbers each, and candidates.
struct PageScratch {
  float* prepared = nullptr;  ///< of queries
  float* joined = nullptr;    ///< [pages] score of a page for a list
  float* left_out = nullptr;  ///< [pages] keys of pages that are not listed
  int32_t* best = nullptr;    ///< [k_pages] numbers of pages
  uint64_t* kept = nullptr;
  uint64_t* spare = nullptr;
};

/// A query whose scores are complete.
struct ScoredQuery {
  const uint32_t* entries = nullptr;  ///< its sequence's row of the table
  SeenPages seen;
  const float* scores = nullptr;  ///< [q_heads], rows `stride` apart, by numbers of seen pages
  int64_t stride = 0;
  int64_t token = 0;
};

/// Writes list number `list` of the query, and what its heads miss.
void write_page_list(const pages::Kernel& kernel, const PageArgs& args, const ScoredQuery& query,
                     int32_t list, const PageScratch& scratch) noexcept;

}  // namespace folio::inline v1
