// SPDX-License-Identifier: Apache-2.0
/// pool/leading_group.cpp: how a page with content becomes cached, free and another's.
#include "pool/leading_group.h"

namespace folio::inline v1::pool {

void LeadingGroup::forget(uint32_t page) noexcept {
  PageRecord& record = records[page];
  if (record.is_tail) {
    heads.remove(page);
    groups.forget(page);
    record.is_tail = false;
    record.fill = no_page;
    return;
  }
  if (heads.is_on() && record.findable) {  // first: who is told of the event may peek
    if (index.has_twin(page))
      heads.replace(page, record.twin_next);
    else
      heads.remove(page);
  }
  groups.forget(page, [this](uint32_t leading) { return heir_of(leading); });
  index.remove(page);
}

void LeadingGroup::give_up_tail(uint32_t page) noexcept {
  forget(page);
  if (is_cached(records[page].list)) lists.unlink(page);
  settle(page);
}

/// Evictions come in runs: asks for the page that is far away, for the bucket of one that has come
/// meanwhile, and for the first page in that bucket.
void LeadingGroup::prefetch_behind(const PageRecord& record) noexcept {
  if (index.fits_caches()) return;
  constexpr uint32_t n = distance_ahead;
  const auto page = static_cast<uint32_t>(record.ahead);
  __builtin_prefetch(&records[page], 1);
  extras.prefetch(page);
  // Written by the next commit, read before by HeadIndex alone: 153 ns a page became 133.
  __builtin_prefetch(tokens_of(page), 1);
  const uint32_t i = num_coming_++;
  coming_[i % n] = page;
  const uint32_t hash = records[coming_[(i - 6) % n]].hash;
  index.prefetch(hash);
  with_policy([hash](auto& policy) { policy.prefetch(hash); });
  index.prefetch_chain(records[coming_[(i - 11) % n]].hash);
}

void LeadingGroup::lose(uint32_t page) noexcept {
  prefetch_behind(records[page]);
  forget(page);
  ages.evicted(page);
}

void LeadingGroup::rest(uint32_t page) noexcept {
  PageRecord& record = records[page];
  // Of twins none is worth keeping but those that are held. So the pages that continue this content
  // come before it in the order of eviction: a holder of theirs holds one of the twins.
  ages.given_up(page);
  if (record.is_tail || (record.content != 0 && !index.has_twin(page))) {
    groups.slabs.set(number, page, use_at_level(record.level));
    if (record.level != policy_level) return retention->add(page);
    return with_policy([page](auto& policy) { policy.add(page); });
  }
  if (record.content != 0) forget(page);
  lists.push_front(PageList::free, page);
  groups.slabs.set(number, page, PageUse::free);
}

uint32_t LeadingGroup::oldest_cached() noexcept {
  if (lists.count_evictable() == 0) return no_page;
  if (retention != nullptr) return retention->take(*eviction);
  return with_policy([](auto& policy) { return policy.take(); });
}

GroupFigures LeadingGroup::figures() const noexcept {
  GroupFigures f{.num_pages = num_pages,
                 .page_bytes = groups.slabs.layout().page_bytes[number],
                 .page_size = options.page_size,
                 .cached_pages = lists.count_cached(),
                 .free_pages = int64_t{available()} - lists.count_evictable(),
                 .evicted_pages = evicted,
                 .peak_used_pages = peak_used};
  f.used_pages = f.num_pages - f.cached_pages - f.free_pages;
  return f;
}

}  // namespace folio::inline v1::pool
