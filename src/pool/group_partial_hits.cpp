// SPDX-License-Identifier: Apache-2.0
/// pool/group_partial_hits.cpp: hits that end inside a page, in the groups behind the leading one.
///
/// The page that a hit is copied from has companions, and each group copies the same tokens from
/// its own. A state cannot be cut: that of a tail's last token serves a prompt that goes on behind
/// just this token, and is shared like that of a whole page.
#include <algorithm>
#include <utility>

#include "pool/pool_state.h"

namespace folio::inline v1 {

using pool::Group;
using pool::GroupRow;
using pool::SequenceRecord;

uint64_t PagePool::State::idle_pages(uint32_t leading) const noexcept {
  uint64_t idle = groups.slabs.has(0) && is_idle(0, leading) ? 1 : 0;
  for (uint32_t g = 1; g < groups.count(); ++g) {
    const uint32_t page = groups.companion(leading, g);
    if (page != pool::no_page && is_idle(g, page)) ++idle;
  }
  return idle;
}

bool PagePool::State::can_copy_groups(uint32_t page, uint64_t revived,
                                      GroupNeeds& needs) const noexcept {
  for (uint32_t g = 0; g < groups.count(); ++g) needs[g] = groups.is_state(g) ? 0 : 1;
  return groups.slabs.can_give(needs, revived + idle_pages(page));
}

void PagePool::State::copy_companions(const SequenceRecord& s, uint32_t leading,
                                      int32_t count) noexcept {
  const int64_t length = int64_t{s.length} + count;
  for (uint32_t g = 1; g < groups.count(); ++g)  // all are held before anything is taken
    groups.hold(g, groups.companion(leading, g));
  for (uint32_t g = 1; g < groups.count(); ++g) {
    uint32_t* const row = groups.row(g, index_of(s));
    GroupRow& r = groups[g].rows[index_of(s)];
    const uint32_t source = groups.companion(leading, g);
    if (groups.is_state(g)) {
      drop_group_pages(s, g, 0, r.end);
      r.end = groups.pages_for(g, length);
      row[r.begin = r.end - 1] = source;
      continue;
    }
    uint32_t& last = row[r.end++];
    last = take_group_page(g);
    groups.copy(g, source, last, count);
    groups.drop(g, source, 0);
  }
}

void PagePool::State::keep_group_tail(const SequenceRecord& s, uint32_t tail) noexcept {
  for (uint32_t g = 1; g < groups.count(); ++g) {
    const Group& group = groups[g];
    const uint32_t page = groups.row(g, index_of(s))[(s.length - 1) / group.page_size];
    const bool is_final = !groups.is_state(g) || has_final_state(s, g);
    if (is_final && group.pages[page].pending_copy == pool::no_page) groups.attach(tail, g, page);
  }
}

}  // namespace folio::inline v1
