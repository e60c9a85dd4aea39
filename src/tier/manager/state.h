// SPDX-License-Identifier: Apache-2.0
/// tier/manager/state.h: what a manager has under way.
///
/// A *call* is one of a tier's, of several pages to load or of one to store. A *load* is a
/// sequence's: pages of one or more calls. Each page that a call may touch has a pin of its own,
/// from before the call to its end.
#pragma once

#include <compare>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "folio/tier/cache_manager.h"
#include "tier/device/host_blocks.h"
#include "tier/manager/back_off.h"
#include "tier/manager/page_runs.h"

namespace folio::inline v1::tier {
inline constexpr int64_t never_us = std::numeric_limits<int64_t>::max();

struct CallId {
  size_t tier = 0;
  uint64_t ticket = 0;
  auto operator<=>(const CallId&) const = default;
};

struct Load;

struct LoadingPage {
  PageName name;
  uint32_t page = 0;  ///< of the pool
  IoPin pin;          ///< to fill it: until it is committed, or given up and no tier writes to it
  size_t tier = 0;    ///< none of a shared one
  bool has_ended = false, has_come = false;
  bool is_shared = false;  ///< another load, a *leader*, brings it
  const Load* leader = nullptr;
};

struct Load {
  SequenceId id;
  int32_t first_page = 0;  ///< of the sequence
  std::vector<TokenId> tokens;
  std::vector<LoadingPage> pages;  ///< shared ones before all others
  std::vector<CallId> calls;
  std::vector<const Load*> leaders;  ///< that have not ended
  size_t committed = 0;
  size_t end = 0;   ///< pages behind have been lost
  size_t open = 0;  ///< pages of calls that have not ended
  int64_t deadline_us = never_us;
  LoadState state = LoadState::loading;
  bool is_prefetch = false;
};

struct Store {
  PageName name;
  std::optional<PageName> parent = {};
  IoPin pin;
  uint32_t page = 0;  ///< of the pool
  int64_t deadline_us = never_us;
  bool is_promotion = false;
};

struct Call {
  Load* load = nullptr;  ///< null: it is a store
  size_t first = 0;      ///< of its pages in the load
  size_t count = 1, open = 1;
  Store store = {};
  int64_t began_us = 0;
  bool has_come = false;  ///< some page
  std::optional<RestReason> fault = {};
  bool is_judged = false;  ///< it has counted, as a fault or not
};
using Calls = std::map<CallId, Call>;

/// Which of a pool's pages a tier has been seen to have, by itself: stored there or loaded from it.
/// A page that has got other content since is unknown.
class SeenPages {
 public:
  explicit SeenPages(size_t num_pages) : marks_(num_pages) {}
  void add(uint32_t page, const PageName& name) noexcept {
    if (page < marks_.size()) marks_[page] = mark_of(name);
  }
  [[nodiscard]] bool have(uint32_t page, const PageName& name) const noexcept {
    return page < marks_.size() && marks_[page] == mark_of(name);
  }

 private:
  /// Two contents of equal marks, one after the other in one page: the second is not stored.
  static uint64_t mark_of(const PageName& name) noexcept {
    uint64_t words[4] = {};
    static_assert(sizeof words == sizeof name.bytes);
    std::memcpy(words, name.bytes.data(), sizeof words);
    uint64_t mark = 0;
    for (const uint64_t word : words) mark = (mark ^ word) * 0x9e3779b97f4a7c15U;
    return mark | 1;  // 0: nothing seen
  }
  std::vector<uint64_t> marks_;
};

/// A tier, and what goes to it.
struct Below {
  Below(const TierOfCache& given, size_t num_pages)
      : of(given),
        loads(given.faults_to_rest, given.first_rest_ms * 1000, given.longest_rest_ms * 1000),
        stores(loads),
        seen(given.policy == StorePolicy::none && !given.promotes ? 0 : num_pages) {}
  TierOfCache of;
  BackOff loads, stores;  ///< what cannot be written may be read, and the other way round
  TierCounters counters;
  SeenPages seen;
  std::deque<Store> waiting;
  std::set<PageName> storing;  ///< these, and what has been handed over
};

/// Pages of a sequence that has ended, those behind the last one with a store left out.
struct Departure {
  struct Held {
    IoPin pin;
    uint32_t page = 0;
  };
  std::vector<Held> pages;
  int64_t idle = 0;  ///< pages that no store held when it began
};

/// Leading pages of a prompt behind memory's, and the tiers that have them.
struct LoadPlan {
  struct Segment {
    size_t tier = 0, first = 0, count = 0;
    Load* leader = nullptr;  ///< brings them; then no tier does
  };
  std::vector<PageName> names;
  std::vector<Segment> segments;
  size_t found = 0;
};

void add(LatencyHistogram& histogram, int64_t us) noexcept;

struct CacheManager::State {
  State(const CacheManagerOptions& given, tier::PageRuns page_runs);

  CacheManagerOptions options;  ///< spans are empty
  PagePool& pool;
  tier::PageRuns runs;
  tier::HostBlocks blocks;
  std::vector<tier::Below> tiers;
  std::list<tier::Load> loads;
  tier::Calls calls;
  std::map<SequenceId, LoadState> states;  ///< of sequences that have had a load
  size_t next_sweep = 64;
  std::vector<uint32_t> hits;         ///< by page; empty where no tier asks
  std::vector<uint32_t> open_stores;  ///< by page; empty without tiers
  std::list<tier::Departure> departures;
  bool writes_through = false, writes_back = false;
  CacheManagerFigures figures;

