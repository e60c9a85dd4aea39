// SPDX-License-Identifier: Apache-2.0
/// folio/tier/cache_manager.h: a pool, and the tiers below it: admits find pages there, too.
///
/// A load is a reserve that is committed later. `admit` finds what memory has, asks the tiers for
/// the names of the full pages behind it, reserves room for those that are there and loads them.
/// `poll`, once a step, commits the tokens of pages that have come, first to last; until then
/// nothing can find them. A page that does not come, too late or damaged, ends the load before it:
/// the engine computes the rest. So no step waits for a tier, and what a
/// tier does wrong is a miss.
///
/// One thread calls; it is the one that calls the pool.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "folio/cache/planes.h"
#include "folio/pool/page_pool.h"
#include "folio/tier/tier.h"

namespace folio::inline v1 {

/// When full pages are stored.
enum class StorePolicy : uint8_t {
  none = 0,
  write_through = 1,  ///< when they become full
  write_back = 2,     ///< when a sequence that has them is released
};

struct TierOfCache {
  Tier* tier = nullptr;
  StorePolicy policy = StorePolicy::write_back;
};

struct CacheManagerOptions {
  PagePool* pool = nullptr;                 ///< with prefix_reuse, names and max_io_pins
  NameFunction name = {};                   ///< the pool's
  std::span<const KVPlanes> planes = {};    ///< of all layers; where its pages are
  std::span<const TierOfCache> tiers = {};  ///< the fastest first; copied
  int64_t load_deadline_ms = 1000;          ///< 0: none
  int32_t min_load_pages = 1;               ///< fewer are computed: a load is not worth its while
};

struct TieredAdmission {
  SequenceId id;
  int32_t cached_tokens = 0;   ///< in memory: the sequence's length
  int32_t loading_tokens = 0;  ///< behind these, on their way
};

/// Of a sequence's load.
enum class LoadState : uint8_t { none = 0, loading = 1, loaded = 2, cut_short = 3 };

struct CacheManagerFigures {
  int64_t asked_pages = 0, found_pages = 0;      ///< of tiers
  int64_t loaded_pages = 0, lost_pages = 0;      ///< that were found, and came or did not
  int64_t stored_pages = 0, unstored_pages = 0;  ///< handed to a tier, or refused by it
  int64_t loads = 0, stores = 0;                 ///< under way: calls of tiers
};

/// Why pages that a tier has are not loaded, or a tier is not asked.
enum class LoadRefusal : uint8_t {
  resting = 0,    ///< it has failed, and is left alone for a while: pages that it was not asked for
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
  resting = 0,    ///< as LoadRefusal's
  budget = 1,     ///< TierOfCache::max_store_bytes are waiting or under way
  no_pin = 2,     ///< PoolOptions::max_io_pins transfers are under way
  failed = 3,     ///< the tier refused the call
  given_up = 4,   ///< CacheManager::give_up_stores, or its end
  no_memory = 5,  ///< of the manager's own
};
inline constexpr int num_store_refusals = 6;
FOLIO_EXPORT const char* name(StoreRefusal refusal) noexcept;

/// Counts of times. Bucket b has those of at most bound_us(b) microseconds that no bucket before it
/// has, the last one all others.
struct LatencyHistogram {
  static constexpr int num_buckets = 22;
  [[nodiscard]] static constexpr int64_t bound_us(int bucket) noexcept {
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
  int64_t rests = 0;                               ///< times that it was left alone
  // Now
  int64_t loading_pages = 0;
  int64_t waiting_pages = 0;  ///< to be handed over, for the tier's queue is full
  int64_t storing_pages = 0;  ///< handed over
  int64_t store_bytes = 0;    ///< of these two
  bool is_resting = false;
  // From the call to the end of its last page
  LatencyHistogram load_latency, store_latency;
  bool operator==(const TierCounters&) const = default;
};

class FOLIO_EXPORT CacheManager {
 public:
  /// Errors: invalid_argument, naming the option
  [[nodiscard]] static Result<CacheManager> create(const CacheManagerOptions& options) noexcept;
  CacheManager(CacheManager&& other) noexcept;
  CacheManager& operator=(CacheManager&& other) noexcept;
  /// Waits for transfers that touch the planes' memory.
  ~CacheManager();

  /// As PagePool::admit. While pages are on their way the sequence has room for them, and is not to
  /// be given more or to be in a step; where a load is cut short, the room that is not filled is
  /// given back.
  [[nodiscard]] Result<TieredAdmission> admit(std::span<const TokenId> prompt,
                                              const SequenceOptions& options = {}) noexcept;
  /// Commits what has come and ends what is over. O(transfers that have ended)
  void poll() noexcept;
  [[nodiscard]] LoadState load_state(SequenceId id) const noexcept;
  /// The engine computes what has not come yet.
  [[nodiscard]] Status cancel_load(SequenceId id) noexcept;

  /// As the pool's, and pages are stored. Errors: busy while the sequence's load is under way
  [[nodiscard]] Status commit(SequenceId id, std::span<const TokenId> written,
                              Merge merge = Merge::refused) noexcept;
  [[nodiscard]] Status release(SequenceId id) noexcept;

  [[nodiscard]] CacheManagerFigures figures() const noexcept;

 private:
  struct State;
  explicit CacheManager(State* state) noexcept : state_(state) {}
  State* state_ = nullptr;
};

}  // namespace folio::inline v1
