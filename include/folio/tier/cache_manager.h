// SPDX-License-Identifier: Apache-2.0
/// folio/tier/cache_manager.h: a pool, and the tiers below it: admits find pages there, too.
///
/// Loads. A load is a reserve that is committed later. `admit` finds what memory has, asks the
/// tiers for the names of the full pages behind it (leading ones may come from one tier and those
/// behind from another), reserves room and loads. `poll`, once a step, commits the tokens of pages
/// that have come, first to last; until then nothing can find them. A page that does not come, is
/// damaged or is late ends the load before it: the room behind is given back (a tier may still
/// write to its pages, which pins hold), and the engine reserves anew and computes the rest. Where
/// memory's hit ends within a page that a tier has in full, the tier's page takes its place.
///
/// Names are the pool's, of what a sequence has at the moment. Nothing is committed, or stored
/// under a name, unless the pool says that the row holds it: a load whose sequence has given up its
/// room by the pool itself (`trim`, `preempt`, `release`, `keep_path`) is cut short, and the row
/// left as it is (docs/tiers.md).
///
/// A page that a load brings is not loaded again for another sequence: that one waits, and gets the
/// same page (`poll` changes its row; while a step holds the sequence the page's bytes are copied
/// instead). It has room of its own meanwhile, and no layers are ready. What the first load loses,
/// or is cancelled before, the second one loses, too.
///
/// Stores. Full pages are held for a store (`PagePool::begin_io`) until it has ended: when they
/// become full, when they have been found often enough, or when a sequence gives them up. What the
/// tier's queue has no room for waits, within a budget of bytes; what is beyond that is not stored,
/// and counted. With StorePolicy::at_eviction pages go down when the pool evicts them: a spare page
/// is given away in their place, so that nothing is copied and nobody waits (see `spare_pages`).
///
/// Pages that are still being stored when their sequence ends are cached, tail first as all others,
/// when the stores of those behind them have ended; with them the full pages before, a pin more for
/// each. Where the pool could give fewer pages than wait for that alone, they wait no longer.
///
/// The bytes of a page are those of layer 0, then of layer 1, and so on; of a layer K, V, the
/// scales of K and of V, then zero points that lie apart from their scales, of K and of V. Of
/// these, what lies among one another within a page is one, in the order of addresses. Who else
/// gives or takes pages of these names has to do the same, and read rows in the same way
/// (TierOptions::fingerprint).
///
/// Groups. In a pool of several groups a hit needs a page of each: `admit` finds the longest length
/// that all groups can serve from memory and tiers together, and a load is whole: `poll` commits it
/// when all its pages have come. Where one does not, the load becomes a shorter one, of the next
/// length that all groups can still serve, which may load more; it ends as cut_short then. Behind a
/// hit in memory a load takes a second sequence of the pool until it ends.
///
/// No call waits for a tier. What a tier does wrong is a miss, counted with its reason. A tier of
/// which several loads in a row fail is neither asked nor loaded from for a while, which doubles:
/// its loads *rest*. So do stores, by themselves: what cannot be written is read all the while.
///
/// Memory:        pool, tiers, the planes' memory and the name function outlive the manager, and
///                stay where they are. It is the only one to poll the tiers.
/// Thread safety: one thread calls, the one that calls the pool.
/// Errors:        a manager that was moved from refuses calls as invalid_argument, and has no
///                figures. Ids that are stale or of another pool are invalid_argument, as the
///                pool's calls say.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "folio/cache/planes.h"
#include "folio/pool/page_pool.h"
#include "folio/tier/tier.h"

