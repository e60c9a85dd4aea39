// SPDX-License-Identifier: Apache-2.0
/// tier/manager/stores.cpp: full pages on their way to tiers.
#include <algorithm>
#include <new>
#include <utility>

#include "tier/manager/state.h"

namespace folio::inline v1::tier {

using tier::Below;
using tier::Call;
using tier::Load;
using tier::Store;

// ---- Hits

void CacheManager::State::count_hits(SequenceId id, int32_t cached_tokens) noexcept {
  if (hits.empty()) return;
  for (int32_t p = 0; p < cached_tokens / pool.page_size(); ++p)
    if (const uint32_t page = page_at(id, p); page < hits.size()) ++hits[page];
  if (writes_through) store_pages(id, StorePolicy::write_through, 0);
}

/// A page that has become full is new, unless another with its content has taken its place. Throws
/// before the pool has changed.
Status CacheManager::State::commit(SequenceId id, std::span<const TokenId> written, Merge merge) {
  const Result<int32_t> length = pool.length(id);
  if (!length) return length.error();
  const int32_t first = *length / pool.page_size();
  std::vector<uint32_t> before;
  if (!hits.empty()) {
    const auto end = std::min<int64_t>((*length + std::ssize(written)) / pool.page_size(),
                                       pool.table().row_stride);
    for (int32_t p = first; p < end; ++p) before.push_back(page_at(id, p));
  }
  if (Status s = pool.commit(id, written, merge); !s.is_ok()) return s;
  for (size_t i = 0; i < before.size(); ++i) {
    const uint32_t page = page_at(id, first + static_cast<int32_t>(i));
    if (page < hits.size()) hits[page] = page == before[i] ? 0 : hits[page] + 1;
  }
  if (writes_through) store_pages(id, StorePolicy::write_through, first);
  name_pages(id);
  return {};
}

/// What has no name is evicted without a word.
void CacheManager::State::name_pages(SequenceId id) noexcept {
  const int32_t full = pool.length(id).value() / pool.page_size();
  if (stores_evicted && full != 0) static_cast<void>(pool.name(id, full - 1));
}

// ---- Which pages

void CacheManager::State::refuse(size_t t, StoreRefusal refusal, int64_t pages) noexcept {
  tiers[t].counters.not_stored[static_cast<size_t>(refusal)] += pages;
  figures.unstored_pages += pages;
}

/// Those from `first` on that tiers with this policy are not seen to have.
void CacheManager::State::store_pages(SequenceId id, StorePolicy policy, int32_t first) noexcept {
  const Result<int32_t> length = pool.length(id);
  if (!length) return;
  const int32_t end = *length / pool.page_size();
  if (first >= end) return;
  std::vector<PageName> names;
  for (size_t t = 0; t < tiers.size(); ++t) {
    if (tiers[t].of.policy != policy) continue;
    try {
      for (int32_t p = first + static_cast<int32_t>(names.size()); p < end; ++p) {
        const Result<PageName> name = pool.name(id, p);
        if (!name) break;
        names.push_back(*name);
      }
      offer_all(t, id, first, names);
    } catch (const std::bad_alloc&) {
      refuse(t, StoreRefusal::no_memory);
    }
    hand_over_waiting(t);
  }
}

void CacheManager::State::offer_all(size_t t, SequenceId id, int32_t first,
                                    std::span<const PageName> names) {
  for (size_t i = 0; i < names.size() && has_bytes(0);) {
    const auto position = first + static_cast<int32_t>(i);
    if (is_wanted(t, id, position)) {
      const size_t there = count_there(t, id, position, names.subspan(i));
      i += there;
      if (there != 0) continue;
      offer(t, {.id = id, .position = position, .group = 0, .name = names[i]});
    }
    ++i;
  }
  if (is_joint()) offer_companions(t, id, first, names);
}

bool CacheManager::State::is_wanted(size_t t, SequenceId id, int32_t position) const noexcept {
  const auto min_hits = static_cast<uint32_t>(tiers[t].of.min_hits);
  const uint32_t page = page_at(id, position);
  return min_hits == 0 || (page < hits.size() && hits[page] >= min_hits);
}

/// Of other groups' pages those that likely hits need, and those that go down whatever is likely;
/// when a sequence ends, what it holds, too.
void CacheManager::State::offer_companions(size_t t, SequenceId id, int32_t first,
                                           std::span<const PageName> names) {
  Below& below = tiers[t];
  const bool ends = below.of.policy == StorePolicy::write_back;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto position = first + static_cast<int32_t>(i);
    const Result<pool::PageParts> parts = pool.parts(id, position);
    if (!parts || !is_wanted(t, id, position)) continue;
    int wanted = parts->likely | (ends ? parts->held : 0);
    for (uint32_t g = 1; g < groups.size(); ++g)
      if (groups[g].goes_down(position)) wanted |= parts->present & 1 << g;
    for (uint32_t g = 1; g < groups.size(); ++g) {
      if ((wanted >> g & 1) == 0) continue;
      Offered page{.id = id, .position = position, .group = g, .name = {}};
      if (!pool.companion_names(g, names.subspan(i, 1), {&page.name, 1}).is_ok()) continue;
      offer(t, page);
    }
  }
}

