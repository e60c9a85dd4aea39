// SPDX-License-Identifier: Apache-2.0
#include "folio/tier/cache_manager.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <new>
#include <utility>
#include <vector>

namespace folio::inline v1 {
namespace {

using Clock = std::chrono::steady_clock;

/// A page's way through a call of a tier.
struct Way {
  IoPin pin;
  bool ended = false, came = false;
};

struct Call {
  std::vector<Way> pages;
  size_t open = 0;  ///< pages that have not ended
};

struct Load : Call {
  SequenceId id;
  std::vector<TokenId> tokens;
  size_t committed = 0;  ///< pages
  Clock::time_point deadline = Clock::time_point::max();
  LoadState state = LoadState::loading;
};

/// Page of a tier's call: {tier, ticket}.
using CallId = std::pair<size_t, uint64_t>;

}  // namespace

struct CacheManager::State {
  CacheManagerOptions options;
  std::vector<TierOfCache> tiers;
  std::vector<KVPlanes> planes;
  PagePool& pool;
  std::map<CallId, Load> loads;
  std::map<CallId, Call> stores;
  std::map<SequenceId, LoadState> states;  ///< of sequences that had a load
  CacheManagerFigures figures;

  explicit State(const CacheManagerOptions& given)
      : options(given),
        tiers(given.tiers.begin(), given.tiers.end()),
        planes(given.planes.begin(), given.planes.end()),
        pool(*given.pool) {}

  [[nodiscard]] size_t page_size() const { return static_cast<size_t>(pool.page_size()); }
  [[nodiscard]] uint32_t page_at(SequenceId id, int32_t position) const {
    return pool.table().entries[pool.row_start(id).value() + position];
  }

  // Loads.
  [[nodiscard]] std::vector<PageName> names_behind(SequenceId id, std::span<const TokenId> prompt,
                                                   const SequenceOptions& sequence,
                                                   size_t cached_pages);
  [[nodiscard]] int32_t start_load(SequenceId id, std::span<const TokenId> prompt,
                                   const SequenceOptions& sequence, int32_t cached_tokens);
  [[nodiscard]] bool hand_over(size_t tier, SequenceId id, std::span<const PageName> names,
                               std::span<const TokenId> tokens, int32_t first_page);
  void commit_what_came(Load& load);
  void cut_short(const CallId& call, Load& load);
  void end_late();

  // Stores.
  void store(SequenceId id, StorePolicy policy, int32_t first_page);
  void store_in(size_t tier, SequenceId id, int32_t first_page);