namespace folio::inline v1::tier {

/// When full pages are stored.
enum class StorePolicy : uint8_t {
  none = 0,
  write_through = 1,  ///< when they become full, or have been found `min_hits` times
  write_back = 2,     ///< when a sequence that has them is released or preempted
  /// when the pool evicts them, as far as CacheManagerOptions::spare_pages go
  at_eviction = 3,
};

struct TierOfCache {
  Tier* tier = nullptr;
  StorePolicy policy = StorePolicy::write_back;
  /// times that `admit` must have found a page in memory, or a tier below it, before it is stored
  int32_t min_hits = 0;
  /// pages that come from a tier behind this one are stored here, whatever `policy` says
  bool promotes = false;
  /// of pages that wait to be stored or are being stored: so much of the pool is held for that
  int64_t max_store_bytes = int64_t{256} << 20;
  /// Loads in a row that fail or are late, or stores in a row, >= 1; then there are no more of them
  /// for a while, but still of the others
  int32_t faults_to_rest = 4;
  int64_t first_rest_ms = 100;       ///< doubles each time, until one of them succeeds; >= 1
  int64_t longest_rest_ms = 60'000;  ///< >= first_rest_ms
};

/// Microseconds that do not go back.
struct ManagerClock {
  int64_t (*now_us)(void* context) noexcept = nullptr;  ///< null: the system's steady clock
  void* context = nullptr;
};

/// The bytes of a layer's state in page p of its group: `bytes` from data + p * page_stride_bytes.
struct StatePages {
  std::byte* data = nullptr;
  int64_t page_stride_bytes = 0;
  int64_t bytes = 0;  ///< >= 1
};

/// The layers of a group of the pool (folio/pool/groups.h), in the model's order.
struct GroupOfCache {
  std::span<const KVPlanes> planes = {};    ///< of layers with attention, each in bytes of its own
  std::span<const StatePages> states = {};  ///< or of layers with a state
  /// Their numbers in the model, of which each is in one group: 0, 1, ... in all
  std::span<const int32_t> layers = {};
  /// Of windows and chunks, tokens: a multiple of the pool's page_size. What a hit of a multiple of
  /// so many tokens needs is stored as what a likely hit needs is, so that a prompt that branches
  /// anywhere finds below at least the last such multiple; with page_size every page. 0: only what
  /// likely hits need. With StorePolicy::at_eviction it changes nothing: the pool does not tell of
  /// pages that windows have left
  int32_t hit_interval = 0;
};

struct CacheManagerOptions {
  PagePool* pool = nullptr;  ///< with prefix_reuse, names and max_io_pins
  NameFunction name = {};    ///< the pool's, or none: the pool gives all names
  /// of all layers; where its pages are, each in bytes of its own
  std::span<const KVPlanes> planes = {};
  /// of a pool of several groups, whose names have NameFunction::companion: in its order, and
  /// instead of `planes`. A leading group of 0 bytes has neither planes nor layers. Copied
  std::span<const GroupOfCache> groups = {};
  std::span<const TierOfCache> tiers = {};  ///< the fastest first, none twice; copied
  int64_t load_deadline_ms = 1000;          ///< 0: none, 2^40 at most
  int64_t store_deadline_ms = 60'000;       ///< the same: then it is given up
  int32_t min_load_pages = 1;  ///< >= 1; fewer are computed: a load is not worth its while
  /// `extents`: layer by layer (`CacheManager::layers_ready`), where the tier can
  LoadOrder load_order = LoadOrder::extents;
  /// With StorePolicy::at_eviction, >= 1: pages of each group, each with one of max_io_pins, that
  /// nobody else uses. One is given away instead of a page that is evicted, and takes its place
  /// until the page has been stored. Nothing is copied, and the pool does not wait; only a page
  /// that goes with its slab to another group is copied to one.
  int32_t spare_pages = 0;
  int64_t close_wait_ms = 5000;  ///< of the destructor, for tiers that do not answer
  ManagerClock clock = {};       ///< for deadlines, rests and latencies
  /// In whose memory the planes lie, as `TierOptions::device` of all tiers; null: in the host's.
  std::shared_ptr<DeviceCopies> device = nullptr;
};

struct TieredAdmission {
  SequenceId id;
  int32_t cached_tokens = 0;   ///< in memory: the sequence's length
  int32_t loading_tokens = 0;  ///< behind these, on their way
};

/// Of a sequence's load.
enum class LoadState : uint8_t { none = 0, loading = 1, loaded = 2, cut_short = 3 };

/// Of all tiers.
struct CacheManagerFigures {
  int64_t asked_pages = 0, found_pages = 0;  ///< looked for in tiers; loaded if there is room
  int64_t loaded_pages = 0, lost_pages = 0;  ///< that were found, and came or did not
  int64_t shared_pages = 0;                  ///< of those that came: by the load of another
  int64_t changed_pages =
      0;  ///< of lost ones: their sequence gave up their room by the pool itself
  int64_t stored_pages = 0, unstored_pages = 0;  ///< handed to a tier, or not stored
  int64_t loads = 0, stores = 0;                 ///< calls of tiers under way; stores that wait
};

/// Why pages that a tier has are not loaded, or a tier is not asked.
enum class LoadRefusal : uint8_t {
  resting = 0,    ///< loads have failed, and there are none for a while: pages not asked for
  few_pages = 1,  ///< fewer than CacheManagerOptions::min_load_pages
  no_room = 2,    ///< the pool has no page for them
  no_pin = 3,     ///< PoolOptions::max_io_pins transfers are under way
  busy = 4,       ///< the tier's queue is full
  failed = 5,     ///< the tier refused the call for another reason
};
inline constexpr int num_load_refusals = 6;
FOLIO_EXPORT const char* name(LoadRefusal refusal) noexcept;

/// Why full pages are not stored.
enum class StoreRefusal : uint8_t {
  resting = 0,    ///< stores have failed, and there are none for a while
  budget = 1,     ///< TierOfCache::max_store_bytes are waiting or under way
  no_pin = 2,     ///< PoolOptions::max_io_pins transfers are under way
  failed = 3,     ///< the tier refused the call
  given_up = 4,   ///< CacheManager::give_up_stores, or its end
  no_memory = 5,  ///< of the manager's own
  no_spare = 6,   ///< evicted while all spare pages were being stored
};
inline constexpr int num_store_refusals = 7;
FOLIO_EXPORT const char* name(StoreRefusal refusal) noexcept;

/// Why a tier's loads, or its stores, rest.
enum class RestReason : uint8_t {
  failed = 0,   ///< pages ended as failed; `Tier::last_fault` may say how
  late = 1,     ///< a deadline passed
  refused = 2,  ///< the tier took no call
};
inline constexpr int num_rest_reasons = 3;
FOLIO_EXPORT const char* name(RestReason reason) noexcept;

/// Of a tier's loads, or of its stores.
struct TierRests {
  int64_t begun[num_rest_reasons] = {};  ///< by the reason of the fault that was one too many
  RestReason last_reason = RestReason::failed;  ///< of the last one that has begun, if any has
  bool is_resting = false;                      ///< now
  bool operator==(const TierRests&) const = default;
};

/// Counts of times. Bucket b has those of at most bound_us(b) microseconds that no bucket before it
/// has; the last one has no bound.
struct LatencyHistogram {
  static constexpr int num_buckets = 22;
  [[nodiscard]] static constexpr int64_t bound_us(int bucket) noexcept {
    if (bucket < 0) return 0;
    if (bucket >= num_buckets - 1) return std::numeric_limits<int64_t>::max();
    return int64_t{8} << bucket;  // 8 us .. 8.4 s in buckets 0 .. 20
  }
  int64_t counts[num_buckets] = {};
  int64_t count = 0;   ///< of all buckets
  int64_t sum_us = 0;  ///< of all times
  bool operator==(const LatencyHistogram&) const = default;
};

/// What a manager has had of one tier, since it was made. Pages unless the name says otherwise.
struct TierCounters {
  int64_t looked_up_pages =
      0;                    ///< names that the tier was asked for, as far as it had them and one
  int64_t found_pages = 0;  ///< of these, there
  int64_t loaded_pages = 0, loaded_tokens = 0, loaded_bytes = 0;  ///< committed
  int64_t lost_pages = 0;  ///< whose load began, and that are computed: see `load_outcomes`
  int64_t load_outcomes[num_tier_outcomes] = {};  ///< of pages whose load began, by TierOutcome
  int64_t not_loaded[num_load_refusals] = {};     ///< by LoadRefusal
  int64_t stored_pages = 0, stored_tokens = 0, stored_bytes = 0;  ///< that ended as done
  int64_t promoted_pages = 0;                      ///< handed over as they came from a slower tier
  int64_t store_outcomes[num_tier_outcomes] = {};  ///< of pages that were handed over
  int64_t not_stored[num_store_refusals] = {};     ///< by StoreRefusal
  TierRests load_rests, store_rests;
  // Now
  int64_t loading_pages = 0;
  int64_t waiting_pages = 0;  ///< to be handed over, for the tier's queue is full
  int64_t storing_pages = 0;  ///< handed over
  int64_t store_bytes = 0;    ///< of these two
  // From the call to the end of its last page
  LatencyHistogram load_latency, store_latency;
  bool operator==(const TierCounters&) const = default;
};

class FOLIO_EXPORT CacheManager {
 public:
  /// Errors: invalid_argument, naming the option
  [[nodiscard]] static Result<CacheManager> create(const CacheManagerOptions& options) noexcept;
  CacheManager(CacheManager&& other) noexcept;
  CacheManager& operator=(CacheManager&& other) noexcept;  ///< `other` gets what this one had
  /// Cancels what is under way and waits for its end, `close_wait_ms` at most. Pages of transfers
  /// that have not ended then stay held in the pool for good, as the tier may touch them still: the
  /// planes' memory must outlive such a tier.
  ~CacheManager();

