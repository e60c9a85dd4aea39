// SPDX-License-Identifier: Apache-2.0
/// pool/eviction/timing_wheel.h: pages that wait for a time, in O(1) each.
///
/// Time is counted in ticks. Four wheels of 64 lists each: of a page's deadline, the highest of its
/// four digits to the base of 64 that differs from the present time's says which wheel, and the
/// digit which list. When time reaches a list of a slow wheel, its pages move to faster ones: each
/// page moves at most four times. Pages with one deadline are always in one list, in the order in
/// which they came.
///
/// Lists are rings through an entry of their own, whose place is behind those of the pages, so that
/// a page leaves without knowing where it is.
/// Source: Varghese, Lauck: Hashed and hierarchical timing wheels, 1987
#pragma once

#include <cstdint>

#include "pool/pages/page_extras.h"

namespace folio::inline v1::pool {

class TimingWheel {
 public:
  struct Entry {
    uint32_t previous = 0, next = 0;
    uint32_t deadline = 0;  ///< last 32 bits
  };
  static constexpr uint32_t num_wheels = 4, num_lists = 64;
  /// Ticks between now and a deadline, at most: the slowest wheel goes round without its own list.
  static constexpr uint32_t longest = (num_lists - 1) << 18;

  /// `entries`: [num_pages]; `heads`: [num_wheels * num_lists].
  void attach(PerPage<Entry> entries, Entry* heads, uint32_t num_pages) noexcept;

  void insert(uint32_t page, uint32_t ticks) noexcept;  ///< that many from now, 1 .. longest
  void remove(uint32_t page) noexcept;
  void replace(uint32_t page, uint32_t other) noexcept;  ///< `other` waits in its place
  /// Ticks until the page's time comes.
  [[nodiscard]] uint32_t remaining(uint32_t page) const noexcept {
    return entries_[page].deadline - now();
  }

  /// Lets time pass. `at` is called for each page whose time has come, no longer in the wheel, in
  /// the order of deadlines. It must not change the wheel.
  template <class At>
  void advance(uint64_t ticks, At at) noexcept {
    const uint64_t end = now_ + ticks;
    for (uint32_t list = next_list(end); list != none; list = next_list(end)) {
      for (uint32_t page = front(list); page != none; page = front(list)) {
        remove(page);
        if (remaining(page) == 0)
          at(page);
        else
          link(page);
      }
    }
    now_ = end;
  }

  /// What is wrong, or null; `count`: pages in the wheel. O(pages)
  [[nodiscard]] const char* fault(uint32_t* count) const noexcept;

 private:
  static constexpr uint32_t none = 0xffffffffU;

  [[nodiscard]] uint32_t now() const noexcept { return static_cast<uint32_t>(now_); }
  [[nodiscard]] uint32_t list_of(uint32_t deadline) const noexcept;
  void link(uint32_t page) noexcept;
  /// Of a page, or of the list `place` - num_pages.
  [[nodiscard]] Entry& at(uint32_t place) const noexcept {
    return place < num_pages_ ? entries_[place] : heads_[place - num_pages_];
  }
  [[nodiscard]] uint32_t front(uint32_t list) const noexcept {
    const uint32_t page = heads_[list].next;
    return page == num_pages_ + list ? none : page;
  }
  /// Moves time to the next list with pages and returns it; none if that is behind `end`.
  uint32_t next_list(uint64_t end) noexcept;
  /// Lists from the one of the present time on until the next one that may have pages; 64: none.
  [[nodiscard]] uint32_t lists_ahead(uint32_t wheel) const noexcept;

  PerPage<Entry> entries_;
  Entry* heads_ = nullptr;
  uint32_t num_pages_ = 0;
  uint64_t now_ = 0;
  uint64_t present_[num_wheels] = {};  ///< a bit for each list; none that has pages lacks it
};

}  // namespace folio::inline v1::pool
