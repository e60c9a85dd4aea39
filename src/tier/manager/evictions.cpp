// SPDX-License-Identifier: Apache-2.0
/// tier/manager/evictions.cpp: pages that are stored when the pool evicts them, while spare ones
/// take their places.
#include <algorithm>
#include <new>

#include "tier/manager/state.h"

namespace folio::inline v1::tier {

using tier::Spare;
using tier::Spares;

Status CacheManager::State::take_spares() {
  idle_spares.resize(groups.size());
  for (const tier::Below& below : tiers)
    stores_evicted |= below.of.policy == StorePolicy::at_eviction;
  if (!stores_evicted) return {};
  const TokenId token = 0;
  for (int32_t i = 0; i < options.spare_pages; ++i) {
    const Result<Admission> a = pool.admit({&token, 1});
    if (!a) return a.error();
    Status had = pool.reserve(a->id, 1);
    for (uint32_t g = 0; g < groups.size() && had.is_ok(); ++g) {
      Spares one;
      try {
        one.push_back({.group = g, .pin = {}});
      } catch (const std::bad_alloc&) {
        static_cast<void>(pool.release(a->id));
        throw;
      }
      const Result<IoPin> pin = pool.begin_io(a->id, 0, g);
      had = pin.error();
      if (!pin) continue;
      one.front().pin = *pin;
      idle_spares[g].splice(idle_spares[g].end(), one);
    }
    static_cast<void>(pool.release(a->id));
    if (!had.is_ok()) return had;
  }
  Status watched = pool.watch_evictions(
      {.function =
           [](void* state, uint32_t group, uint32_t page, const PageName& name) noexcept {
             const Spare* const spare = static_cast<State*>(state)->use_spare(group, page, name);
             return spare == nullptr ? IoPin() : spare->pin;
           },
       .context = this,
       .leaving =
           [](void* state, uint32_t group, uint32_t page, const PageName& name) noexcept {
             static_cast<State*>(state)->copy_leaving(group, page, name);
           }});
  watches = watched.is_ok();
  return watched;
}

void CacheManager::State::give_spares_back() noexcept {
  if (watches) static_cast<void>(pool.watch_evictions({}));
  for (Spares& spares : idle_spares) {
    for (const Spare& spare : spares) static_cast<void>(pool.end_io(spare.pin));
    spares.clear();
  }
}

/// In the pool's call: takes no memory, and calls nothing that changes the pool.
Spare* CacheManager::State::use_spare(uint32_t group, uint32_t page,
                                      const PageName& leading) noexcept {
  if (!has_bytes(group)) return nullptr;
  PageName name = leading;
  const NameFunction names = pool.name_function();
  const pool::CompanionContent content{
      .leading = leading, .group = group, .options = groups[group].options};
  if (group != 0 && !names.companion(names.context, content, &name).is_ok()) return nullptr;
  const auto lacks = [&](const tier::Below& below) {
    return below.of.policy == StorePolicy::at_eviction && !below.seen[group].have(page, name);
  };
  if (std::ranges::none_of(tiers, lacks)) return nullptr;
  if (idle_spares[group].empty()) {
    for (size_t t = 0; t < tiers.size(); ++t)
      if (lacks(tiers[t])) refuse(t, StoreRefusal::no_spare);
    return nullptr;
  }
  const auto spare = idle_spares[group].begin();
  spare->name = name;
  evicted.splice(evicted.end(), idle_spares[group], spare);
  ++figures.stores;
  return &*spare;
}

bool CacheManager::State::copy_page(uint32_t group, uint32_t from, uint32_t to) noexcept {
  if (options.device == nullptr) {
    runs(group).copy(from, to);
    return true;
  }
  try {
    return copy_on_device(runs(group).of(from), runs(group).of(to)).is_ok();
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void CacheManager::State::refuse_evicted(StoreRefusal refusal) noexcept {
  for (size_t t = 0; t < tiers.size(); ++t)
    if (tiers[t].of.policy == StorePolicy::at_eviction) refuse(t, refusal);
}

/// The same, of a page that goes with its slab: the spare one gets its bytes.
void CacheManager::State::copy_leaving(uint32_t group, uint32_t page,
                                       const PageName& leading) noexcept {
  const Spare* const spare = use_spare(group, page, leading);
  if (spare == nullptr) return;
  const uint32_t to = pool.page_of(spare->pin).value();
  if (!copy_page(group, page, to)) {
    --figures.stores;
    refuse_evicted(StoreRefusal::no_memory);
    return make_idle(evicted, spare);
  }
  for (tier::Below& below : tiers)
    if (below.seen[group].have(page, spare->name)) below.seen[group].add(to, spare->name);
}

/// Pages that nobody has offered to a tier are not stored.
int64_t CacheManager::State::give_up_evicted() noexcept {
  int64_t pages = 0;
  for (; !evicted.empty(); ++pages) {
    --figures.stores;
    refuse_evicted(StoreRefusal::given_up);
    make_idle(evicted, &evicted.front());
  }
  return pages;
}

void CacheManager::State::make_idle(Spares& from, const Spare* spare) noexcept {
  const auto at = std::ranges::find_if(from, [&](const Spare& one) { return &one == spare; });
  idle_spares[spare->group].splice(idle_spares[spare->group].end(), from, at);
}

/// What has been evicted since goes to tiers that lack it.
void CacheManager::State::store_evicted() noexcept {
  while (!evicted.empty()) {
    Spare& spare = evicted.front();
    storing.splice(storing.end(), evicted, evicted.begin());
    spare.open = 1;  // our own
    try {
      offer_evicted(spare);
    } catch (const std::bad_alloc&) {
      refuse_evicted(StoreRefusal::no_memory);
    }
    --figures.stores;
    if (--spare.open == 0) make_idle(storing, &spare);
  }
}

void CacheManager::State::offer_evicted(Spare& spare) {
  const uint32_t page = pool.page_of(spare.pin).value();
  const int64_t bytes = runs(spare.group).page_bytes(), now = now_us();
  for (size_t t = 0; t < tiers.size(); ++t) {
    tier::Below& below = tiers[t];
    if (below.of.policy != StorePolicy::at_eviction || below.storing.contains(spare.name) ||
        below.seen[spare.group].have(page, spare.name))
      continue;
    const bool is_resting = below.stores.is_resting(now);
    if (is_resting || bytes > below.of.max_store_bytes - below.counters.store_bytes) {
      refuse(t, is_resting ? StoreRefusal::resting : StoreRefusal::budget);
      continue;
    }
    below.waiting.push_back({.spare = &spare,
                             .group = spare.group,
                             .name = spare.name,
                             .pin = spare.pin,
                             .page = page,
                             .deadline_us = deadline(now, options.store_deadline_ms)});
    try {
      below.storing.insert(spare.name);
    } catch (const std::bad_alloc&) {
      below.waiting.pop_back();
      throw;
    }
    ++spare.open;
    ++below.counters.waiting_pages;
    below.counters.store_bytes += bytes;
    ++figures.stores;
  }
}

}  // namespace folio::inline v1::tier