  /// As PagePool::admit. While pages are on their way the sequence has room for them; room for more
  /// may be reserved (`loading_tokens` and those behind), and a step begin whose layers wait for
  /// `layers_ready`. `commit` is busy until then. A load that cannot begin is none, and counted.
  [[nodiscard]] Result<TieredAdmission> admit(std::span<const TokenId> prompt,
                                              const SequenceOptions& options = {}) noexcept;
  /// A hint that such a prompt will come: what only tiers have is loaded into pages of the pool
  /// which are cached when they have come, so that `admit` finds them. Takes a sequence and pages
  /// of the pool meanwhile, and evicts for them as `admit` does. Returns the tokens on their way: 0
  /// where no tier has more than memory. Errors: as admit's
  [[nodiscard]] Result<int32_t> prefetch(std::span<const TokenId> prompt,
                                         const SequenceOptions& options = {}) noexcept;
  /// As PagePool::resume, and looks below as `admit` does, whoever has made the sequence.
  [[nodiscard]] Result<TieredAdmission> resume(SequenceId id,
                                               std::span<const TokenId> tokens) noexcept;
  /// Commits what has come, ends what is over or late, and hands over stores that wait.
  /// O(transfers that have ended + loads + calls under way); with groups, pages of loads
  void poll() noexcept;
  [[nodiscard]] LoadState load_state(SequenceId id) const noexcept;
  /// Leading layers whose K/V are in memory for all tokens of the sequence's load, checked or not:
  /// all once it is loaded, 0 where it is cut short, is none or has not begun to come. Advice: work
  /// that began early is void, and to be done again, where the load is cut short.
  [[nodiscard]] int32_t layers_ready(SequenceId id) const noexcept;
  /// The engine computes what has not come yet.
  [[nodiscard]] Status cancel_load(SequenceId id) noexcept;