  void poll_tier(size_t tier);
  void end_page(const CallId& call, uint32_t page, TierOutcome outcome);
  [[nodiscard]] bool pin(SequenceId id, int32_t first_page, size_t count, std::vector<Way>& ways);
  void unpin(std::vector<Way>& ways);
  /// The extents of pages, which the tier's pages point into.
  struct Extents {
    std::vector<std::vector<Extent>> runs;
    std::vector<TierPage> pages;
  };
  [[nodiscard]] Extents extents_of(SequenceId id, int32_t first_page,
                                   std::span<const PageName> names) const;
};

// ---- Pages and their bytes

CacheManager::State::Extents CacheManager::State::extents_of(
    SequenceId id, int32_t first_page, std::span<const PageName> names) const {
  Extents all;
  all.runs.reserve(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    const uint32_t page = page_at(id, first_page + static_cast<int32_t>(i));
    all.runs.push_back(page_extents(planes, page).value());
    all.pages.push_back({names[i], all.runs.back()});
  }
  return all;
}

bool CacheManager::State::pin(SequenceId id, int32_t first_page, size_t count,
                              std::vector<Way>& ways) {
  for (size_t i = 0; i < count; ++i) {
    const Result<IoPin> pin = pool.begin_io(id, first_page + static_cast<int32_t>(i));
    if (!pin) return false;
    ways.push_back({.pin = *pin});
  }
  return true;
}

void CacheManager::State::unpin(std::vector<Way>& ways) {
  for (const Way& way : ways)
    if (!way.ended) static_cast<void>(pool.end_io(way.pin));
  ways.clear();
}

// ---- Loads

std::vector<PageName> CacheManager::State::names_behind(SequenceId id,
                                                        std::span<const TokenId> prompt,
                                                        const SequenceOptions& sequence,
                                                        size_t cached_pages) {
  std::vector<PageName> names;
  PageName parent;
  if (cached_pages != 0) {
    const Result<PageName> last = pool.name(id, static_cast<int32_t>(cached_pages) - 1);
    if (!last) return names;
    parent = *last;
  }
  std::vector<ContentSpan> spans;
  for (size_t p = cached_pages; (p + 1) * page_size() < prompt.size(); ++p) {
    const auto first = static_cast<int32_t>(p * page_size()), last = first + pool.page_size();
    spans.clear();
    for (const ContentSpan& span : sequence.spans)
      if (span.offset < last && span.offset + span.length > first)
        spans.push_back({span.offset - first, span.length, span.hash});
    PageName name;
    const PageContent content{.parent = p == 0 ? nullptr : &parent,
                              .tokens = prompt.subspan(p * page_size(), page_size()),
                              .spans = spans,
                              .salt = sequence.salt,
                              .adapter = sequence.adapter};
    if (!options.name.function(options.name.context, content, &name).is_ok()) break;
    names.push_back(name);
    parent = name;
  }
  return names;
}

int32_t CacheManager::State::start_load(SequenceId id, std::span<const TokenId> prompt,
                                        const SequenceOptions& sequence, int32_t cached_tokens) {
  if (cached_tokens % pool.page_size() != 0) return 0;  // a copy fills the page's beginning
  const size_t cached_pages = static_cast<size_t>(cached_tokens) / page_size();
  const std::vector<PageName> names = names_behind(id, prompt, sequence, cached_pages);
  if (names.empty()) return 0;
  size_t best = 0;
  int32_t most = 0;
  for (size_t t = 0; t < tiers.size(); ++t)
    if (const int32_t found = tiers[t].tier->find(names); found > most) best = t, most = found;
  figures.asked_pages += std::ssize(names);
  figures.found_pages += most;
  if (most < std::max(options.min_load_pages, 1)) return 0;
  const int32_t tokens = most * pool.page_size();
  if (!pool.reserve(id, tokens).is_ok()) return 0;
  const auto count = static_cast<size_t>(most);
  if (hand_over(best, id, std::span(names).first(count),
                prompt.subspan(static_cast<size_t>(cached_tokens), static_cast<size_t>(tokens)),
                static_cast<int32_t>(cached_pages)))
    return tokens;
  static_cast<void>(pool.trim(id, cached_tokens));
  figures.lost_pages += most;
  return 0;
}

bool CacheManager::State::hand_over(size_t tier, SequenceId id, std::span<const PageName> names,
                                    std::span<const TokenId> tokens, int32_t first_page) {
  Load load;
  load.id = id;
  load.tokens.assign(tokens.begin(), tokens.end());
  load.open = names.size();
  if (options.load_deadline_ms != 0)
    load.deadline = Clock::now() + std::chrono::milliseconds(options.load_deadline_ms);
  const Extents extents = extents_of(id, first_page, names);
  const bool pinned = pin(id, first_page, names.size(), load.pages);
  const Result<TierTicket> ticket =
      pinned ? tiers[tier].tier->load(extents.pages, options.load_deadline_ms)
             : Result<TierTicket>(fail(Errc::busy, "CacheManager: no pin is left"));
  if (!ticket) {
    unpin(load.pages);
    return false;
  }
  states[id] = LoadState::loading;
  loads.emplace(CallId{tier, ticket->value}, std::move(load));
  return true;
}

void CacheManager::State::commit_what_came(Load& load) {
  if (load.state != LoadState::loading) return;
  size_t came = load.committed;
  while (came < load.pages.size() && load.pages[came].came) ++came;
  const auto tokens =
      std::span(load.tokens)
          .subspan(load.committed * page_size(), (came - load.committed) * page_size());
  if (!tokens.empty() && !pool.commit(load.id, tokens).is_ok()) load.state = LoadState::cut_short;
  figures.loaded_pages += static_cast<int64_t>(came - load.committed);
  load.committed = came;
  if (came == load.pages.size()) load.state = LoadState::loaded;
  states[load.id] = load.state;
}

/// What has not come by now is computed: the room for it is given back, and what the tier still
/// writes to is held by pins.
void CacheManager::State::cut_short(const CallId& call, Load& load) {
  if (load.state != LoadState::loading) return;
  load.state = LoadState::cut_short;
  states[load.id] = LoadState::cut_short;
  figures.lost_pages += static_cast<int64_t>(load.pages.size() - load.committed);
  if (const Result<int32_t> length = pool.length(load.id); length)
    static_cast<void>(pool.trim(load.id, *length));
  tiers[call.first].tier->cancel({call.second});
}

void CacheManager::State::end_late() {
  const Clock::time_point now = Clock::now();
  for (auto& [call, load] : loads)
    if (load.deadline <= now) cut_short(call, load);
}

// ---- Stores

void CacheManager::State::store(SequenceId id, StorePolicy policy, int32_t first_page) {
  for (size_t t = 0; t < tiers.size(); ++t)
    if (tiers[t].policy == policy) store_in(t, id, first_page);
}

void CacheManager::State::store_in(size_t tier, SequenceId id, int32_t first_page) {
  const Result<int32_t> length = pool.length(id);
  if (!length) return;
  for (int32_t p = first_page; p < *length / pool.page_size(); ++p) {
    const Result<PageName> name = pool.name(id, p);
    if (!name) return;
    if (tiers[tier].tier->find({&*name, 1}) == 1) continue;
    Call call;
    call.open = 1;
    const Extents extents = extents_of(id, p, {&*name, 1});
    if (pin(id, p, 1, call.pages)) {
      if (const Result<TierTicket> ticket = tiers[tier].tier->store(extents.pages); ticket) {
        stores.emplace(CallId{tier, ticket->value}, std::move(call));
        ++figures.stored_pages;
        continue;
      }
    }
    unpin(call.pages);
    ++figures.unstored_pages;
  }
}

// ---- Ends

void CacheManager::State::end_page(const CallId& id, uint32_t page, TierOutcome outcome) {
  const auto load = loads.find(id);
  const auto stored = stores.find(id);
  Call& call = load != loads.end() ? load->second : stored->second;
  Way& way = call.pages[page];
  way.ended = true;
  way.came = outcome == TierOutcome::done;
  static_cast<void>(pool.end_io(way.pin));
  --call.open;
  if (load != loads.end()) {
    if (!way.came) {
      commit_what_came(load->second);
      cut_short(id, load->second);
    }
    if (call.open == 0) {
      commit_what_came(load->second);
      loads.erase(load);
    }
  } else if (call.open == 0) {
    stores.erase(stored);
  }
}

void CacheManager::State::poll_tier(size_t tier) {
  TierCompletion some[64];
  for (size_t count = std::size(some); count == std::size(some);) {
    count = tiers[tier].tier->poll(some);
    for (const TierCompletion& c : std::span(some).first(count))
      end_page({tier, c.ticket.value}, c.page, c.outcome);
  }
}

// ---- Calls

namespace {

Status check(const CacheManagerOptions& o) {
  const auto refuse = [](const char* what, const char* expected) {
    return fail(Errc::invalid_argument, "CacheManager::create: {} is {}", what, expected);
  };
  if (o.pool == nullptr) return refuse("pool", "null, expected one");
  if (o.pool->num_groups() != 1) return refuse("pool", "one of several groups, expected one group");
  if (o.name.function == nullptr) return refuse("name.function", "null, expected the pool's");
  if (o.planes.empty() || o.planes.data() == nullptr)
    return refuse("planes", "empty, expected those of all layers");
  for (const TierOfCache& tier : o.tiers) {
    if (tier.tier == nullptr) return refuse("a tier", "null, expected one");
    if (tier.policy > StorePolicy::write_back) return refuse("a policy", "none of StorePolicy");
  }
  if (o.load_deadline_ms < 0 || o.load_deadline_ms > int64_t{1} << 40)
    return refuse("load_deadline_ms", "out of range, expected 0 .. 2^40");
  return {};
}

Status no_memory(const char* call) {
  return fail(Errc::out_of_memory, "CacheManager::{}: no memory", call);
}

}  // namespace

Result<CacheManager> CacheManager::create(const CacheManagerOptions& options) noexcept {
  if (Status s = check(options); !s.is_ok()) return s;
  try {
    return CacheManager(new State(options));
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
  for (auto& [call, load] : state_->loads) state_->tiers[call.first].tier->cancel({call.second});
  for (auto& [call, store] : state_->stores) state_->tiers[call.first].tier->cancel({call.second});
  while (!state_->loads.empty() || !state_->stores.empty()) poll();
  delete state_;
}

Result<TieredAdmission> CacheManager::admit(std::span<const TokenId> prompt,
                                            const SequenceOptions& options) noexcept {
  const Result<Admission> a = state_->pool.admit(prompt, options);
  if (!a) return a.error();
  TieredAdmission admission{.id = a->id, .cached_tokens = a->cached_tokens};
  try {
    admission.loading_tokens = state_->start_load(a->id, prompt, options, a->cached_tokens);
  } catch (const std::bad_alloc&) {
    static_cast<void>(state_->pool.release(a->id));
    return no_memory("admit");
  }
  return admission;
}

void CacheManager::poll() noexcept {
  for (size_t t = 0; t < state_->tiers.size(); ++t) state_->poll_tier(t);
  for (auto& [call, load] : state_->loads) state_->commit_what_came(load);
  state_->end_late();
}

LoadState CacheManager::load_state(SequenceId id) const noexcept {
  const auto at = state_->states.find(id);
  return at == state_->states.end() ? LoadState::none : at->second;
}

Status CacheManager::cancel_load(SequenceId id) noexcept {
  const Result<int32_t> length = state_->pool.length(id);
  if (!length) return length.error();
  for (auto& [call, load] : state_->loads)
    if (load.id == id) state_->cut_short(call, load);
  return {};
}

Status CacheManager::commit(SequenceId id, std::span<const TokenId> written, Merge merge) noexcept {
  if (load_state(id) == LoadState::loading)
    return fail(Errc::busy, "CacheManager::commit: the sequence's load is under way");
  const Result<int32_t> before = state_->pool.length(id);
  if (Status s = state_->pool.commit(id, written, merge); !s.is_ok()) return s;
  try {
    state_->store(id, StorePolicy::write_through, *before / state_->pool.page_size());
  } catch (const std::bad_alloc&) {
    ++state_->figures.unstored_pages;
  }
  return {};
}

Status CacheManager::release(SequenceId id) noexcept {
  if (Status s = cancel_load(id); !s.is_ok()) return s;
  try {
    state_->store(id, StorePolicy::write_back, 0);
  } catch (const std::bad_alloc&) {
    ++state_->figures.unstored_pages;
  }
  state_->states.erase(id);
  return state_->pool.release(id);
}

CacheManagerFigures CacheManager::figures() const noexcept {
  CacheManagerFigures figures = state_->figures;
  figures.loads = std::ssize(state_->loads);
  figures.stores = std::ssize(state_->stores);
  return figures;
}

}  // namespace folio::inline v1
