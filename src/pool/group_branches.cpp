// SPDX-License-Identifier: Apache-2.0
/// pool/group_branches.cpp: sequences of a hybrid model that go back, fork and change places.
#include <algorithm>
#include <utility>

#include "pool/branches.h"
#include "pool/checks.h"

namespace folio::inline v1::pool {

uint32_t Branches::group_page_at(const SequenceRecord& s, const Group& group, uint32_t p,
                                 int32_t length) const noexcept {
  const uint32_t* const leading = row(s);
  const uint32_t entry = group.row_of(index_of(s))[p];
  if (group.is_state()) {
    if (length == s.reach()) return entry;
    if (length % options.page_size != 0) return no_page;
    return group.companion(leading[length / options.page_size - 1]);
  }
  return entry != group.num_pages ? entry : group.companion(leading[p]);
}

bool Branches::can_go_back(const SequenceRecord& s, const Group& group,
                           int32_t length) const noexcept {
  const uint32_t end = group.pages_for(length);
  for (uint32_t p = 0; p < end; ++p) {
    if (p >= group.sink_pages) p = std::max(p, group.first_needed(length));
    if (p >= group.rows[index_of(s)].begin && !group.is_state()) break;
    if (p < end && group_page_at(s, group, p, length) == no_page) return false;
  }
  return true;
}

Status Branches::check_going_back(const char* call, const SequenceRecord& s,
                                  int32_t length) const noexcept {
  if (length == s.reach() || length == 0) return {};
  for (const Group& group : groups.companions()) {
    if (!can_go_back(s, group, length)) return cannot_go_back(call, length, group.number, s.length);
  }
  return {};
}

void Branches::cut_groups(const SequenceRecord& s, int32_t length) noexcept {
  for (Group& group : groups.companions()) {
    uint32_t* const row = group.row_of(index_of(s));
    GroupRow& r = group.rows[index_of(s)];
    const auto [begin, end] = group.row_for(length);
    if (group.is_state() && length != s.reach()) {
      const uint32_t page = length == 0 ? no_page : group_page_at(s, group, begin, length);
      if (page != no_page) group.hold(page);
      drop_group_pages(s, group, 0, r.end);
      if (page != no_page) row[begin] = page;
    } else {
      for (uint32_t p = begin; p < std::min(r.begin, end); ++p) {
        if (row[p] == group.num_pages) group.hold(row[p] = group_page_at(s, group, p, length));
      }
      drop_group_pages(s, group, end, r.end);
    }
    r = {std::min(begin, r.begin), end};
  }
}

bool Branches::shares_group_page(const SequenceRecord& parent, const Group& group, uint32_t p,
                                 int32_t length) const noexcept {
  if (int64_t{p + 1} * group.page_size <= length) return true;
  return group.is_state() &&
         group.records[group_page_at(parent, group, p, length)].leading != no_page;
}

Status Branches::claim_fork(const SequenceRecord& parent, int32_t length, size_t children,
                            bool shares) noexcept {
  const bool copies_last = length % options.page_size != 0 && !shares;
  if (!groups.active()) {
    if (!copies_last || children <= available()) return {};
    return no_pages("fork", static_cast<int64_t>(children));
  }
  const auto count = static_cast<uint32_t>(children);
  GroupNeeds needs = {};
  uint64_t revived = 0;  // a cached page that is held again may bind an idle slab
  needs[number] = copies_last ? count : 0;
  for (const Group& group : groups.companions()) {
    const auto [begin, end] = group.row_for(length);
    for (uint32_t p = begin; p < end; ++p) {
      if (is_idle(group.number, group_page_at(parent, group, p, length))) ++revived;
      if (!shares_group_page(parent, group, p, length)) needs[group.number] += count;
    }
  }
  const bool takes = std::any_of(needs, needs + groups.count(), [](uint32_t n) { return n != 0; });
  if (takes && (!groups.slabs.can_give(needs, revived) ||
                (!groups.slabs.has(number) && needs[number] > available()))) {
    return fail(Errc::out_of_pages,
                "PagePool::fork: pages needed for cut ones, more than the arena's slabs have free "
                "or can evict");
  }
  groups.claim(needs);
  return {};
}

void Branches::fork_groups(const SequenceRecord& parent, const SequenceRecord& child,
                           int32_t length) noexcept {
  groups.expect_as(index_of(parent), index_of(child));
  for (const bool copying : {false, true}) {  // all is held before anything is taken
    for (Group& group : groups.companions()) {
      uint32_t* const to = group.row_of(index_of(child));
      const GroupRow r = group.rows[index_of(child)] = group.row_for(length);
      group.visit_entries(r, [&](uint32_t p) {
        if (!copying) return group.hold(to[p] = group_page_at(parent, group, p, length));
        if (shares_group_page(parent, group, p, length)) return;
        const uint32_t from = std::exchange(to[p], take_page(group));
        group.ask_copy(from, to[p], group.copied_tokens(length));
        group.drop(from, 0);
      });
    }
  }
}

void Branches::swap_groups(const SequenceRecord& a, const SequenceRecord& b) noexcept {
  groups.swap_expected(index_of(a), index_of(b));
  for (Group& group : groups.companions()) {
    GroupRow& of_a = group.rows[index_of(a)];
    GroupRow& of_b = group.rows[index_of(b)];
    uint32_t* const pages = group.row_of(index_of(a));
    std::swap_ranges(pages, pages + std::max(of_a.end, of_b.end), group.row_of(index_of(b)));
    std::swap(of_a, of_b);
  }
}

}  // namespace folio::inline v1::pool
