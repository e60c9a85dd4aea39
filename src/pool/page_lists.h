// SPDX-License-Identifier: Apache-2.0
/// pool/page_lists.h: the record of a page, and the lists that pages wait in.
///
/// A page is in at most one list, linked through its record: push and unlink are O(1), and no list
/// needs memory of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "pool/links.h"

namespace folio::inline v1::pool {

inline constexpr uint32_t no_page = no_entry;

enum class PageList : uint8_t {
  none,  ///< held by sequences or copies
  free,  ///< held by nobody, not findable
  /// given up by a sequence that is in an unfinished step; others may hold it too. In order of
  /// giving up
  leaving,
  /// held by nobody, findable, as in the lists behind: the page is *cached*. Of this one none is
  /// evicted
  pinned,
  /// This and the next ones are the queues of the eviction policy; behind them are those of the
  /// levels of `Retention`.
  first_queue,
};

/// Pages between an evictable one and its `PageRecord::ahead`, when that was put there.
inline constexpr uint32_t distance_ahead = 16;

inline constexpr int num_queues = 64;
constexpr PageList queue(int number) noexcept {
  return static_cast<PageList>(static_cast<int>(PageList::first_queue) + number);
}
inline constexpr int num_levels = 101;
inline constexpr uint8_t policy_level = 35;  ///< of pages that wait in the policy's queues
inline constexpr uint8_t pinned_level = num_levels - 1;
inline constexpr PageList first_level = queue(num_queues);
constexpr PageList level_list(uint8_t level) noexcept {
  return level == pinned_level ? PageList::pinned
                               : static_cast<PageList>(static_cast<int>(first_level) + level);
}
constexpr bool is_queue(PageList list) noexcept {
  return list >= PageList::first_queue && list < first_level;
}
constexpr bool is_cached(PageList list) noexcept { return list >= PageList::pinned; }
constexpr bool is_evictable(PageList list) noexcept { return list >= PageList::first_queue; }

/// One cache line per page: a lookup touches this line, the bucket and the tokens.
struct alignas(64) PageRecord {
  /// number of the page's tokens and all before them, never used twice; 0: not full, or unknown
  uint64_t content = 0;
  uint64_t parent = 0;  ///< content of the page before it, or the namespace's
  union {
    /// unfinished steps that hold the page and that no living holder answers for; a bit each
    uint64_t steps = 0;
    /// of an evictable page, which no step holds: one that was put into its list soon after it.
    /// Advice, so that the way along the list need not wait for one page after the other: it may
    /// have left
    uint64_t ahead;
  };
  uint32_t hash = 0;  ///< of the chain up to here; of a tail: of its head
  uint32_t bucket_next = no_page;
  uint32_t head_next = no_page;                 ///< in a bucket of the HeadIndex
  uint32_t previous = no_page, next = no_page;  ///< in `list`
  union {
    uint32_t twin_previous = no_page;  ///< with content: in the ring of the pages that have it
    uint32_t pending_copy;             ///< of a page that awaits a copy (it has no content): which
    uint32_t fill;                     ///< of a tail: its tokens
  };
  uint32_t twin_next = no_page;  ///< with content
  uint32_t references = 0;       ///< table rows that hold the page
  /// copies, pending or taken, and transfers that hold the page
  uint32_t copies = 0;
  PageList list = PageList::none;
  bool findable : 1 = false;     ///< the one page of its ring that the index answers with
  bool awaits_copy : 1 = false;  ///< a copy into it has not been taken
  bool named : 1 = false;        ///< findable, and the pool has the name of its content
  bool is_tail : 1 = false;      ///< of a released sequence: cut, without content, and kept
  bool spoken_for : 1 = false;   ///< with content: a sequence has said how long it is kept
  bool first_child : 1 = false;  ///< in the HeadIndex: found from the page before it
  bool filling : 1 = false;      ///< a transfer writes what is still to be committed
  uint8_t use = 0;               ///< with content: what the eviction policy notes of it
  uint8_t level = policy_level;  ///< findable: how long it is kept; another one until a deadline
};
static_assert(sizeof(PageRecord) == 64);

class PageLists {
 public:
  struct Head : ListEnds {
    uint32_t count = 0;
    uint32_t pushed = 0;                 ///< pages that were pushed to the back, if evictable
    uint32_t last[distance_ahead] = {};  ///< of these
  };

  /// Puts all pages into the free list, ascending.
  /// `hints`: lists of evictable pages tell by `PageRecord::ahead` which pages will come to their
  /// front.
  void attach(PageRecord* records, uint32_t num_pages, bool hints) noexcept;
  /// Of the levels below the pin, [num_levels - 1]; without them no page may have a level's list.
  void attach_levels(Head* heads) noexcept { levels_ = heads; }

  void push_front(PageList list, uint32_t page) noexcept;
  void push_back(PageList list, uint32_t page) noexcept {
    Head& head = head_of(list);
    PageRecord& record = records_[page];
    record.list = list;
    append(records_, head, page);
    ++head.count;
    count(list, 1);
    if (!hints_ || !is_evictable(list)) return;
    record.ahead = page;
    note_ahead(head, list, page);
  }
  /// From whatever list it is in, if any.
  void unlink(uint32_t page) noexcept {
    PageRecord& record = records_[page];
    if (record.list == PageList::none) return;
    Head& head = head_of(record.list);
    take_out(records_, head, page);
    --head.count;
    count(record.list, uint32_t{0} - 1);
    if (hints_ && is_evictable(record.list)) record.steps = 0;
    record.list = PageList::none;
  }

  [[nodiscard]] uint32_t front(PageList list) const noexcept { return head_of(list).front; }
  [[nodiscard]] uint32_t count(PageList list) const noexcept { return head_of(list).count; }
  [[nodiscard]] uint32_t count_evictable() const noexcept { return evictable_; }
  [[nodiscard]] uint32_t count_pinned() const noexcept { return count(PageList::pinned); }
  [[nodiscard]] uint32_t count_cached() const noexcept { return evictable_ + count_pinned(); }
  [[nodiscard]] uint32_t count_in_queues() const noexcept { return evictable_ - in_levels_; }

 private:
  void note_ahead(Head& head, PageList list, uint32_t page) noexcept {
    uint32_t& place = head.last[head.pushed++ % distance_ahead];
    PageRecord& earlier = records_[std::exchange(place, page)];
    if (earlier.list == list) earlier.ahead = page;
  }
  [[nodiscard]] const Head& head_of(PageList list) const noexcept {
    return list < first_level ? heads_[static_cast<size_t>(list)]
                              : levels_[static_cast<size_t>(list) - num_fixed];
  }
  Head& head_of(PageList list) noexcept {
    return list < first_level ? heads_[static_cast<size_t>(list)]
                              : levels_[static_cast<size_t>(list) - num_fixed];
  }
  void count(PageList list, uint32_t change) noexcept {
    if (is_evictable(list)) evictable_ += change;
    if (list >= first_level) in_levels_ += change;
  }

  static constexpr size_t num_fixed = static_cast<size_t>(first_level);

  PageRecord* records_ = nullptr;
  Head* levels_ = nullptr;
  bool hints_ = false;
  uint32_t evictable_ = 0, in_levels_ = 0;
  Head heads_[num_fixed];
};

}  // namespace folio::inline v1::pool
