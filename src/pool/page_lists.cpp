// SPDX-License-Identifier: Apache-2.0
/// pool/page_lists.cpp: intrusive doubly linked lists of pages.
#include "pool/page_lists.h"

namespace folio::inline v1::pool {

void PageLists::attach(PageRecord* records, uint32_t num_pages, bool hints) noexcept {
  records_ = records;
  hints_ = hints;
  for (uint32_t page = 0; page < num_pages; ++page) push_back(PageList::free, page);
}

void PageLists::push_front(PageList list, uint32_t page) noexcept {
  Head& head = head_of(list);
  PageRecord& record = records_[page];
  record.list = list;
  record.previous = no_page;
  record.next = head.front;
  (head.front == no_page ? head.back : records_[head.front].previous) = page;
  head.front = page;
  ++head.count;
  count(list, 1);
  if (hints_ && is_evictable(list)) record.ahead = page;
}

}  // namespace folio::inline v1::pool
