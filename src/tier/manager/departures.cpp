// SPDX-License-Identifier: Apache-2.0
/// tier/manager/departures.cpp: pages of sequences that have ended are cached tail first, though
/// their stores end in any order.
///
/// The pool caches a page when its last hold ends, and evicts first what it cached first. So the
/// leading pages of a sequence that ends are held until the stores of those behind them have ended.
#include <new>
#include <utility>

#include "tier/manager/state.h"

namespace folio::inline v1::tier {

using tier::Departure;

/// The sequence is about to give up its pages.
void CacheManager::State::depart(SequenceId id) noexcept {
  if (figures.stores == 0) return;
  const Result<int32_t> length = pool.length(id);
  if (!length) return;
  int32_t end = *length / pool.page_size();
  while (end > 0 && !is_storing(page_at(id, end - 1))) --end;
  try {
    Departure departure;
    departure.pages.reserve(static_cast<size_t>(end));
    for (int32_t p = 0; p < end; ++p) {
      const uint32_t page = page_at(id, p);
      const Result<IoPin> pin = pool.begin_io(id, p);
      if (!pin) {  // they are cached as their stores end
        end_pins(departure);
        return;
      }
      departure.pages.push_back({*pin, page});
      departure.idle += is_storing(page) ? 0 : 1;
    }
    if (end != 0) departures.push_back(std::move(departure));
  } catch (const std::bad_alloc&) {  // the same
  }
}

void CacheManager::State::end_pins(Departure& departure) noexcept {
  for (; !departure.pages.empty(); departure.pages.pop_back())
    static_cast<void>(pool.end_io(departure.pages.back().pin));
}

void CacheManager::State::end_departures() noexcept {
  for (Departure& departure : departures) end_pins(departure);
  departures.clear();
}

/// Ends what has no store behind it. Order is not worth more than pages that others need: where
/// those are few that the pool could give, it gets them all.
void CacheManager::State::poll_departures() noexcept {
  int64_t idle = 0;
  for (Departure& departure : departures) {
    while (!departure.pages.empty() && !is_storing(departure.pages.back().page)) {
      static_cast<void>(pool.end_io(departure.pages.back().pin));
      departure.pages.pop_back();
    }
    if (!departure.pages.empty()) idle += departure.idle;
  }
  departures.remove_if([](const Departure& departure) { return departure.pages.empty(); });
  if (departures.empty()) return;
  const PoolStats stats = pool.stats();
  if (idle > stats.free_pages + stats.cached_pages - stats.pinned_pages) end_departures();
}

}  // namespace folio::inline v1::tier
