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
#include "tier/manager/group_pages.h"
#include "tier/manager/joint_plan.h"

namespace folio::inline v1::tier {
inline constexpr int64_t never_us = std::numeric_limits<int64_t>::max();

inline constexpr size_t no_tier = std::numeric_limits<size_t>::max();

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
  uint32_t group = 0;
  size_t position = 0;  ///< of the leading page with its tokens, or its last ones, in the load
  bool has_ended = false, has_come = false;
  bool is_given_up = false;  ///< the load needs it no more
  bool is_shared = false;    ///< another load, a *leader*, brings it
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

  // In a pool of several groups
  JointPlan plan = {};
  size_t target = 0;                    ///< leading pages that it will bring, of the plan
  std::optional<SequenceId> kept = {};  ///< holds what the sequence had before
  int32_t tries = 0;                    ///< how often it has become shorter
  /// While it waits for `leaders`, with no call of its own: the prompt as far as it is looked for.
  std::vector<TokenId> prompt = {};

  [[nodiscard]] bool is_joint() const noexcept { return plan.num_groups() != 0; }
};

/// A page that nobody uses, and instead of which one has been evicted; `open`: stores of that.
struct Spare {
  uint32_t group = 0;
  IoPin pin;
  PageName name = {};  ///< of the evicted page
  int32_t open = 0;
};
using Spares = std::list<Spare>;

struct Store {
  Spare* spare = nullptr;  ///< whose pin it is
  uint32_t group = 0;
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
  Below(const TierOfCache& given, std::span<const GroupPages> groups)
      : of(given),
        loads(given.faults_to_rest, given.first_rest_ms * 1000, given.longest_rest_ms * 1000),
        stores(loads) {
    const bool stores_some = given.policy != StorePolicy::none || given.promotes;
    for (const GroupPages& group : groups) seen.emplace_back(stores_some ? group.num_pages : 0);
  }
  TierOfCache of;
  BackOff loads, stores;  ///< what cannot be written may be read, and the other way round
  TierCounters counters;
  std::vector<SeenPages> seen;  ///< by group
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
  State(const CacheManagerOptions& given, std::vector<tier::GroupPages> group_pages);

  CacheManagerOptions options;  ///< spans are empty
  PagePool& pool;
  std::vector<tier::GroupPages> groups;  ///< the leading one first
  int32_t num_layers = 0;                ///< of the model
  tier::HostBlocks blocks;
  std::vector<tier::Below> tiers;
  std::list<tier::Load> loads;
  tier::Calls calls;
  std::map<SequenceId, LoadState> states;  ///< of sequences that have had a load
  size_t next_sweep = 64;
  std::vector<uint32_t> hits;         ///< by page; empty where no tier asks
  std::vector<uint32_t> open_stores;  ///< by page; empty without tiers
  std::list<tier::Departure> departures;
  bool writes_through = false, writes_back = false, stores_evicted = false;
  bool watches = false;                   ///< evictions of the pool
  std::vector<tier::Spares> idle_spares;  ///< by group
  tier::Spares evicted, storing;          ///< to be offered to tiers, and those that are
  CacheManagerFigures figures;

  /// Whether a hit needs pages of several groups.
  [[nodiscard]] bool is_joint() const { return groups.size() != 1; }
  [[nodiscard]] const tier::PageRuns& runs(uint32_t group = 0) const { return groups[group].runs; }
  /// Whether there is anything to store of a leading page.
  [[nodiscard]] bool has_bytes(uint32_t group) const { return runs(group).page_bytes() != 0; }
  [[nodiscard]] size_t page_size() const { return static_cast<size_t>(pool.page_size()); }
  [[nodiscard]] int64_t now_us() const noexcept;
  [[nodiscard]] static int64_t deadline(int64_t now_us, int64_t ms) {
    return ms == 0 ? tier::never_us : now_us + ms * 1000;
  }
  /// `page_of` of a sequence's row, or a page that no pool has.
  [[nodiscard]] uint32_t page_at(SequenceId id, int32_t position,
                                 uint32_t group = 0) const noexcept;

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

  // joint_loads.cpp: in a pool of several groups
  [[nodiscard]] bool look_below_jointly(SequenceId id, std::span<const TokenId> prompt,
                                        tier::JointPlan& plan);
  void find_companions(tier::JointPlan& plan);
  [[nodiscard]] tier::JointPlan plan_behind(int32_t first_page) const;
  [[nodiscard]] bool start_joint_load(TieredAdmission& admission, std::span<const TokenId> prompt,
                                      bool is_prefetch);
  [[nodiscard]] bool open_joint_load(TieredAdmission& admission, std::span<const TokenId> prompt,
                                     tier::Load& load);
  /// What is to be filled becomes pages of the load, and goes to its tiers. Returns how many do.
  size_t fill_from_tiers(tier::Load& load, std::span<const pool::GroupBits> fill);