/// How many of these, the first ones, the tier has. Of a page that it is not seen to have it is not
/// asked: a tier may hope to have what it does not know, and `store` knows better.
size_t CacheManager::State::count_there(size_t t, SequenceId id, int32_t first,
                                        std::span<const PageName> names) noexcept {
  Below& below = tiers[t];
  size_t seen = 0;
  while (seen < names.size() &&
         below.seen[0].have(page_at(id, first + static_cast<int32_t>(seen)), names[seen]))
    ++seen;
  if (seen == 0 || below.loads.is_resting(now_us())) return 0;
  const int64_t found = below.of.tier->find(names.first(seen));
  return static_cast<size_t>(std::clamp(found, int64_t{0}, static_cast<int64_t>(seen)));
}

std::optional<PageName> CacheManager::State::parent_of(SequenceId id, int32_t position) noexcept {
  if (position == 0) return std::nullopt;
  const Result<PageName> name = pool.name(id, position - 1);
  return name ? std::optional(*name) : std::nullopt;
}

Result<IoPin> CacheManager::State::pin(const Offered& page) noexcept {
  return page.group == 0 ? pool.begin_io(page.id, page.position)
                         : pool.begin_companion_io(page.id, page.position, page.group);
}

/// The page waits to be handed over, unless it does so already, or is seen to be there.
void CacheManager::State::offer(size_t t, const Offered& page) {
  Below& below = tiers[t];
  const int64_t now = now_us();
  const int64_t bytes = runs(page.group).page_bytes();
  if (below.storing.contains(page.name)) return;
  if (below.stores.is_resting(now)) return refuse(t, StoreRefusal::resting);
  if (bytes > below.of.max_store_bytes - below.counters.store_bytes)
    return refuse(t, StoreRefusal::budget);
  std::deque<Store> more(1);
  const std::optional<PageName> parent =
      page.group == 0 ? parent_of(page.id, page.position) : parent_of(page.id, page.position + 1);
  const auto [entry, is_new] = below.storing.insert(page.name);
  const Result<IoPin> pin = this->pin(page);
  if (!pin) {
    below.storing.erase(entry);
    return refuse(t, StoreRefusal::no_pin);
  }
  const Store store{.group = page.group,
                    .name = page.name,
                    .parent = parent,
                    .pin = *pin,
                    .page = pool.page_of(*pin).value(),
                    .deadline_us = deadline(now, options.store_deadline_ms),
                    .is_promotion = page.is_promotion};
  const bool is_seen = page.group != 0 && below.seen[page.group].have(store.page, page.name) &&
                       !below.loads.is_resting(now) && below.of.tier->find({&page.name, 1}) > 0;
  try {
    if (!is_seen) below.waiting.push_back(store);
  } catch (const std::bad_alloc&) {
    below.storing.erase(entry);
    static_cast<void>(pool.end_io(*pin));
    throw;
  }
  if (is_seen) {
    below.storing.erase(entry);
    static_cast<void>(pool.end_io(*pin));
    return;
  }
  ++below.counters.waiting_pages;
  below.counters.store_bytes += bytes;
  if (store.group == 0) ++open_stores[store.page];
  ++figures.stores;
}

