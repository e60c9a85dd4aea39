// SPDX-License-Identifier: Apache-2.0
/// pool/page_lists.h: the record of a page, and the lists that pages wait in.
///
/// A page is in at most one list, linked through its record: push and unlink are O(1), and no list
/// needs memory of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace folio::inline v1::pool {

inline constexpr uint32_t no_page = 0xffffffffU;

enum class PageList : uint8_t {
  none,  ///< held by sequences or copies
  free,  ///< held by nobody, not findable
  /// given up by a sequence that is in an unfinished step; others may hold it too. In order of
  /// giving up
  leaving,
  /// held by nobody, findable: the page is *cached*. This and the lists behind it are the queues of
  /// the eviction policy
  first_queue,
};

/// Pages between one in a queue and its `PageRecord::ahead`, when that was put there.
inline constexpr uint32_t distance_ahead = 16;

inline constexpr int num_queues = 64;
constexpr PageList queue(int number) noexcept {
  return static_cast<PageList>(static_cast<int>(PageList::first_queue) + number);
}
constexpr bool is_queue(PageList list) noexcept { return list >= PageList::first_queue; }

/// One cache line per page: a lookup touches this line, the bucket and the tokens.
struct alignas(64) PageRecord {
  /// name of the page's tokens and all before them, never used twice; 0: not full, or unnamed
  uint64_t content = 0;
  uint64_t parent = 0;  ///< content of the page before it, or the namespace's name
  uint64_t hash = 0;    ///< of the chain up to here
  union {
    /// unfinished steps that hold the page and that no living holder answers for; a bit each
    uint64_t steps = 0;
    /// of a page in a queue, which no step holds: one that was put there soon after it. Advice, so
    /// that the way along a queue need not wait for one page after the other: it may have left
    uint64_t ahead;
  };
  uint32_t bucket_next = no_page;
  uint32_t previous = no_page, next = no_page;  ///< in `list`
  union {
    uint32_t twin_previous = no_page;  ///< with content: in the ring of the pages that have it
    uint32_t pending_copy;             ///< of a page that awaits a copy (it has no content): which
  };
  uint32_t twin_next = no_page;  ///< with content
  uint32_t references = 0;       ///< table rows that hold the page
  /// copies, pending or taken, that hold the page
  uint32_t copies = 0;
  PageList list = PageList::none;
  bool findable : 1 = false;     ///< the one page of its ring that the index answers with
  bool awaits_copy : 1 = false;  ///< a copy into it has not been taken
  bool named : 1 = false;        ///< findable, and the pool has the name of its content
  uint8_t use = 0;               ///< with content: what the eviction policy notes of it
};
static_assert(sizeof(PageRecord) == 64);

class PageLists {
 public:
  /// Puts all pages into the free list, ascending.
  void attach(PageRecord* records, uint32_t num_pages) noexcept;

  void push_front(PageList list, uint32_t page) noexcept;
  void push_back(PageList list, uint32_t page) noexcept {
    Head& head = heads_[index(list)];
    PageRecord& record = records_[page];
    record.list = list;
    record.previous = head.back;
    record.next = no_page;
    (head.back == no_page ? head.front : records_[head.back].next) = page;
    head.back = page;
    ++head.count;
    if (!is_queue(list)) return;
    ++cached_;
    record.ahead = page;
    note_ahead(head, list, page);
  }
  /// From whatever list it is in, if any.
  void unlink(uint32_t page) noexcept {
    PageRecord& record = records_[page];
    if (record.list == PageList::none) return;
    Head& head = heads_[index(record.list)];
    (record.previous == no_page ? head.front : records_[record.previous].next) = record.next;
    (record.next == no_page ? head.back : records_[record.next].previous) = record.previous;
    --head.count;
    if (is_queue(record.list)) {
      --cached_;
      record.steps = 0;
    }
    record.list = PageList::none;
  }

  [[nodiscard]] uint32_t front(PageList list) const noexcept { return heads_[index(list)].front; }
  [[nodiscard]] uint32_t count(PageList list) const noexcept { return heads_[index(list)].count; }
  [[nodiscard]] uint32_t count_cached() const noexcept { return cached_; }  ///< of all queues

 private:
  struct Head {
    uint32_t front = no_page, back = no_page, count = 0;
    uint32_t pushed = 0;                 ///< pages that were pushed to the back
    uint32_t last[distance_ahead] = {};  ///< of these
  };
  void note_ahead(Head& head, PageList list, uint32_t page) noexcept {
    uint32_t& place = head.last[head.pushed++ % distance_ahead];
    PageRecord& earlier = records_[std::exchange(place, page)];
    if (earlier.list == list) earlier.ahead = page;
  }
  static size_t index(PageList list) noexcept { return static_cast<size_t>(list); }

  PageRecord* records_ = nullptr;
  uint32_t cached_ = 0;
  Head heads_[static_cast<size_t>(PageList::first_queue) + num_queues];
};

}  // namespace folio::inline v1::pool
