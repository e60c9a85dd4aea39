// SPDX-License-Identifier: Apache-2.0
/// pool/group_pages.cpp: what a sequence's calls do in the groups behind the leading one, and where
/// pages of all groups come from.
#include <algorithm>
#include <numeric>
#include <utility>

#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1 {

using pool::Group;
using pool::GroupRow;
using pool::Keeping;
using pool::PageUse;
using pool::SequenceRecord;
using pool::TailWrite;

// ---- Where pages come from

void PagePool::State::evict(uint32_t page) noexcept {
  prefetch_behind(records[page]);
  forget(page);
  ages.evicted(page);
  ++counters.evicted_pages;
}

uint32_t PagePool::State::oldest_cached(uint32_t group) noexcept {
  if (group != 0) return groups.oldest_cached(group);
  if (lists.count_evictable() == 0) return pool::no_page;
  if (retention != nullptr) return retention->take(*eviction);
  return with_policy([](auto& policy) { return policy.take(); });
}

void PagePool::State::claim_slab(uint32_t slab, uint32_t group) noexcept {
  pool::Slabs& slabs = groups.slabs;
  const uint32_t owner = slabs.owner(slab);
  for (uint32_t i = 0; owner != pool::max_groups && i < slabs.layout().pages_per_slab[owner]; ++i) {
    const uint32_t page = slabs.first_page(owner, slab) + i;
    if (owner != 0) {
      groups.evict(owner, page);
    } else {
      if (pool::is_evictable(records[page].list)) evict(page);
      lists.unlink(page);
    }
    slabs.set(owner, page, PageUse::outside);
  }
  slabs.claim(slab, group);
  for (uint32_t i = 0; i < slabs.layout().pages_per_slab[group]; ++i) {
    const uint32_t page = slabs.first_page(group, slab) + i;
    slabs.set(group, page, PageUse::free);
    if (group != 0) {
      groups.push(group, pool::GroupList::free, page);
    } else {
      lists.push_back(pool::PageList::free, page);
    }
  }
}

/// Where no slab is left over: of the pages of a bound slab that are not used, the one that goes
/// first. The one loop over a slab.
uint32_t PagePool::State::page_of_bound_slab(uint32_t group) const noexcept {
  const pool::Slabs& slabs = groups.slabs;
  constexpr int free = -1;
  const auto place_of = [&](uint32_t page) {
    if (group == 0)
      return records[page].list == pool::PageList::free ? free : 2 * records[page].level;
    const pool::GroupPage& p = groups[group].pages[page];
    if (p.list == pool::GroupList::free) return free;
    return 2 * p.level - (p.list == pool::GroupList::behind ? 1 : 0);
  };
  uint32_t page = slabs.first_page(group, slabs.bound_slab(group)), first = pool::no_page;
  for (uint32_t i = 0; i < slabs.layout().pages_per_slab[group]; ++i, ++page) {
    if (slabs.use_of(group, page) == PageUse::used) continue;
    if (first == pool::no_page || place_of(page) < place_of(first)) first = page;
    if (place_of(first) == free) break;
  }
  return first;
}

uint32_t PagePool::State::choose_page(uint32_t group) noexcept {
  const auto front_free = [&] {
    return group == 0 ? lists.front(pool::PageList::free)
                      : groups.front(group, pool::GroupList::free);
  };
  pool::Slabs& slabs = groups.slabs;
  if (!slabs.has(group)) return front_free();
  const bool any = slabs.may_choose(group, groups.needs);
  if (groups.needs[group] != 0) --groups.needs[group];
  if (!any) return page_of_bound_slab(group);
  if (const uint32_t page = front_free(); page != pool::no_page) return page;
  uint32_t slab = slabs.empty_slab();
  const bool is_own = slab != pool::no_slab && slabs.owner(slab) == group;
  uint32_t first = pool::no_page;
  if (group != 0) first = groups.first_to_go(group);
  if (group == 0 && is_own) first = oldest_cached(0);  // below the normal level, as the slab's are
  // of a group's own pages the lowest level goes, wherever it lies
  if (first != pool::no_page &&
      (slab == pool::no_slab || is_own || !slabs.goes_before(slab, group, first)))
    return first;
  if (slab == pool::no_slab) {
    const uint32_t own = oldest_cached(group);
    slab = slabs.oldest_idle_slab();
    const bool keeps_slab = slab == pool::no_slab || slabs.owner(slab) == group;
    if (own != pool::no_page && (keeps_slab || !slabs.goes_before(slab, group, own))) return own;
  }
  claim_slab(slab, group);
  return front_free();
}