  /// As the pool's, and pages are stored as policies say. Errors: busy while the sequence's load is
  /// under way
  [[nodiscard]] Status commit(SequenceId id, std::span<const TokenId> written,
                              Merge merge = Merge::refused) noexcept;
  [[nodiscard]] Status preempt(SequenceId id) noexcept;
  [[nodiscard]] Status release(SequenceId id) noexcept;
  /// Pages that wait to be stored are not, and the pool may use them, and those that wait for their
  /// order: for an engine that is short of pages. Returns how many were to be stored.
  int64_t give_up_stores() noexcept;

  [[nodiscard]] CacheManagerFigures figures() const noexcept;
  /// Errors: invalid_argument for an index of no tier
  [[nodiscard]] Result<TierCounters> counters(size_t tier) const noexcept;

 private:
  struct State;
  explicit CacheManager(State* state) noexcept : state_(state) {}
  State* state_ = nullptr;
};

}  // namespace folio::inline v1::tier

namespace folio::inline v1 {  // flat names, for one release
using tier::CacheManager;
using tier::CacheManagerFigures;
using tier::CacheManagerOptions;
using tier::LatencyHistogram;
using tier::LoadRefusal;
using tier::LoadState;
using tier::ManagerClock;
using tier::name;
using tier::num_load_refusals;
using tier::num_rest_reasons;
using tier::num_store_refusals;
using tier::RestReason;
using tier::StorePolicy;
using tier::StoreRefusal;
using tier::TierCounters;
using tier::TieredAdmission;
using tier::TierOfCache;
using tier::TierRests;
}  // namespace folio::inline v1
