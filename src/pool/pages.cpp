// SPDX-License-Identifier: Apache-2.0
/// pool/pages.cpp: where pages of all groups come from.
#include "pool/pages.h"

#include <cstring>

namespace folio::inline v1::pool {

template <class AnyGroup>
void Pages::claim_slab(uint32_t slab, AnyGroup& group) noexcept {
  Slabs& slabs = groups.slabs;
  const uint32_t owner = slabs.owner(slab);
  for (uint32_t i = 0; owner != max_groups && i < slabs.layout().pages_per_slab[owner]; ++i) {
    const uint32_t page = slabs.first_page(owner, slab) + i;
    with_group(owner, [this, page](auto& of) {
      if (evictions.function != nullptr) [[unlikely]]
        tell_leaving(of, page);
      of.give_away(page);
    });
    slabs.set(owner, page, PageUse::outside);
  }
  slabs.claim(slab, group.number);
  for (uint32_t i = 0; i < slabs.layout().pages_per_slab[group.number]; ++i) {
    const uint32_t page = slabs.first_page(group.number, slab) + i;
    slabs.set(group.number, page, PageUse::free);
    group.lists.push_back(PageList::free, page);
  }
}

/// Where no slab is left over: of the pages of a bound slab that are not used, the one that goes
/// first. The one loop over a slab.
template <class AnyGroup>
uint32_t Pages::page_of_bound_slab(const AnyGroup& group) const noexcept {
  const Slabs& slabs = groups.slabs;
  uint32_t page = slabs.first_page(group.number, slabs.bound_slab(group.number)), first = no_page;
  for (uint32_t i = 0; i < slabs.layout().pages_per_slab[group.number]; ++i, ++page) {
    if (slabs.use_of(group.number, page) == PageUse::used) continue;
    if (first == no_page || group.place_of(page) < group.place_of(first)) first = page;
    if (group.records[first].list == PageList::free) break;
  }
  return first;
}

template <class AnyGroup>
uint32_t Pages::choose_page(AnyGroup& group) noexcept {
  Slabs& slabs = groups.slabs;
  const bool any = slabs.may_choose(group.number, groups.needs);
  if (groups.needs[group.number] != 0) --groups.needs[group.number];
  if (!any) return page_of_bound_slab(group);
  if (const uint32_t page = group.lists.front(PageList::free); page != no_page) return page;
  uint32_t slab = slabs.empty_slab();
  const bool is_own = slab != no_slab && slabs.owner(slab) == group.number;
  // of a group's own pages the lowest level goes, wherever it lies
  const uint32_t first = group.first_to_go(is_own);
  if (first != no_page &&
      (slab == no_slab || is_own || !slabs.goes_before(slab, group.number, first)))
    return first;
  if (slab == no_slab) {
    const uint32_t own = group.oldest_cached();
    slab = slabs.oldest_idle_slab();
    const bool keeps_slab = slab == no_slab || slabs.owner(slab) == group.number;
    if (own != no_page && (keeps_slab || !slabs.goes_before(slab, group.number, own))) return own;
  }
  claim_slab(slab, group);
  return group.lists.front(PageList::free);
}

template uint32_t Pages::choose_page(LeadingGroup& group) noexcept;
template uint32_t Pages::choose_page(Group& group) noexcept;

uint32_t Pages::copy_page(uint32_t from, int32_t kept) noexcept {
  const uint32_t to = take_page();
  std::memcpy(tokens_of(to), tokens_of(from), static_cast<size_t>(kept) * sizeof(TokenId));
  ask_copy(from, to, kept);
  return to;
}

uint64_t Pages::idle_pages(uint32_t leading) const noexcept {
  uint64_t idle = groups.slabs.has(number) && is_idle(number, leading) ? 1 : 0;
  for (const Group& group : groups.companions()) {
    const uint32_t page = group.companion(leading);
    if (page != no_page && is_idle(group.number, page)) ++idle;
  }
  return idle;
}

}  // namespace folio::inline v1::pool
