// SPDX-License-Identifier: Apache-2.0
/// pool/spares.cpp: pages that go on without their place when it is taken.
///
/// Whoever watches evictions has pins of pages with nothing in them. Instead of a cached page such
/// a *spare* one is taken, and the pin holds the cached page, which nobody finds any more: its
/// bytes stay until the pin ends. None move, and nobody waits. Where a slab goes to another group,
/// no page of it can stay: who watches is told, and may copy.
#include "pool/pages.h"

namespace folio::inline v1::pool {
namespace {

bool is_spare(const PageRecord& record) {
  return record.references == 0 && record.copies == 1 && record.steps == 0 && record.content == 0 &&
         !record.awaits_copy && !record.is_tail && !record.filling;
}
bool is_spare(const GroupPage& page) {
  return page.holds == 1 && page.steps == 0 && page.leading == no_page && !page.waits_for_copy();
}

}  // namespace

const PageName* Pages::name_of_leading(uint32_t page) const noexcept {
  const PageRecord& record = records[page];
  return record.content == 0 ? nullptr : index.name_of(index.findable_twin(page));
}

template <class AnyGroup>
const PageName* Pages::name_to_tell(const AnyGroup& group, uint32_t page) const noexcept {
  if constexpr (AnyGroup::has_content) {
    return index.has_twin(page) ? nullptr : name_of_leading(page);  // a twin has its content, too
  } else {
    const GroupPage& record = group.records[page];
    const bool is_told = record.leading != no_page && record.keeping == Keeping::ordinary;
    return is_told ? name_of_leading(record.leading) : nullptr;
  }
}

template <class AnyGroup>
uint32_t Pages::hand_down(AnyGroup& group, uint32_t page) noexcept {
  const PageName* const name = name_to_tell(group, page);
  if (name == nullptr) return no_page;
  const PageName copy = *name;
  calls_out = true;
  const IoPin pin = evictions.function(evictions.context, group.number, page, copy);
  calls_out = false;
  const IoPins::Place* const place = io_pins.find(pin);
  if (place == nullptr || place->group != group.number || !is_spare(group.records[place->page]))
    return no_page;
  const uint32_t spare = io_pins.move(pin, page);
  group.give_away(page);
  group.records[page].pin();
  group.note_used(page);
  group.records[spare].unpin();
  return spare;
}

/// They go with their leading page. As a slab that nobody used may be bound for each, and the one
/// of its spare page need not be left, the slabs that the call under way still needs come first.
void Pages::hand_companions_down(uint32_t leading) noexcept {
  for (Group& group : groups.companions()) {
    const uint32_t page = group.companion(leading);
    if (page == no_page || !is_cached(group.records[page].list)) continue;
    constexpr uint64_t bound = 2;  // with that of the leading page
    if (!groups.slabs.can_give(groups.needs, bound)) {
      tell_leaving(group, page);
    } else if (const uint32_t freed = hand_down(group, page); freed != no_page) {
      group.settle(freed);
    }
  }
}

template <class AnyGroup>
void Pages::tell_leaving(AnyGroup& group, uint32_t page) noexcept {
  if (!is_cached(group.records[page].list)) return;
  if constexpr (AnyGroup::has_content) hand_companions_down(page);
  const PageName* const name = name_to_tell(group, page);
  if (name == nullptr || evictions.leaving == nullptr) return;
  const PageName copy = *name;
  calls_out = true;
  evictions.leaving(evictions.context, group.number, page, copy);
  calls_out = false;
}

template <class AnyGroup>
uint32_t Pages::spare_for(AnyGroup& group, uint32_t page) noexcept {
  if (!is_cached(group.records[page].list)) return page;
  if constexpr (AnyGroup::has_content) hand_companions_down(page);
  const uint32_t spare = hand_down(group, page);
  return spare == no_page ? page : spare;
}

template void Pages::tell_leaving(LeadingGroup& group, uint32_t page) noexcept;
template void Pages::tell_leaving(Group& group, uint32_t page) noexcept;
template uint32_t Pages::spare_for(LeadingGroup& group, uint32_t page) noexcept;
template uint32_t Pages::spare_for(Group& group, uint32_t page) noexcept;

}  // namespace folio::inline v1::pool
