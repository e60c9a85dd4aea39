// SPDX-License-Identifier: Apache-2.0
/// tier/manager/calls.cpp: how calls of tiers end.
#include <algorithm>
#include <chrono>
#include <thread>

#include "tier/manager/state.h"

namespace folio::inline v1::tier {

using tier::Call;
using tier::CallId;
using tier::Load;
using Clock = std::chrono::steady_clock;

int64_t CacheManager::State::now_us() const noexcept {
  // so that no sum of a time and a deadline is beyond 64 bits
  constexpr int64_t latest_us = int64_t{1} << 62;
  if (options.clock.now_us != nullptr)
    return std::clamp<int64_t>(options.clock.now_us(options.clock.context), 0, latest_us);
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch())
      .count();
}

/// A call counts once, as a load or a store: as a fault, if it has failed or is late and nothing of
/// it has come.
void CacheManager::State::judge(size_t t, Call& call, std::optional<RestReason> fault) noexcept {
  if (call.is_judged) return;
  call.is_judged = true;
  if (!fault) return;
  tier::Below& below = tiers[t];
  const bool is_load = call.load != nullptr;
  if (!(is_load ? below.loads : below.stores).fail(now_us())) return;
  TierRests& rests = is_load ? below.counters.load_rests : below.counters.store_rests;
  ++rests.begun[static_cast<size_t>(*fault)];
  rests.last_reason = *fault;
}

/// Tickets that we do not know are of whoever used the tier before.
void CacheManager::State::end_page(const CallId& id, const TierCompletion& c) noexcept {
  const auto at = calls.find(id);
  if (at == calls.end() || c.page >= at->second.count) return;
  if (static_cast<int>(c.outcome) >= num_tier_outcomes) return;
  Call& call = at->second;
  Load* const load = call.load;
  if (load != nullptr) {
    const size_t page = call.first + c.page;
    if (load->pages[page].has_ended) return;
    end_loaded(*load, page, c.outcome);
  } else {
    end_stored(id.tier, call.store, c.outcome);
  }
  call.has_come |= c.outcome == TierOutcome::done;
  if (c.outcome == TierOutcome::failed) call.fault = RestReason::failed;
  if (c.outcome == TierOutcome::late) call.fault = RestReason::late;
  if (--call.open != 0) return;
  tier::Below& below = tiers[id.tier];
  if (call.has_come) {
    (load != nullptr ? below.loads : below.stores).succeed();
    call.fault.reset();
  }
  judge(id.tier, call, call.fault);
  TierCounters& counters = below.counters;
  tier::add(load != nullptr ? counters.load_latency : counters.store_latency,
            now_us() - call.began_us);
  if (load != nullptr) --figures.loads;
  calls.erase(at);
}

void CacheManager::State::poll_tier(size_t t) noexcept {
  TierCompletion some[64];
  for (size_t count = std::size(some); count == std::size(some);) {
    count = std::min(tiers[t].of.tier->poll(some), std::size(some));
    for (const TierCompletion& c : std::span(some).first(count)) end_page({t, c.ticket.value}, c);
  }
}

void CacheManager::State::poll() noexcept {
  if (tiers.empty()) return;
  for (size_t t = 0; t < tiers.size(); ++t) poll_tier(t);
  if (!evicted.empty()) store_evicted();
  if (loads.empty() && figures.stores == 0 && departures.empty()) return;
  for (Load& load : loads) commit_what_came(load);
  const int64_t now = now_us();
  end_late_loads(now);
  end_late_stores(now);
  loads.remove_if(
      [](const Load& load) { return load.open == 0 && load.state != LoadState::loading; });
  for (size_t t = 0; t < tiers.size(); ++t) hand_over_waiting(t);
  poll_departures();
}

void CacheManager::State::close() noexcept {
  for (Load& load : loads) end_now(load);  // which may commit, evict and promote
  give_up_evicted();
  for (size_t t = 0; t < tiers.size(); ++t)
    while (!tiers[t].waiting.empty()) drop_waiting(t, StoreRefusal::given_up);
  for (const auto& [id, call] : calls) tiers[id.tier].of.tier->cancel({id.ticket});
  const auto until = Clock::now() + std::chrono::milliseconds(options.close_wait_ms);
  while (!calls.empty() && Clock::now() < until) {
    for (size_t t = 0; t < tiers.size(); ++t) poll_tier(t);
    std::this_thread::yield();
  }
  end_departures();
  give_spares_back();
}

}  // namespace folio::inline v1::tier