  [[nodiscard]] size_t page_size() const { return static_cast<size_t>(pool.page_size()); }
  [[nodiscard]] int64_t now_us() const noexcept;
  [[nodiscard]] static int64_t deadline(int64_t now_us, int64_t ms) {
    return ms == 0 ? tier::never_us : now_us + ms * 1000;
  }
  /// `page_of` of a sequence's row, or a page that no pool has.
  [[nodiscard]] uint32_t page_at(SequenceId id, int32_t position) const noexcept;

  // look_below.cpp
  [[nodiscard]] bool add_names(SequenceId id, std::span<const TokenId> prompt, size_t first_page,
                               size_t count, std::vector<PageName>& names);
  [[nodiscard]] tier::LoadPlan::Segment ask(std::span<const PageName> names) noexcept;
  [[nodiscard]] tier::LoadPlan::Segment find_leader(std::span<const PageName> names,
                                                    size_t position) noexcept;
  [[nodiscard]] tier::LoadPlan look_below(SequenceId id, std::span<const TokenId> prompt,
                                          size_t first_page);

  // loads.cpp
  void refuse(const tier::LoadPlan& plan, LoadRefusal refusal) noexcept;
  [[nodiscard]] bool make_room(TieredAdmission& admission, size_t pages) noexcept;
  void give_room_back(const tier::Load& load) noexcept;
  /// Whether one has begun; `admission` says of how many tokens.
  bool start_load(TieredAdmission& admission, std::span<const TokenId> prompt, bool is_prefetch);
  [[nodiscard]] size_t hand_over(tier::Load& load, const tier::LoadPlan& plan,
                                 const tier::LoadPlan::Segment& segment) noexcept;
  size_t pin_pages(tier::Load& load, const tier::LoadPlan& plan,
                   const tier::LoadPlan::Segment& segment);
  void unpin_from(tier::Load& load, size_t first) noexcept;

  // load_ends.cpp
  [[nodiscard]] bool is_intact(const tier::Load& load) const noexcept;
  [[nodiscard]] bool agrees(const tier::Load& load, size_t end) noexcept;
  void end_if_changed(SequenceId id) noexcept;
  void end_loaded(tier::Load& load, size_t page, TierOutcome outcome) noexcept;
  [[nodiscard]] bool commit_pages(tier::Load& load, size_t end, Merge merge) noexcept;
  void commit_what_came(tier::Load& load) noexcept;
  [[nodiscard]] bool share_page(tier::Load& load, const tier::Load& leader) noexcept;
  [[nodiscard]] Status copy_on_device(std::span<const Extent> from,
                                      std::span<const Extent> to) noexcept;
  void tell_followers(const tier::Load& leader) noexcept;
  void leave_followers(const tier::Load& leader) noexcept;
  void finish(tier::Load& load, LoadState state) noexcept;
  void end_late_loads(int64_t now) noexcept;
  [[nodiscard]] int32_t layers_ready(const tier::Load& load) const noexcept;
  [[nodiscard]] tier::Load* load_of(SequenceId id) noexcept;
  void sweep_states() noexcept;

  // stores.cpp
  void count_hits(SequenceId id, int32_t cached_tokens) noexcept;
  [[nodiscard]] Status commit(SequenceId id, std::span<const TokenId> written, Merge merge);
  void store_pages(SequenceId id, StorePolicy policy, int32_t first) noexcept;
  void offer_all(size_t t, SequenceId id, int32_t first, std::span<const PageName> names);
  [[nodiscard]] size_t count_there(size_t t, SequenceId id, int32_t first,
                                   std::span<const PageName> names) noexcept;
  [[nodiscard]] std::optional<PageName> parent_of(SequenceId id, int32_t position) noexcept;
  void offer(size_t t, SequenceId id, int32_t position, const PageName& name, bool is_promotion);
  void promote(const tier::Load& load, size_t page) noexcept;
  void refuse(size_t t, StoreRefusal refusal, int64_t pages = 1) noexcept;
  void drop_waiting(size_t t, StoreRefusal refusal) noexcept;
  void hand_over_waiting(size_t t) noexcept;
  [[nodiscard]] bool hand_over_first(size_t t);
  void end_stored(size_t t, const tier::Store& store, TierOutcome outcome) noexcept;
  void end_late_stores(int64_t now) noexcept;

  // departures.cpp
  [[nodiscard]] bool is_storing(uint32_t page) const noexcept {
    return page < open_stores.size() && open_stores[page] != 0;
  }
  void depart(SequenceId id) noexcept;
  void end_pins(tier::Departure& departure) noexcept;
  void end_departures() noexcept;
  void poll_departures() noexcept;

  // calls.cpp
  void poll() noexcept;
  void poll_tier(size_t t) noexcept;
  void end_page(const tier::CallId& id, const TierCompletion& completion) noexcept;
  void judge(size_t t, tier::Call& call, std::optional<RestReason> fault) noexcept;
  void close() noexcept;
};

}  // namespace folio::inline v1::tier
