// SPDX-License-Identifier: Apache-2.0
/// src/sparse/slots.h: keys of a sequence as slots of a plane.
#pragma once

#include <cstdint>

#include "folio/cache/page_table.h"
#include "folio/cache/page_walk.h"
#include "folio/cache/paged_kv_view.h"

namespace folio::inline v1 {

/// Of one sequence. Lists name neighbours mostly: a table entry is read once for keys of one page
/// that follow one another.
class Slots {
 public:
  Slots(const PageTable& table, int64_t sequence, int32_t page_size, int64_t num_pages)
      : row_(table.entries != nullptr ? table.entries + table.row_start(sequence) : nullptr) {
    pages_.page_size = page_size;
    pages_.num_pages = num_pages;
  }

  /// -1 for -1 and for keys of unassigned pages. Requires that slots are numbers of int32.
  [[nodiscard]] int32_t of(int32_t key) {
    if (key < 0) return -1;
    const int64_t page = detail::logical_page_of(pages_, key);
    if (page != page_) {
      page_ = page;
      const int64_t id = detail::page_of(pages_, row_[page]);
      const bool has_pages = pages_.page_size != unbounded_page_size;
      first_slot_ = has_pages && id != detail::no_page ? id * pages_.page_size : id;
    }
    if (first_slot_ < 0) return -1;
    const int64_t slot = first_slot_ + key - page_ * pages_.page_size;
    if (pages_.page_size == unbounded_page_size && slot >= pages_.num_pages) return -1;
    return static_cast<int32_t>(slot);
  }

 private:
  PagedKVView pages_ = {};
  const uint32_t* row_;
  int64_t page_ = -1;        // whose first slot is known
  int64_t first_slot_ = -1;  // -1: the page is unassigned
};

}  // namespace folio::inline v1
