// SPDX-License-Identifier: Apache-2.0
/// pool/page_states.cpp: how a page becomes used, cached and free.
#include <algorithm>
#include <cstring>

#include "pool/pool_state.h"

namespace folio::inline v1 {

using pool::PageList;
using pool::PageRecord;

void PagePool::State::note_use() noexcept {
  counters.peak_used_pages =
      std::max(counters.peak_used_pages, int64_t{options.num_pages} - available());
}

/// Evictions come in runs: asks for the page that is far away, for the bucket of one that has come
/// meanwhile, and for the first page in that bucket.
void PagePool::State::prefetch_behind(const PageRecord& record) noexcept {
  if (index.fits_caches()) return;
  constexpr uint32_t n = pool::distance_ahead;
  const auto page = static_cast<uint32_t>(record.ahead);
  __builtin_prefetch(&records[page], 1);
  const uint32_t i = num_coming++;
  coming[i % n] = page;
  const uint64_t hash = records[coming[(i - 6) % n]].hash;
  index.prefetch(hash);
  with_policy([hash](auto& policy) { policy.prefetch(hash); });
  index.prefetch_chain(records[coming[(i - 11) % n]].hash);
}

uint32_t PagePool::State::take_page() noexcept {
  uint32_t page = groups.active() ? choose_page(0) : lists.front(PageList::free);
  if (page == pool::no_page) page = with_policy([](auto& policy) { return policy.take(); });
  if (pool::is_queue(records[page].list)) evict(page);
  lists.unlink(page);
  records[page].references = 1;
  note_slab(page, pool::PageUse::used);
  note_use();
  return page;
}

void PagePool::State::hold(uint32_t page) noexcept {
  PageRecord& record = records[page];
  ++record.references;
  if (pool::is_queue(record.list)) {
    lists.unlink(page);
    note_slab(page, pool::PageUse::used);
    note_use();
  }
}

void PagePool::State::drop(uint32_t page, uint64_t steps) noexcept {
  if (steps != 0) hold_for_steps(page, steps);
  PageRecord& record = records[page];
  if (--record.references != 0) return;
  if (record.awaits_copy) cancel_copy_into(page);  // nobody will read what it would bring
  settle(page);
}

void PagePool::State::hold_for_steps(uint32_t page, uint64_t steps) noexcept {
  records[page].steps |= steps;
  lists.unlink(page);  // at most from `leaving`: it goes behind what was given up before it
  lists.push_back(PageList::leaving, page);
}

void PagePool::State::settle(uint32_t page) noexcept {
  PageRecord& record = records[page];
  if (record.references != 0 || record.copies != 0 || record.steps != 0) return;
  // Of twins none is worth keeping but those that are held. So the pages that continue this content
  // come before it in the order of eviction: a holder of theirs holds one of the twins.
  if (record.content != 0 && !index.has_twin(page)) {
    note_slab(page, pool::PageUse::cached);
    return with_policy([page](auto& policy) { policy.add(page); });
  }
  if (record.content != 0 && groups.active()) groups.forget(page, heir_of(page));
  if (record.content != 0) index.remove(page);
  lists.push_front(PageList::free, page);
  note_slab(page, pool::PageUse::free);
}

uint32_t PagePool::State::copy_page(uint32_t from, int32_t kept) noexcept {
  const uint32_t to = take_page();
  std::memcpy(tokens_of(to), tokens_of(from), static_cast<size_t>(kept) * sizeof(TokenId));
  // A page that waits for its own copy has nothing beyond it: read where that copy reads. So no
  // copy depends on another.
  if (records[from].awaits_copy) from = pending[records[from].pending_copy].from;
  ++records[from].copies;
  records[to].awaits_copy = true;
  records[to].pending_copy = num_pending;
  pending[num_pending++] = {from, to, kept};
  return to;
}

void PagePool::State::cancel_copy_into(uint32_t page) noexcept {
  const uint32_t place = records[page].pending_copy;
  const uint32_t from = pending[place].from;
  pending[place] = pending[--num_pending];  // no copy depends on another: any order will do
  records[pending[place].to].pending_copy = place;
  records[page].awaits_copy = false;
  records[page].pending_copy = pool::no_page;
  unhold_copy(from);
}

void PagePool::State::unhold_copy(uint32_t page) noexcept {
  --records[page].copies;
  settle(page);
}

}  // namespace folio::inline v1
