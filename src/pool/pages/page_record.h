// SPDX-License-Identifier: Apache-2.0
/// pool/pages/page_record.h: what is kept of a page, and the lists that it may be in.
///
/// Both kinds of records answer the same questions: `PageLife` asks nothing else of them.
#pragma once

#include <cstdint>

#include "pool/pages/links.h"

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

/// As who gave a page up last said; the leading group's wait as their policy says.
enum class Keeping : uint8_t { ordinary, behind };

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
/// Of a list of pages at a level of their own; policy_level of all others.
constexpr uint8_t level_of(PageList list) noexcept {
  if (list == PageList::pinned) return pinned_level;
  return list < first_level
             ? policy_level
             : static_cast<uint8_t>(static_cast<int>(list) - static_cast<int>(first_level));
}
constexpr bool is_queue(PageList list) noexcept {
  return list >= PageList::first_queue && list < first_level;
}
constexpr bool is_cached(PageList list) noexcept { return list >= PageList::pinned; }
constexpr bool is_evictable(PageList list) noexcept { return list >= PageList::first_queue; }

/// Of a page with content. One cache line: a lookup touches this line, the bucket and the tokens.
struct alignas(64) PageRecord {
  static constexpr int queues = num_queues;
  static constexpr bool has_ahead = true;

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

  [[nodiscard]] bool is_held() const noexcept { return references != 0 || copies != 0; }
  /// By a copy or a transfer.
  void pin() noexcept { ++copies; }
  void unpin() noexcept { --copies; }
  [[nodiscard]] bool waits_for_copy() const noexcept { return awaits_copy; }
  void wait_for(uint32_t copy) noexcept {
    awaits_copy = true;
    pending_copy = copy;
  }
  void copy_came() noexcept {
    awaits_copy = false;
    pending_copy = no_page;
  }
  void given_up(Keeping) noexcept {}
};
static_assert(sizeof(PageRecord) == 64);

/// Queues of cached companions at the normal level, in the order of giving up.
inline constexpr PageList ordinary_queue = queue(0);
inline constexpr PageList behind_queue = queue(1);  ///< no hit is likely to need them

/// Of a page of a group behind the leading one: no content, and one count for rows and copies.
struct GroupPage {
  static constexpr int queues = 2;
  static constexpr bool has_ahead = false;

  uint64_t steps = 0;                           ///< as PageRecord's
  uint32_t previous = no_page, next = no_page;  ///< in `list`
  uint32_t holds = 0;                           ///< rows, copies pending or taken, and transfers
  uint32_t leading = no_page;                   ///< whose companion it is
  uint32_t pending_copy = no_page;              ///< the one that it awaits
  PageList list = PageList::none;
  Keeping keeping = Keeping::ordinary;

  [[nodiscard]] bool is_held() const noexcept { return holds != 0; }
  void pin() noexcept { ++holds; }
  void unpin() noexcept { --holds; }
  [[nodiscard]] bool waits_for_copy() const noexcept { return pending_copy != no_page; }
  void wait_for(uint32_t copy) noexcept { pending_copy = copy; }
  void copy_came() noexcept { pending_copy = no_page; }
  void given_up(Keeping as) noexcept { keeping = as; }
};
static_assert(sizeof(GroupPage) == 32);

}  // namespace folio::inline v1::pool