uint32_t PagePool::State::take_group_page(uint32_t group) noexcept {
  const uint32_t page = choose_page(group);
  groups.take(group, page);
  return page;
}

// ---- Room

bool PagePool::State::copies_group_tail(const SequenceRecord& s, uint32_t group,
                                        TailWrite tail) const noexcept {
  const Group& g = groups[group];
  if (s.length % g.page_size == 0 || (!s.trimmed && !groups.is_state(group))) return false;
  const pool::GroupPage& page = g.pages[groups.row(group, index_of(s))[s.length / g.page_size]];
  if (page.holds != 1 || page.steps != 0) return true;
  return !groups.is_state(group) && tail == TailWrite::copy;
}

void PagePool::State::add_group_needs(const SequenceRecord& s, int64_t end, TailWrite tail,
                                      GroupNeeds& needs) const noexcept {
  if (end <= s.room) return;
  needs[0] += pages_for(end) - s.pages + (tail == TailWrite::copy ? 1 : 0);
  for (uint32_t g = 1; g < groups.count(); ++g) {
    needs[g] += groups.pages_for(g, end) - groups[g].rows[index_of(s)].end +
                (copies_group_tail(s, g, tail) ? 1 : 0);
  }
}

bool PagePool::State::can_give(const GroupNeeds& needs, uint32_t held_back) const noexcept {
  const uint64_t leading = uint64_t{needs[0]} + held_back;
  if (leading > available()) return false;
  GroupNeeds all = {};
  std::copy_n(needs, pool::max_groups, all);
  all[0] = static_cast<uint32_t>(leading);
  return groups.slabs.can_give(all);
}

uint32_t PagePool::State::short_group(const GroupNeeds& needs, uint32_t held_back) const noexcept {
  GroupNeeds first = {};
  for (uint32_t g = 0; g < groups.count(); ++g) {
    first[g] = needs[g];
    if (!can_give(first, held_back)) return g;
  }
  return pool::max_groups;
}

Status PagePool::State::no_group_room(const GroupNeeds& needs, uint32_t held_back) const noexcept {
  return fail(Errc::out_of_pages,
              "PagePool::reserve: {} leading pages and {} of other groups needed, more than the "
              "arena's slabs have free or can evict for group {}; {} leading ones are held back",
              needs[0], std::accumulate(needs + 1, needs + groups.count(), uint64_t{0}),
              short_group(needs, held_back), held_back);
}

TailWrite PagePool::State::claim_tail(const SequenceRecord& s, int64_t end) noexcept {
  const TailWrite least = least_tail(s);
  if (least != TailWrite::forget_content || index.has_twin(row(s)[s.length / options.page_size]))
    return least;
  GroupNeeds own = {}, more = {};
  add_group_needs(s, end, least, own);
  add_group_needs(s, end, TailWrite::copy, more);
  for (uint32_t g = 0; g < groups.count(); ++g) more[g] += groups.needs[g] - own[g];
  if (!can_give(more, 0)) return least;
  std::copy_n(more, pool::max_groups, groups.needs);
  return TailWrite::copy;
}

void PagePool::State::reserve_groups(const SequenceRecord& s, int64_t end,
                                     TailWrite tail) noexcept {
  const uint32_t sequence = index_of(s);
  for (uint32_t g = 1; g < groups.count(); ++g) {
    const Group& group = groups[g];
    uint32_t* const row = groups.row(g, sequence);
    uint32_t& last = row[s.length / group.page_size];
    if (copies_group_tail(s, g, tail)) {
      const uint32_t shared = last;
      last = take_group_page(g);
      groups.copy(g, shared, last, groups.copied_tokens(g, s.length));
      groups.drop(g, shared, unfinished_steps(s));
    } else if (groups.is_state(g) && s.length % group.page_size != 0 &&
               group.pages[last].leading != pool::no_page) {
      groups.detach(g, last);  // its state goes on
    }
    GroupRow& r = group.rows[sequence];
    for (const uint32_t wanted = groups.pages_for(g, end); r.end < wanted; ++r.end)
      row[r.end] = take_group_page(g);
  }
}

