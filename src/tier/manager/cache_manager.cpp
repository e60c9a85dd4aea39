// SPDX-License-Identifier: Apache-2.0
/// tier/manager/cache_manager.cpp: the calls, and what they refuse.
#include "folio/tier/cache_manager.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "tier/checks.h"
#include "tier/manager/group_pages.h"
#include "tier/manager/state.h"

namespace folio::inline v1::tier {
namespace {

constexpr auto creating = "CacheManager::create";
constexpr int64_t most_ms = int64_t{1} << 40;

Status refuse(const char* what, const char* expected) {
  return fail(Errc::invalid_argument, "{}: {} is {}", creating, what, expected);
}

Status check_between(const char* what, int64_t is, int64_t first, int64_t last) {
  if (is >= first && is <= last) return {};
  return fail(Errc::invalid_argument, "{}: {} is {}, expected {} .. {}", creating, what, is, first,
              last);
}

Status check_tier(const TierOfCache& tier) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  if (tier.tier == nullptr) return refuse("a tier", "null, expected one");
  if (tier.policy > StorePolicy::at_eviction) return refuse("a policy", "none of StorePolicy");
  Status s = check_between("min_hits", tier.min_hits, 0, most);
  if (s.is_ok()) s = check_between("max_store_bytes", tier.max_store_bytes, 0, most);
  if (s.is_ok()) s = check_between("faults_to_rest", tier.faults_to_rest, 1, most);
  if (s.is_ok()) s = check_between("first_rest_ms", tier.first_rest_ms, 1, most_ms);
  if (s.is_ok())
    s = check_between("longest_rest_ms", tier.longest_rest_ms, tier.first_rest_ms, most_ms);
  return s;
}

Status check_tiers(std::span<const TierOfCache> tiers) {
  if (Status s = tier::check_memory(creating, "tiers", tiers.data(), tiers.size()); !s.is_ok())
    return s;
  for (size_t t = 0; t < tiers.size(); ++t) {
    if (Status s = check_tier(tiers[t]); !s.is_ok()) return s;
    for (size_t u = 0; u < t; ++u)
      if (tiers[u].tier == tiers[t].tier)
        return fail(Errc::invalid_argument, "{}: tiers {} and {} are the same, expected each once",
                    creating, u, t);
  }
  return {};
}

Status check(const CacheManagerOptions& o) {
  const bool is_given = o.name.function != nullptr || o.pool == nullptr;
  if (Status s = tier::check_named_pool(
          creating, o.pool, is_given ? o.name : o.pool->name_function(), tier::PoolGroups::any);
      !s.is_ok())
    return s;
  if (Status s = check_tiers(o.tiers); !s.is_ok()) return s;
  if (o.load_order > LoadOrder::extents)
    return refuse("load_order", "none of LoadOrder, expected pages or extents");
  if (o.clock.now_us == nullptr && o.clock.context != nullptr)
    return refuse("clock.now_us", "null, expected a function, as its context is not");
  const bool stores_evicted = std::ranges::any_of(
      o.tiers, [](const TierOfCache& t) { return t.policy == StorePolicy::at_eviction; });
  if (stores_evicted && o.spare_pages < 1)
    return fail(Errc::invalid_argument,
                "{}: spare_pages is {}, expected 1 or more for StorePolicy::at_eviction", creating,
                o.spare_pages);
  Status s = check_between("load_deadline_ms", o.load_deadline_ms, 0, most_ms);
  if (s.is_ok()) s = check_between("store_deadline_ms", o.store_deadline_ms, 0, most_ms);
  if (s.is_ok()) s = check_between("close_wait_ms", o.close_wait_ms, 0, most_ms);
  if (s.is_ok())
    s = check_between("min_load_pages", o.min_load_pages, 1, std::numeric_limits<int32_t>::max());
  return s;
}

Status no_memory(const char* call) {
  return fail(Errc::out_of_memory, "CacheManager::{}: no memory", call);
}

}  // namespace

// ---- Life

