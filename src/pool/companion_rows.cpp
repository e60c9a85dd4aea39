// SPDX-License-Identifier: Apache-2.0
/// pool/companion_rows.cpp: what a sequence's calls do in the groups behind the leading one.
#include <algorithm>
#include <utility>

#include "pool/rows.h"

namespace folio::inline v1::pool {

void Rows::drop_group_pages(const SequenceRecord& s, Group& group, uint32_t first,
                            uint32_t last) noexcept {
  uint32_t* const row = group.row_of(index_of(s));
  const uint64_t steps = unfinished_steps(s);
  for (uint32_t p = last; p-- > first;) {
    if (row[p] != group.num_pages) group.drop(std::exchange(row[p], group.num_pages), steps);
  }
}

void Rows::leave_behind(const SequenceRecord& s, Group& group, uint32_t first,
                        uint32_t last) noexcept {
  uint32_t* const row = group.row_of(index_of(s));
  const LikelyHits& hits = groups.expected(index_of(s));
  const uint64_t steps = unfinished_steps(s);
  for (uint32_t p = last; p-- > first;) {
    group.drop(std::exchange(row[p], group.num_pages), steps,
               group.is_likely(hits, p) ? Keeping::ordinary : Keeping::behind);
  }
}

void Rows::hold_group_hits(const SequenceRecord& s, bool states_of_tail) noexcept {
  const uint32_t* const leading = row(s);
  for (Group& group : groups.companions()) {
    if (states_of_tail && group.is_state()) continue;
    uint32_t* const row = group.row_of(index_of(s));
    const GroupRow r = group.rows[index_of(s)] = group.row_for(s.length);
    group.visit_entries(r, [&](uint32_t p) {
      group.hold(row[p] = group.companion(leading[group.is_state() ? s.pages - 1 : p]));
    });
  }
}

void Rows::give_companion(uint32_t leading, Group& group, uint32_t& page, bool merges) noexcept {
  const uint32_t other = group.companion(leading);
  if (!merges || other == no_page || other == page) return group.attach(leading, page);
  group.hold(other);
  group.drop(std::exchange(page, other), 0);
}

void Rows::advance(const SequenceRecord& s, Group& group, uint32_t first_full,
                   bool merges) noexcept {
  const uint32_t* const leading = this->row(s);
  uint32_t* const row = group.row_of(index_of(s));
  const auto full = static_cast<uint32_t>(s.length / options.page_size);
  if (options.prefix_reuse && group.is_state()) {
    if (s.length % options.page_size == 0 && has_final_state(s, group))
      give_companion(leading[full - 1], group, row[(s.length - 1) / group.page_size], merges);
  } else if (options.prefix_reuse) {
    for (uint32_t p = first_full; p < full; ++p)
      if (row[p] != group.num_pages)  // of a load, only those that its length needs
        give_companion(leading[p], group, row[p], merges);
  }
  move_window(s, group);
}

void Rows::move_window(const SequenceRecord& s, Group& group) noexcept {
  GroupRow& r = group.rows[index_of(s)];
  const uint32_t begin = std::min(group.first_needed(s.length), r.end);
  if (begin <= r.begin) return;
  leave_behind(s, group, std::max(r.begin, group.sink_pages), begin);
  r.begin = begin;
}

void Rows::release(const SequenceRecord& s, Group& group) noexcept {
  drop_group_pages(s, group, 0, end_of_row(group, s));
  group.rows[index_of(s)] = {};
}

bool Rows::awaits_copy(const SequenceRecord& s, const Group& group) const noexcept {
  const auto p = static_cast<uint32_t>(s.length / group.page_size);
  if (p >= end_of_row(group, s)) return false;
  const uint32_t page = group.row_of(index_of(s))[p];
  return page != group.num_pages && group.records[page].waits_for_copy();
}

}  // namespace folio::inline v1::pool