  // joint_waits.cpp: loads of several groups that want the same pages
  /// Whether other loads bring all that this one would ask tiers for.
  [[nodiscard]] bool is_on_its_way(const tier::Load& planned) const;
  /// Whether others bring some of what is to be filled: the load waits then, with its room.
  [[nodiscard]] bool wait_for_leaders(tier::Load& load, std::span<const pool::GroupBits> fill,
                                      std::span<const TokenId> prompt);
  /// All that it has waited for have ended.
  void end_wait(tier::Load& load) noexcept;
  [[nodiscard]] bool begin_anew(tier::Load& load);
  void fill_after_wait(tier::Load& load);
  size_t hand_over_joint(tier::Load& load, size_t t, size_t first) noexcept;
  [[nodiscard]] int32_t entry_of(const tier::Load& load, uint32_t group,
                                 size_t position) const noexcept;

  // joint_load_ends.cpp
  [[nodiscard]] bool is_intact_jointly(const tier::Load& load) const noexcept;
  /// All its pages have ended, or are awaited no longer.
  void settle(tier::Load& load, bool is_late) noexcept;
  [[nodiscard]] bool shorten(tier::Load& load, bool is_late);
  [[nodiscard]] bool commit_joint_load(tier::Load& load) noexcept;
  void give_up_jointly(tier::Load& load) noexcept;
  void release_kept(tier::Load& load) noexcept;
  void give_back_jointly(tier::Load& load) noexcept;
  void finish_changed(tier::Load& load) noexcept;
  void finish_jointly(tier::Load& load, LoadState state, bool is_committed = false) noexcept;
  [[nodiscard]] int32_t joint_layers_ready(const tier::Load& load) const noexcept;

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
  void end_prefetch(tier::Load& load) noexcept;
  /// The load ends with what has come.
  void end_now(tier::Load& load) noexcept;
  void end_late_loads(int64_t now) noexcept;
  [[nodiscard]] int32_t layers_ready(const tier::Load& load) const noexcept;
  [[nodiscard]] tier::Load* load_of(SequenceId id) noexcept;
  void sweep_states() noexcept;

  // stores.cpp
  void count_hits(SequenceId id, int32_t cached_tokens) noexcept;
  void name_pages(SequenceId id) noexcept;
  [[nodiscard]] Status commit(SequenceId id, std::span<const TokenId> written, Merge merge);
  void store_pages(SequenceId id, StorePolicy policy, int32_t first) noexcept;
  void offer_all(size_t t, SequenceId id, int32_t first, std::span<const PageName> names);
  void offer_companions(size_t t, SequenceId id, int32_t first, std::span<const PageName> names);
  [[nodiscard]] bool is_wanted(size_t t, SequenceId id, int32_t position) const noexcept;
  [[nodiscard]] size_t count_there(size_t t, SequenceId id, int32_t first,
                                   std::span<const PageName> names) noexcept;
  [[nodiscard]] std::optional<PageName> parent_of(SequenceId id, int32_t position) noexcept;
  /// A full page of a sequence, or its companion.
  struct Offered {
    SequenceId id;
    int32_t position = 0;
    uint32_t group = 0;
    PageName name;
    bool is_promotion = false;
  };
  [[nodiscard]] Result<IoPin> pin(const Offered& page) noexcept;
  void offer(size_t t, const Offered& page);
  void promote(const tier::Load& load, size_t page) noexcept;
  void refuse(size_t t, StoreRefusal refusal, int64_t pages = 1) noexcept;
  void drop_waiting(size_t t, StoreRefusal refusal) noexcept;
  void hand_over_waiting(size_t t) noexcept;
  [[nodiscard]] bool hand_over_first(size_t t);
  void end_stored(size_t t, const tier::Store& store, TierOutcome outcome) noexcept;
  void end_late_stores(int64_t now) noexcept;

  /// The store holds its page no more.
  void let_go(const tier::Store& store) noexcept;

  // evictions.cpp
  [[nodiscard]] Status take_spares();
  void give_spares_back() noexcept;
  /// For a page that is evicted and that a tier wants and lacks; null where there is none.
  [[nodiscard]] tier::Spare* use_spare(uint32_t group, uint32_t page,
                                       const PageName& leading) noexcept;
  void copy_leaving(uint32_t group, uint32_t page, const PageName& leading) noexcept;
  [[nodiscard]] bool copy_page(uint32_t group, uint32_t from, uint32_t to) noexcept;
  void refuse_evicted(StoreRefusal refusal) noexcept;
  void store_evicted() noexcept;
  void offer_evicted(tier::Spare& spare);
  int64_t give_up_evicted() noexcept;
  void make_idle(tier::Spares& from, const tier::Spare* spare) noexcept;

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
