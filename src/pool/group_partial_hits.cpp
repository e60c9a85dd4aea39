// SPDX-License-Identifier: Apache-2.0
/// pool/group_partial_hits.cpp: hits that end inside a page, in the groups behind the leading one.
///
/// The page that a hit is copied from has companions, and each group copies the same tokens from
/// its own. A state cannot be cut: that of a tail's last token serves a prompt that goes on behind
/// just this token, and is shared like that of a whole page.
#include "pool/lookup.h"

namespace folio::inline v1::pool {

bool Lookup::can_copy_groups(uint32_t page, uint64_t revived, GroupNeeds& needs) const noexcept {
  needs[number] = 1;
  for (const Group& group : groups.companions()) needs[group.number] = group.is_state() ? 0 : 1;
  return groups.slabs.can_give(needs, revived + idle_pages(page));
}

void Lookup::copy_companions(const SequenceRecord& s, uint32_t leading, int32_t count) noexcept {
  const int64_t length = int64_t{s.length} + count;
  for (Group& group : groups.companions())  // all are held before anything is taken
    group.hold(group.companion(leading));
  for (Group& group : groups.companions()) {
    uint32_t* const row = group.row_of(index_of(s));
    GroupRow& r = group.rows[index_of(s)];
    const uint32_t source = group.companion(leading);
    if (group.is_state()) {
      drop_group_pages(s, group, 0, r.end);
      r.end = group.pages_for(length);
      row[r.begin = r.end - 1] = source;
      continue;
    }
    uint32_t& last = row[r.end++];
    last = take_page(group);
    group.ask_copy(source, last, count);
    group.drop(source, 0);
  }
}

void Lookup::keep_group_tail(const SequenceRecord& s, uint32_t tail) noexcept {
  for (Group& group : groups.companions()) {
    const uint32_t page = group.row_of(index_of(s))[(s.length - 1) / group.page_size];
    const bool is_final = !group.is_state() || has_final_state(s, group);
    if (is_final && !group.records[page].waits_for_copy()) group.attach(tail, page);
  }
}

}  // namespace folio::inline v1::pool