CacheManager::State::State(const CacheManagerOptions& given,
                           std::vector<tier::GroupPages> group_pages)
    : options(given), pool(*given.pool), groups(std::move(group_pages)), blocks(given.device) {
  options.planes = {};
  options.groups = {};
  options.tiers = {};
  for (const tier::GroupPages& group : groups) num_layers += group.runs.num_layers();
  bool counts_hits = false;
  for (const TierOfCache& tier : given.tiers) {
    tiers.emplace_back(tier, groups);
    writes_through |= tier.policy == StorePolicy::write_through;
    writes_back |= tier.policy == StorePolicy::write_back;
    counts_hits |= tier.min_hits != 0 && tier.policy != StorePolicy::none;
  }
  if (counts_hits) hits.resize(pool.num_pages());
  if (!tiers.empty()) open_stores.resize(pool.num_pages());
}

uint32_t CacheManager::State::page_at(SequenceId id, int32_t position,
                                      uint32_t group) const noexcept {
  const Result<int64_t> row = pool.row_start(id, group);
  return row ? pool.table(group).entries[*row + position] : std::numeric_limits<uint32_t>::max();
}

Result<CacheManager> CacheManager::create(const CacheManagerOptions& options) noexcept {
  if (Status s = check(options); !s.is_ok()) return s;
  try {
    Result<std::vector<tier::GroupPages>> groups = tier::make_groups(creating, options);
    if (!groups) return groups.error();
    CacheManager manager(new State(options, std::move(*groups)));
    if (Status s = manager.state_->take_spares(); !s.is_ok()) return s;
    return manager;
  } catch (const std::bad_alloc&) {
    return no_memory("create");
  }
}

CacheManager::CacheManager(CacheManager&& other) noexcept
    : state_(std::exchange(other.state_, nullptr)) {}

