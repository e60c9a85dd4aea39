// SPDX-License-Identifier: Apache-2.0
/// pool/pages.h: the pages of all groups, and where the next one comes from.
#pragma once

#include <cstdint>

#include "pool/leading_group.h"
#include "pool/pages/io_pins.h"

namespace folio::inline v1::pool {

/// By group: pages that a call takes.
using GroupNeeds = uint32_t[max_groups];

struct Pages : LeadingGroup {
  using LeadingGroup::LeadingGroup;

  [[nodiscard]] LeadingGroup& leading() noexcept { return *this; }
  [[nodiscard]] const LeadingGroup& leading() const noexcept { return *this; }
  /// visit(the group of this number), the leading one or one behind it.
  template <class Visit>
  decltype(auto) with_group(uint32_t group, Visit visit) noexcept {
    return with_group_of(*this, group, visit);
  }
  template <class Visit>
  decltype(auto) with_group(uint32_t group, Visit visit) const noexcept {
    return with_group_of(*this, group, visit);
  }
  /// visit(group) of all, the leading one first.
  template <class Visit>
  void each_group(Visit visit) noexcept {
    visit(leading());
    for (Group& group : groups.companions()) visit(group);
  }

  /// A free page of the group becomes a row's, or the cached one that goes first. Needs one that is
  /// available. Counts as one of `groups.needs`.
  template <class AnyGroup>
  [[nodiscard]] uint32_t take_page(AnyGroup& group) noexcept {
    uint32_t page =
        groups.slabs.has(group.number) ? choose_page(group) : group.lists.front(PageList::free);
    if (page == no_page) page = group.oldest_cached();
    if (evictions.function != nullptr) [[unlikely]]
      page = spare_for(group, page);
    group.take(page);
    return page;
  }
  /// Of the leading group.
  [[nodiscard]] uint32_t take_page() noexcept {
    const uint32_t page = take_page(leading());
    ages.taken();
    return page;
  }
  /// A new leading page with the first `kept` tokens of `from`, the copy pending.
  [[nodiscard]] uint32_t copy_page(uint32_t from, int32_t kept) noexcept;

  bool calls_out = false;  ///< a function of the caller's runs, within a call
  IoPins io_pins;
  EvictionFunction evictions;

  /// Whether the page, which has tokens, is cached, so that holding it again may bind its slab.
  [[nodiscard]] bool is_idle(uint32_t group, uint32_t page) const noexcept {
    return groups.slabs.use_of(group, page) != PageUse::used;
  }
  /// Of the leading page and its companions, those that are cached: as many slabs are bound at most
  /// when they are held.
  [[nodiscard]] uint64_t idle_pages(uint32_t leading) const noexcept;

 private:
  /// `page`, or a spare one that is to be taken in its stead, as it goes on without its place:
  /// spares.cpp. So do the companions of a leading page that is taken.
  template <class AnyGroup>
  [[nodiscard]] uint32_t spare_for(AnyGroup& group, uint32_t page) noexcept;
  /// The spare page whose pin `page` has now, or no_page.
  template <class AnyGroup>
  [[nodiscard]] uint32_t hand_down(AnyGroup& group, uint32_t page) noexcept;
  void hand_companions_down(uint32_t leading) noexcept;
  /// The page goes with its slab.
  template <class AnyGroup>
  void tell_leaving(AnyGroup& group, uint32_t page) noexcept;
  /// Of a cached page: by which it, or its leading page, is known; null where nobody is asked.
  template <class AnyGroup>
  [[nodiscard]] const PageName* name_to_tell(const AnyGroup& group, uint32_t page) const noexcept;
  [[nodiscard]] const PageName* name_of_leading(uint32_t page) const noexcept;
  template <class AnyPages, class Visit>
  static decltype(auto) with_group_of(AnyPages& pages, uint32_t group, Visit& visit) noexcept {
    return group == 0 ? visit(pages.leading()) : visit(pages.groups[group]);
  }
  template <class AnyGroup>
  [[nodiscard]] uint32_t choose_page(AnyGroup& group) noexcept;
  template <class AnyGroup>
  [[nodiscard]] uint32_t page_of_bound_slab(const AnyGroup& group) const noexcept;
  template <class AnyGroup>
  void claim_slab(uint32_t slab, AnyGroup& group) noexcept;
};

}  // namespace folio::inline v1::pool
