// SPDX-License-Identifier: Apache-2.0
/// pool/page_states.cpp: how a page becomes used, cached and free.
#include <algorithm>
#include <cstring>
#include <utility>

#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1 {

using pool::PageList;
using pool::PageRecord;

Status PagePool::clear() noexcept {
  if (!State::is_open(state_)) return State::refused(state_, "clear");
  State& state = *state_;
  const int64_t used = state.stats().used_pages;
  if (used != 0) return fail(Errc::busy, "PagePool::clear: {} pages are used, expected none", used);
  for (uint32_t g = 1; g < state.groups.count(); ++g) {
    if (const int64_t held = state.groups.figures(g).used_pages; held != 0)
      return fail(Errc::busy, "PagePool::clear: {} pages of group {} are used, expected none", held,
                  g);
  }
  state.index.attach_events(nullptr);  // one event tells of all
  for (uint32_t page = 0; page < state.options.num_pages; ++page) {
    if (!pool::is_cached(state.records[page].list)) continue;
    state.lists.unlink(page);
    state.forget(page);
    state.lists.push_back(PageList::free, page);
    state.note_slab(page, pool::PageUse::free);
  }
  if (state.events.on()) state.index.attach_events(&state.events);
  state.events.cleared();
  state.end_call();
  return {};
}

void PagePool::State::forget(uint32_t page) noexcept {
  PageRecord& record = records[page];
  if (record.is_tail) {
    heads.remove(page);
    if (groups.active()) [[unlikely]]
      groups.forget(page, pool::no_page);
    record.is_tail = false;
    record.fill = pool::no_page;
    return;
  }
  if (heads.is_on() && record.findable) {  // first: who is told of the event may peek
    if (index.has_twin(page))
      heads.replace(page, record.twin_next);
    else
      heads.remove(page);
  }
  if (groups.active()) [[unlikely]]
    groups.forget(page, heir_of(page));
  index.remove(page);
}

void PagePool::State::merge(uint32_t& page, uint32_t twin) noexcept {
  hold(twin);
  drop(std::exchange(page, twin), 0);
}

/// Evictions come in runs: asks for the page that is far away, for the bucket of one that has come
/// meanwhile, and for the first page in that bucket.
void PagePool::State::prefetch_behind(const PageRecord& record) noexcept {
  if (index.fits_caches()) return;
  constexpr uint32_t n = pool::distance_ahead;
  const auto page = static_cast<uint32_t>(record.ahead);
  __builtin_prefetch(&records[page], 1);
  extras.prefetch(page);
  // Written by the next commit, read before by HeadIndex alone: 153 ns a page became 133.
  __builtin_prefetch(tokens_of(page), 1);
  const uint32_t i = num_coming++;
  coming[i % n] = page;
  const uint32_t hash = records[coming[(i - 6) % n]].hash;
  index.prefetch(hash);
  with_policy([hash](auto& policy) { policy.prefetch(hash); });
  index.prefetch_chain(records[coming[(i - 11) % n]].hash);
}

uint32_t PagePool::State::take_page() noexcept {
  uint32_t page = groups.active() ? choose_page(0) : lists.front(PageList::free);
  if (page == pool::no_page) page = oldest_cached(0);
  if (pool::is_evictable(records[page].list)) evict(page);
  lists.unlink(page);
  records[page].references = 1;
  note_slab(page, pool::PageUse::used);
  ages.taken();
  ++pages_of_sequences;
  return page;
}

void PagePool::State::hold(uint32_t page) noexcept {
  PageRecord& record = records[page];
  pages_of_sequences += record.references++ == 0 ? 1 : 0;
  if (pool::is_cached(record.list)) {
    lists.unlink(page);
    note_slab(page, pool::PageUse::used);
  }
}

void PagePool::State::drop(uint32_t page, uint64_t steps) noexcept {
  if (steps != 0) hold_for_steps(page, steps);
  PageRecord& record = records[page];
  if (--record.references != 0) return;
  --pages_of_sequences;
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
  ages.given_up(page);
  if (record.is_tail || (record.content != 0 && !index.has_twin(page))) {
    note_slab(page, pool::use_at_level(record.level));
    if (record.level != pool::policy_level) return retention->add(page);
    return with_policy([page](auto& policy) { policy.add(page); });
  }
  if (record.content != 0) forget(page);
  lists.push_front(PageList::free, page);
  note_slab(page, pool::PageUse::free);
}

uint32_t PagePool::State::copy_page(uint32_t from, int32_t kept) noexcept {
  const uint32_t to = take_page();
  std::memcpy(tokens_of(to), tokens_of(from), static_cast<size_t>(kept) * sizeof(TokenId));
  // A page that waits for its own copy has nothing beyond it: read where that copy reads. So no
  // copy depends on another.
  if (records[from].awaits_copy) from = page_copies.pending()[records[from].pending_copy].from;
  ++records[from].copies;
  records[to].awaits_copy = true;
  records[to].pending_copy = page_copies.add({from, to, kept});
  return to;
}

void PagePool::State::cancel_copy_into(uint32_t page) noexcept {
  const uint32_t place = records[page].pending_copy;
  const uint32_t from = page_copies.pending()[place].from;
  records[page_copies.pending().back().to].pending_copy = place;
  page_copies.cancel(place);
  records[page].awaits_copy = false;
  records[page].pending_copy = pool::no_page;
  unhold_copy(from);
}

void PagePool::State::unhold_copy(uint32_t page) noexcept {
  --records[page].copies;
  settle(page);
}

}  // namespace folio::inline v1
