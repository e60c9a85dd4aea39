// SPDX-License-Identifier: Apache-2.0
/// src/attention/summaries.h: makes summaries of pages from K as it is stored.
#pragma once

#include "cpu/append/rows.h"
#include "cpu/pages/pages.h"
#include "folio/cache/page_summaries.h"

namespace folio::inline v1 {

/// Of a plane and its summaries, which have passed their checks. 64 KB of floats, for a stack.
class SummaryMaker {
 public:
  SummaryMaker(const PagedKVView& key, const PageSummaries& summaries) noexcept;

  /// The summary of slots [first, first + count) of a page, in all heads; count >= 1.
  void begin(int64_t page, int64_t first, int64_t count) noexcept;
  /// Bounds that hold for these slots, too.
  void widen(int64_t page, int64_t first, int64_t count) noexcept;

 private:
  static constexpr int64_t floats = 8192;  // of rows that are read at once
  static constexpr int64_t rows_max = 128;

  /// read(rows, count) for parts of the slots of a head.
  template <class Read>
  void read(int64_t page, int64_t head, int64_t first, int64_t count, Read read) noexcept;
  void widen_head(int64_t page, int64_t head, int64_t first, int64_t count, bool anew) noexcept;
  void average_head(int64_t page, int64_t head, int64_t first, int64_t count) noexcept;

  const PagedKVView& key_;
  const PageSummaries& summaries_;
  const rows::Kernel& rows_;
  const pages::Kernel& pages_;
  rows::Conversion conversion_;
  float row_[floats];
  float low_[rows::head_size_max];
  float high_[rows::head_size_max];
};

}  // namespace folio::inline v1
