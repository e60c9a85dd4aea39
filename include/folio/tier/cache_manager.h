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
