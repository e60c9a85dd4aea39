// SPDX-License-Identifier: Apache-2.0
/// pool/page_lists.h: the record of a page, and the lists that pages wait in.
///
/// A page is in at most one list, linked through its record: push and unlink are O(1), and no list
/// needs memory of its own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace folio::inline v1::pool {

inline constexpr uint32_t no_page = 0xffffffffU;

enum class PageList : uint8_t {
  none,    ///< held by sequences or copies
  free,    ///< held by nobody, not findable
  cached,  ///< held by nobody, findable; the front is evicted first
  /// given up by a sequence that is in an unfinished step; others may hold it too. In order of
  /// giving up
  leaving,
};

/// One cache line per page: a lookup touches this line, the bucket and the tokens.
struct alignas(64) PageRecord {
  /// name of the page's tokens and all before them, never used twice; 0: not full, or unnamed
  uint64_t content = 0;
  uint64_t parent = 0;  ///< content of the page before it, or the namespace's name
  uint64_t hash = 0;    ///< of the chain up to here
  /// unfinished steps that hold the page and that no living holder answers for; a bit each
  uint64_t steps = 0;
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
  bool findable = false;     ///< the one page of its ring that the index answers with
  bool awaits_copy = false;  ///< a copy into it has not been taken
};
static_assert(sizeof(PageRecord) == 64);

class PageLists {
 public:
  /// Puts all pages into the free list, ascending.
  void attach(PageRecord* records, uint32_t num_pages) noexcept;

  void push_front(PageList list, uint32_t page) noexcept;
  void push_back(PageList list, uint32_t page) noexcept;
  /// From whatever list it is in, if any.
  void unlink(uint32_t page) noexcept;

  [[nodiscard]] uint32_t front(PageList list) const noexcept { return heads_[index(list)].front; }
  [[nodiscard]] uint32_t count(PageList list) const noexcept { return heads_[index(list)].count; }

 private:
  struct Head {
    uint32_t front = no_page, back = no_page, count = 0;
  };
  static size_t index(PageList list) noexcept { return static_cast<size_t>(list); }

  PageRecord* records_ = nullptr;
  Head heads_[4];
};

}  // namespace folio::inline v1::pool