/// A page that a load has brought goes to the tiers above its own that ask for it.
void CacheManager::State::promote(const Load& load, size_t page) noexcept {
  const tier::LoadingPage& loaded = load.pages[page];
  const size_t behind = load.is_joint() ? loaded.position : page;
  const int32_t position = load.first_page + static_cast<int32_t>(behind);
  if (const uint32_t at = page_at(load.id, position); loaded.group == 0 && at < hits.size())
    hits[at] = 1;
  for (size_t t = 0; t < loaded.tier; ++t) {
    if (!tiers[t].of.promotes) continue;
    try {
      offer(t, {.id = load.id,
                .position = position,
                .group = loaded.group,
                .name = loaded.name,
                .is_promotion = true});
    } catch (const std::bad_alloc&) {
      refuse(t, StoreRefusal::no_memory);
    }
  }
}

// ---- To the tier, and back

void CacheManager::State::let_go(const Store& store) noexcept {
  if (store.spare != nullptr) {
    if (--store.spare->open == 0) make_idle(storing, store.spare);
    return;
  }
  static_cast<void>(pool.end_io(store.pin));
  if (store.group == 0) --open_stores[store.page];
}

void CacheManager::State::drop_waiting(size_t t, StoreRefusal refusal) noexcept {
  Below& below = tiers[t];
  const Store& store = below.waiting.front();
  let_go(store);
  below.storing.erase(store.name);
  --below.counters.waiting_pages;
  below.counters.store_bytes -= runs(store.group).page_bytes();
  --figures.stores;
  refuse(t, refusal);
  below.waiting.pop_front();
}

void CacheManager::State::hand_over_waiting(size_t t) noexcept {
  Below& below = tiers[t];
  const int64_t now = now_us();
  while (!below.waiting.empty()) {
    if (below.stores.is_resting(now)) {
      drop_waiting(t, StoreRefusal::resting);
    } else if (below.waiting.front().deadline_us <= now) {
      drop_waiting(t, StoreRefusal::given_up);
    } else {
      try {
        if (!hand_over_first(t)) return;
      } catch (const std::bad_alloc&) {
        drop_waiting(t, StoreRefusal::no_memory);
      }
    }
  }
}

/// False where the tier's queue has no room, but will have some when what is in it ends.
bool CacheManager::State::hand_over_first(size_t t) {
  Below& below = tiers[t];
  const Store& store = below.waiting.front();
  tier::Calls one;
  one[{}] = {.store = store, .began_us = now_us()};
  const Result<uint32_t> at = pool.page_of(store.pin);
  if (!at) {  // the pool has been moved from
    drop_waiting(t, StoreRefusal::failed);
    return true;
  }
  const std::vector<Extent> extents = runs(store.group).of(*at);
  const TierPage page{store.name, extents, store.parent ? &*store.parent : nullptr};
  const Result<TierTicket> ticket = below.of.tier->store({&page, 1});
  if (!ticket) {
    const bool is_busy = ticket.error().code() == Errc::busy;
    if (is_busy && below.counters.storing_pages + below.counters.loading_pages != 0) return false;
    if (!is_busy) judge(t, one.begin()->second, RestReason::refused);
    drop_waiting(t, StoreRefusal::failed);
    return true;
  }
  auto node = one.extract(one.begin());
  node.key() = {t, ticket->value};
  calls.insert(std::move(node));
  --below.counters.waiting_pages;
  ++below.counters.storing_pages;
  ++figures.stored_pages;
  if (store.is_promotion) ++below.counters.promoted_pages;
  below.waiting.pop_front();
  return true;
}

void CacheManager::State::end_stored(size_t t, const Store& store, TierOutcome outcome) noexcept {
  Below& below = tiers[t];
  TierCounters& counters = below.counters;
  let_go(store);
  below.storing.erase(store.name);
  --counters.storing_pages;
  counters.store_bytes -= runs(store.group).page_bytes();
  --figures.stores;
  ++counters.store_outcomes[static_cast<size_t>(outcome)];
  if (outcome != TierOutcome::done) return;
  below.seen[store.group].add(store.page, store.name);
  ++counters.stored_pages;
  counters.stored_tokens += store.group == 0 ? pool.page_size() : 0;
  counters.stored_bytes += runs(store.group).page_bytes();
}

/// Pins stay until the tier says that it has ended.
void CacheManager::State::end_late_stores(int64_t now) noexcept {
  for (auto& [id, call] : calls) {
    if (call.load != nullptr || call.store.deadline_us > now) continue;
    call.store.deadline_us = tier::never_us;
    judge(id.tier, call, RestReason::late);
    tiers[id.tier].of.tier->cancel({id.ticket});
  }
}

}  // namespace folio::inline v1::tier