// ---- Rows

void PagePool::State::drop_group_pages(const SequenceRecord& s, uint32_t group, uint32_t first,
                                       uint32_t last) noexcept {
  uint32_t* const row = groups.row(group, index_of(s));
  const uint32_t none = groups[group].num_pages;
  const uint64_t steps = unfinished_steps(s);
  for (uint32_t p = last; p-- > first;) {
    if (row[p] != none) groups.drop(group, std::exchange(row[p], none), steps);
  }
}

void PagePool::State::leave_behind(const SequenceRecord& s, uint32_t group, uint32_t first,
                                   uint32_t last) noexcept {
  const uint32_t sequence = index_of(s);
  uint32_t* const row = groups.row(group, sequence);
  const uint64_t steps = unfinished_steps(s);
  for (uint32_t p = last; p-- > first;) {
    const bool likely = groups.is_likely(group, sequence, p);
    groups.drop(group, std::exchange(row[p], groups[group].num_pages), steps,
                likely ? Keeping::ordinary : Keeping::behind);
  }
}

void PagePool::State::hold_group_hits(const SequenceRecord& s, bool states_of_tail) noexcept {
  const uint32_t* const leading = row(s);
  for (uint32_t g = 1; g < groups.count(); ++g) {
    uint32_t* const row = groups.row(g, index_of(s));
    const bool is_state = groups.is_state(g);
    if (states_of_tail && is_state) continue;
    const GroupRow r = groups[g].rows[index_of(s)] = groups.row_for(g, s.length);
    groups.visit_entries(g, r, [&](uint32_t p) {
      groups.hold(g, row[p] = groups.companion(leading[is_state ? s.pages - 1 : p], g));
    });
  }
}

void PagePool::State::give_companion(uint32_t leading, uint32_t group, uint32_t& page,
                                     bool merges) noexcept {
  const uint32_t other = groups.companion(leading, group);
  if (!merges || other == pool::no_page || other == page)
    return groups.attach(leading, group, page);
  groups.hold(group, other);
  groups.drop(group, std::exchange(page, other), 0);
}

void PagePool::State::advance_groups(const SequenceRecord& s, uint32_t first_full,
                                     bool merges) noexcept {
  const uint32_t* const leading = row(s);
  const auto full = static_cast<uint32_t>(s.length / options.page_size);
  for (uint32_t g = 1; g < groups.count(); ++g) {
    const Group& group = groups[g];
    uint32_t* const row = groups.row(g, index_of(s));
    if (options.prefix_reuse && groups.is_state(g)) {
      if (s.length % options.page_size == 0 && has_final_state(s, g))
        give_companion(leading[full - 1], g, row[(s.length - 1) / group.page_size], merges);
    } else if (options.prefix_reuse) {
      for (uint32_t p = first_full; p < full; ++p) give_companion(leading[p], g, row[p], merges);
    }
    move_window(s, g);
  }
}

void PagePool::State::move_window(const SequenceRecord& s, uint32_t group) noexcept {
  GroupRow& r = groups[group].rows[index_of(s)];
  const uint32_t begin = std::min(groups.first_needed(group, s.length), r.end);
  if (begin <= r.begin) return;
  leave_behind(s, group, std::max(r.begin, groups[group].sink_pages), begin);
  r.begin = begin;
}

void PagePool::State::release_groups(const SequenceRecord& s) noexcept {
  for (uint32_t g = 1; g < groups.count(); ++g) {
    drop_group_pages(s, g, 0, groups[g].rows[index_of(s)].end);
    groups[g].rows[index_of(s)] = {};
  }
}

bool PagePool::State::group_awaits_copy(const SequenceRecord& s) const noexcept {
  for (uint32_t g = 1; g < groups.count(); ++g) {
    const Group& group = groups[g];
    const auto p = static_cast<uint32_t>(s.length / group.page_size);
    if (p >= group.rows[index_of(s)].end) continue;
    const uint32_t page = groups.row(g, index_of(s))[p];
    if (page != group.num_pages && group.pages[page].pending_copy != pool::no_page) return true;
  }
  return false;
}

}  // namespace folio::inline v1