CacheManager& CacheManager::operator=(CacheManager&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

CacheManager::~CacheManager() {
  if (state_ == nullptr) return;
  state_->close();
  delete state_;
}

// ---- Loads

Result<TieredAdmission> CacheManager::admit(std::span<const TokenId> prompt,
                                            const SequenceOptions& options) noexcept {
  if (state_ == nullptr) return tier::moved_from("CacheManager::admit");
  const Result<Admission> a = state_->pool.admit(prompt, options);
  if (!a) return a.error();
  TieredAdmission admission{.id = a->id, .cached_tokens = a->cached_tokens};
  if (state_->tiers.empty()) return admission;
  state_->count_hits(a->id, a->cached_tokens);
  try {
    state_->start_load(admission, prompt, false);
  } catch (const std::bad_alloc&) {  // nothing has begun: the engine computes
  }
  return admission;
}

Result<TieredAdmission> CacheManager::resume(SequenceId id,
                                             std::span<const TokenId> tokens) noexcept {
  if (state_ == nullptr) return tier::moved_from("CacheManager::resume");
  state_->end_if_changed(id);
  const Result<Admission> a = state_->pool.resume(id, tokens);
  if (!a) return a.error();
  TieredAdmission admission{.id = id, .cached_tokens = a->cached_tokens};
  if (state_->tiers.empty()) return admission;
  state_->count_hits(id, a->cached_tokens);
  try {
    state_->start_load(admission, tokens, false);
  } catch (const std::bad_alloc&) {  // the same
  }
  return admission;
}

Result<int32_t> CacheManager::prefetch(std::span<const TokenId> prompt,
                                       const SequenceOptions& options) noexcept {
  if (state_ == nullptr) return tier::moved_from("CacheManager::prefetch");
  const Result<Admission> a = state_->pool.admit(prompt, options);
  if (!a) return a.error();
  TieredAdmission admission{.id = a->id, .cached_tokens = a->cached_tokens};
  bool has_begun = false;
  try {
    has_begun = state_->start_load(admission, prompt, true);
  } catch (const std::bad_alloc&) {
    static_cast<void>(state_->pool.release(a->id));
    return no_memory("prefetch");
  }
  if (!has_begun) static_cast<void>(state_->pool.release(a->id));
  return admission.loading_tokens;
}

void CacheManager::poll() noexcept {
  if (state_ != nullptr) state_->poll();
}

LoadState CacheManager::load_state(SequenceId id) const noexcept {
  if (state_ == nullptr || state_->states.empty()) return LoadState::none;
  const auto at = state_->states.find(id);
  return at == state_->states.end() ? LoadState::none : at->second;
}

int32_t CacheManager::layers_ready(SequenceId id) const noexcept {
  const LoadState load_state = this->load_state(id);
  if (load_state == LoadState::loaded) return state_->num_layers;
  if (load_state != LoadState::loading) return 0;
  const tier::Load* const load = state_->load_of(id);
  return load == nullptr ? 0 : state_->layers_ready(*load);
}

Status CacheManager::cancel_load(SequenceId id) noexcept {
  if (state_ == nullptr) return tier::moved_from("CacheManager::cancel_load");
  const Result<int32_t> length = state_->pool.length(id);
  if (!length) return length.error();
  if (tier::Load* const load = state_->load_of(id); load != nullptr) {
    state_->end_now(*load);
  }
  return {};
}

// ---- Stores

Status CacheManager::commit(SequenceId id, std::span<const TokenId> written, Merge merge) noexcept {
  if (state_ == nullptr) return tier::moved_from("CacheManager::commit");
  if (load_state(id) == LoadState::loading) state_->end_if_changed(id);
  if (load_state(id) == LoadState::loading)
    return fail(Errc::busy, "CacheManager::commit: the sequence's load is under way");
  if (!state_->writes_through && !state_->stores_evicted && state_->hits.empty())
    return state_->pool.commit(id, written, merge);
  try {
    return state_->commit(id, written, merge);
  } catch (const std::bad_alloc&) {
    return no_memory("commit");
  }
}

Status CacheManager::preempt(SequenceId id) noexcept {
  if (state_ == nullptr) return tier::moved_from("CacheManager::preempt");
  if (Status s = cancel_load(id); !s.is_ok()) return s;
  if (state_->writes_back) state_->store_pages(id, StorePolicy::write_back, 0);
  state_->depart(id);
  return state_->pool.preempt(id);
}

Status CacheManager::release(SequenceId id) noexcept {
  if (state_ == nullptr) return tier::moved_from("CacheManager::release");
  if (Status s = cancel_load(id); !s.is_ok()) return s;
  if (state_->writes_back) state_->store_pages(id, StorePolicy::write_back, 0);
  if (!state_->states.empty()) state_->states.erase(id);
  state_->depart(id);
  return state_->pool.release(id);
}

int64_t CacheManager::give_up_stores() noexcept {
  if (state_ == nullptr) return 0;
  int64_t pages = state_->give_up_evicted();
  for (size_t t = 0; t < state_->tiers.size(); ++t)
    for (; !state_->tiers[t].waiting.empty(); ++pages)
      state_->drop_waiting(t, StoreRefusal::given_up);
  state_->end_departures();
  return pages;
}

// ---- Figures

CacheManagerFigures CacheManager::figures() const noexcept {
  return state_ == nullptr ? CacheManagerFigures{} : state_->figures;
}

Result<TierCounters> CacheManager::counters(size_t t) const noexcept {
  if (state_ == nullptr) return tier::moved_from("CacheManager::counters");
  if (t >= state_->tiers.size())
    return fail(Errc::invalid_argument, "CacheManager::counters: tier is {}, expected 0 .. {}", t,
                static_cast<int64_t>(state_->tiers.size()) - 1);
  const tier::Below& below = state_->tiers[t];
  TierCounters counters = below.counters;
  const int64_t now = state_->now_us();
  counters.load_rests.is_resting = below.loads.is_resting(now);
  counters.store_rests.is_resting = below.stores.is_resting(now);
  return counters;
}

}  // namespace folio::inline v1::tier
