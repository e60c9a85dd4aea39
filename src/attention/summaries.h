// SPDX-License-Identifier: Apache-2.0
/// src/attention/summaries.h: makes summaries of pages from K as it is stored.
#pragma once

#include "cpu/append/rows.h"
#include "cpu/pages/pages.h"
#include "folio/cache/page_summaries.h"

namespace folio::inline v1 {

/// Of a plane and its summaries, which have passed their checks. 48 KB of floats, for a stack.
class SummaryMaker {
 public:
  SummaryMaker(const PagedKVView& key, const PageSummaries& summaries) noexcept;

  /// Bounds of nothing, in all heads. Means have no beginning.
  void begin(int64_t page) noexcept;
  /// Bounds that hold for slots [first, first + count) of a page, too; or the mean of all slots up
  /// to the last of them. count >= 1.
  void add(int64_t page, int64_t first, int64_t count) noexcept;

 private:
  static constexpr int64_t floats = 8192;  // of rows that are read at once
  static constexpr int64_t rows_max = 128;

  struct Heads {
    int32_t first = 0;
    int32_t count = 0;
    int64_t n = 0;  ///< channels
  };
  /// visit(heads) for as many heads at a time as lie side by side.
  template <class Visit>
  void for_each_part(Visit visit) noexcept;
  /// visit(rows, count) for parts of the slots, as floats.
  template <class Visit>
  void read(int64_t page, const Heads& heads, int64_t first, int64_t count, Visit visit) noexcept;

  [[nodiscard]] pages::BoundRows bounds_of(int64_t page, const Heads& heads) const noexcept;
  void widen(int64_t page, const Heads& heads, int64_t first, int64_t count) noexcept;
  void average(int64_t page, const Heads& heads, int64_t count) noexcept;

  const PagedKVView& key_;
  const PageSummaries& summaries_;
  const rows::Kernel& rows_;
  const pages::Kernel& pages_;
  rows::Conversion conversion_;
  bool is_read_in_place_ = false;
  int32_t heads_at_once_ = 1;
  float row_[floats];
  float sums_[rows::head_size_max];
};

}  // namespace folio::inline v1
