// SPDX-License-Identifier: Apache-2.0
/// pool/pages/page_lists.h: the lists that the pages of a group wait in.
///
/// A page is in at most one list, linked through its record: push and unlink are O(1), and no list
/// needs memory of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "pool/pages/level_set.h"
#include "pool/pages/links.h"
#include "pool/pages/page_record.h"

namespace folio::inline v1::pool {

struct ListHead : ListEnds {
  uint32_t count = 0;
};
/// Of a list that tells which pages will come to its front.
struct ListHeadWithLast : ListHead {
  uint32_t pushed = 0;                 ///< pages that were pushed to the back, if evictable
  uint32_t last[distance_ahead] = {};  ///< of these
};

template <class Record>
class ListsOf {
 public:
  using Head = std::conditional_t<Record::has_ahead, ListHeadWithLast, ListHead>;

  /// Puts all pages into the free list, ascending.
  /// `hints`: lists of evictable pages tell by `PageRecord::ahead` which pages will come to their
  /// front.
  void attach(Record* records, uint32_t num_pages, bool hints = false) noexcept {
    records_ = records;
    hints_ = hints;
    for (uint32_t page = 0; page < num_pages; ++page) push_back(PageList::free, page);
  }
  /// Of the levels below the pin, [num_levels - 1]; without them no page may have a level's list.
  void attach_levels(Head* heads) noexcept { levels_ = heads; }

  void push_front(PageList list, uint32_t page) noexcept {
    Head& head = head_of(list);
    records_[page].list = list;
    prepend(records_, head, page);
    ++head.count;
    count(list, 1);
    if constexpr (Record::has_ahead) {
      if (hints_ && is_evictable(list)) records_[page].ahead = page;
    }
  }
  void push_back(PageList list, uint32_t page) noexcept {
    Head& head = head_of(list);
    records_[page].list = list;
    append(records_, head, page);
    ++head.count;
    count(list, 1);
    if constexpr (Record::has_ahead) {
      if (!hints_ || !is_evictable(list)) return;
      records_[page].ahead = page;
      note_ahead(head, list, page);
    }
  }
  /// From whatever list it is in, if any.
  void unlink(uint32_t page) noexcept {
    Record& record = records_[page];
    if (record.list == PageList::none) return;
    Head& head = head_of(record.list);
    take_out(records_, head, page);
    --head.count;
    count(record.list, uint32_t{0} - 1);
    if constexpr (Record::has_ahead) {
      if (hints_ && is_evictable(record.list)) record.steps = 0;
    }
    record.list = PageList::none;
  }

  [[nodiscard]] uint32_t front(PageList list) const noexcept { return head_of(list).front; }
  /// The front of the lowest level below `end` that has pages, or no_page. Amortised O(1)
  [[nodiscard]] uint32_t front_below(uint32_t end) noexcept {
    return present_.lowest_front(end, [&](uint8_t level) { return front(level_list(level)); });
  }
  /// Whether `front_below` looks at the level. For tests.
  [[nodiscard]] bool may_have(uint8_t level) const noexcept { return present_.may_have(level); }
  [[nodiscard]] uint32_t count(PageList list) const noexcept { return head_of(list).count; }
  [[nodiscard]] uint32_t count_evictable() const noexcept { return evictable_; }
  [[nodiscard]] uint32_t count_pinned() const noexcept { return count(PageList::pinned); }
  [[nodiscard]] uint32_t count_cached() const noexcept { return evictable_ + count_pinned(); }
  [[nodiscard]] uint32_t count_in_queues() const noexcept { return evictable_ - in_levels_; }

  /// What is wrong with the lists of a group's pages, and of which page or list, or null. For
  /// tests. O(pages)
  [[nodiscard]] const char* fault(uint32_t num_pages, uint32_t* which) const noexcept;

 private:
  void note_ahead(Head& head, PageList list, uint32_t page) noexcept {
    uint32_t& place = head.last[head.pushed++ % distance_ahead];
    Record& earlier = records_[std::exchange(place, page)];
    if (earlier.list == list) earlier.ahead = page;
  }
  [[nodiscard]] const Head& head_of(PageList list) const noexcept {
    return list < first_level ? heads_[static_cast<size_t>(list)]
                              : levels_[static_cast<size_t>(list) - first_of_levels];
  }
  Head& head_of(PageList list) noexcept {
    return list < first_level ? heads_[static_cast<size_t>(list)]
                              : levels_[static_cast<size_t>(list) - first_of_levels];
  }
  void count(PageList list, uint32_t change) noexcept {
    if (is_evictable(list)) evictable_ += change;
    if (list < first_level) return;
    in_levels_ += change;
    present_.add(level_of(list));
  }

  static constexpr size_t first_of_levels = static_cast<size_t>(first_level);
  static constexpr size_t num_fixed = static_cast<size_t>(queue(Record::queues));

  Record* records_ = nullptr;
  Head* levels_ = nullptr;
  bool hints_ = false;
  uint32_t evictable_ = 0, in_levels_ = 0;
  LevelSet present_;  ///< of the levels' lists
  Head heads_[num_fixed];
};

template <class Record>
const char* ListsOf<Record>::fault(uint32_t num_pages, uint32_t* which) const noexcept {
  const int num_lists = static_cast<int>(first_level) + (levels_ == nullptr ? 0 : num_levels - 1);
  uint32_t seen = 0, listed = 0, evictable = 0, in_levels = 0;
  for (uint32_t page = 0; page < num_pages; ++page)
    listed += records_[page].list == PageList::none ? 0 : 1;
  for (int l = static_cast<int>(PageList::free); l < num_lists; ++l) {
    const auto list = static_cast<PageList>(l);
    if (is_queue(list) && l >= static_cast<int>(num_fixed)) continue;
    uint32_t count = 0, previous = no_page;
    for (uint32_t page = front(list); page != no_page;
         previous = page, page = records_[page].next) {
      const Record& record = records_[page];
      *which = page;
      if (record.list != list || record.previous != previous || ++count > num_pages)
        return "list is broken at page";
      if constexpr (Record::has_ahead) {
        if (is_evictable(list) && record.ahead >= num_pages) return "advice names no page at page";
      }
    }
    *which = static_cast<uint32_t>(l);
    if (count != this->count(list)) return "miscounted list";
    if (head_of(list).back != previous) return "list does not end where it should:";
    seen += count;
    evictable += is_evictable(list) ? count : 0;
    in_levels += list >= first_level ? count : 0;
  }
  *which = evictable;
  if (evictable != evictable_) return "miscounted cached pages:";
  *which = in_levels;
  if (in_levels != in_levels_) return "miscounted pages of levels:";
  *which = listed;
  return seen == listed ? nullptr : "pages in lists that do not know them, of so many:";
}

using PageLists = ListsOf<PageRecord>;

}  // namespace folio::inline v1::pool
