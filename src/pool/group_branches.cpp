// SPDX-License-Identifier: Apache-2.0
/// pool/group_branches.cpp: sequences of a hybrid model that go back, fork and change places.
#include <algorithm>
#include <utility>

#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1 {

using pool::Group;
using pool::GroupRow;
using pool::PageUse;
using pool::SequenceRecord;

/// The page that serves position `p` of a shorter sequence: the row's, or else the companion.
uint32_t PagePool::State::group_page_at(const SequenceRecord& s, uint32_t group, uint32_t p,
                                        int32_t length) const noexcept {
  const uint32_t* const leading = row(s);
  const uint32_t entry = groups.row(group, index_of(s))[p];
  const bool in_row = entry != groups[group].num_pages;
  if (groups.is_state(group)) {
    if (length == s.length) return entry;
    if (length % options.page_size != 0) return pool::no_page;
    return groups.companion(leading[length / options.page_size - 1], group);
  }
  return in_row ? entry : groups.companion(leading[p], group);
}

uint32_t PagePool::State::group_that_cannot(const SequenceRecord& s,
                                            int32_t length) const noexcept {
  for (uint32_t g = 1; g < groups.count() && length < s.length && length != 0; ++g) {
    const uint32_t end = groups.pages_for(g, length);
    for (uint32_t p = 0; p < end; ++p) {
      if (p >= groups[g].sink_pages) p = std::max(p, groups.first_needed(g, length));
      if (p >= groups[g].rows[index_of(s)].begin && !groups.is_state(g)) break;
      if (p < end && group_page_at(s, g, p, length) == pool::no_page) return g;
    }
  }
  return 0;
}

void PagePool::State::cut_groups(const SequenceRecord& s, int32_t length) noexcept {
  for (uint32_t g = 1; g < groups.count(); ++g) {
    const Group& group = groups[g];
    uint32_t* const row = groups.row(g, index_of(s));
    GroupRow& r = group.rows[index_of(s)];
    const auto [begin, end] = groups.row_for(g, length);
    if (groups.is_state(g) && length != s.length) {
      const uint32_t page = length == 0 ? pool::no_page : group_page_at(s, g, begin, length);
      if (page != pool::no_page) groups.hold(g, page);
      drop_group_pages(s, g, 0, r.end);
      if (page != pool::no_page) row[begin] = page;
    } else {
      for (uint32_t p = begin; p < std::min(r.begin, end); ++p) {
        if (row[p] == group.num_pages) groups.hold(g, row[p] = group_page_at(s, g, p, length));
      }
      drop_group_pages(s, g, end, r.end);
    }
    r = {std::min(begin, r.begin), end};
  }
}

bool PagePool::State::shares_group_page(const SequenceRecord& parent, uint32_t group, uint32_t p,
                                        int32_t length) const noexcept {
  const Group& g = groups[group];
  if (int64_t{p + 1} * g.page_size <= length) return true;
  return groups.is_state(group) &&
         g.pages[group_page_at(parent, group, p, length)].leading != pool::no_page;
}

Status PagePool::State::claim_fork(const SequenceRecord& parent, int32_t length,
                                   uint32_t children) noexcept {
  uint32_t needs[pool::max_groups] = {};
  uint64_t revived = 0;  // a cached page that is held again may bind an idle slab
  needs[0] = length % options.page_size != 0 ? children : 0;
  for (uint32_t g = 1; g < groups.count(); ++g) {
    const auto [begin, end] = groups.row_for(g, length);
    for (uint32_t p = begin; p < end; ++p) {
      const uint32_t page = group_page_at(parent, g, p, length);
      if (is_idle(g, page)) ++revived;
      if (!shares_group_page(parent, g, p, length)) needs[g] += children;
    }
  }
  const bool takes = std::any_of(needs, needs + groups.count(), [](uint32_t n) { return n != 0; });
  if (takes && (!groups.slabs.can_give(needs, revived) ||
                (!groups.slabs.has(0) && needs[0] > available()))) {
    return fail(Errc::out_of_pages,
                "PagePool::fork: pages needed for cut ones, more than the arena's slabs have free "
                "or can evict");
  }
  std::copy_n(needs, pool::max_groups, groups.needs);
  return {};
}

void PagePool::State::fork_groups(const SequenceRecord& parent, const SequenceRecord& child,
                                  int32_t length) noexcept {
  groups.likely[index_of(child)] = groups.likely[index_of(parent)];
  for (const bool copying : {false, true}) {  // all is held before anything is taken
    for (uint32_t g = 1; g < groups.count(); ++g) {
      uint32_t* const to = groups.row(g, index_of(child));
      const GroupRow r = groups[g].rows[index_of(child)] = groups.row_for(g, length);
      groups.visit_entries(g, r, [&](uint32_t p) {
        if (!copying) return groups.hold(g, to[p] = group_page_at(parent, g, p, length));
        if (shares_group_page(parent, g, p, length)) return;
        const uint32_t from = std::exchange(to[p], take_group_page(g));
        groups.copy(g, from, to[p], groups.copied_tokens(g, length));
        groups.drop(g, from, 0);
      });
    }
  }
}

void PagePool::State::swap_groups(const SequenceRecord& a, const SequenceRecord& b) noexcept {
  std::swap(groups.likely[index_of(a)], groups.likely[index_of(b)]);
  for (uint32_t g = 1; g < groups.count(); ++g) {
    GroupRow& of_a = groups[g].rows[index_of(a)];
    GroupRow& of_b = groups[g].rows[index_of(b)];
    uint32_t* const pages = groups.row(g, index_of(a));
    std::swap_ranges(pages, pages + std::max(of_a.end, of_b.end), groups.row(g, index_of(b)));
    std::swap(of_a, of_b);
  }
}

}  // namespace folio::inline v1
