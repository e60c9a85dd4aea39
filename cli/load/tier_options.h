// SPDX-License-Identifier: Apache-2.0
/// cli/load/tier_options.h: which tiers stand below the pool of a replay.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "folio/core/status.h"

namespace CLI {  // NOLINT(readability-identifier-naming): of the library that reads options
class App;
}

namespace folio::cli {

struct ReplayOptions;

/// The fastest first, in this order everywhere.
inline constexpr size_t num_tiers = 3;
inline constexpr std::array<const char*, num_tiers> tier_names = {"host", "disk", "redis"};
enum class TierKind : uint8_t { host = 0, disk = 1, redis = 2 };

/// When pages are stored, as folio::StorePolicy says it, for all tiers.
enum class StoreWhen : uint8_t {
  none = 0,
  write_through = 1,
  write_back = 2,
  at_eviction = 3,
  usual = 4,  ///< not said
};

struct TierChoice {
  int64_t host_bytes = 0;   ///< of the model's pages; 0: no such tier
  int64_t disk_bytes = 0;   ///< the same of `disk`
  std::string disk;         ///< a directory; empty: no such tier
  std::string redis;        ///< an address; empty: no such tier
  int64_t redis_bytes = 0;  ///< 0: as much as the server takes
  StoreWhen store = StoreWhen::usual;
  int32_t min_hits = 0;  ///< folio::TierOfCache's, as the next one
  bool promotes = false;
  int32_t spare_pages = 0;    ///< folio::CacheManagerOptions'; 0: not given
  int32_t hit_interval = 0;   ///< folio::tier::GroupOfCache's, of all windows and chunks
  int64_t payload_bytes = 0;  ///< that stand for a page; 0: not given
  int64_t load_deadline_ms = 0;
  /// of each tier, bytes of the model in a second; 0: not given
  std::array<double, num_tiers> gbytes_per_second = {};

  [[nodiscard]] bool any() const { return host_bytes != 0 || !disk.empty() || !redis.empty(); }
  /// Pages of each kind that the pool has not for requests.
  [[nodiscard]] int32_t spares() const { return store == StoreWhen::at_eviction ? spare_pages : 0; }
};

void add_tier_options(CLI::App& app, TierChoice& tiers);

/// As on the command line.
std::string name(StoreWhen store);

/// The address of a server, user and password replaced by "...".
std::string without_login(const std::string& url);

/// The first option that asks for a tier; null: none.
const char* tier_option_of(const TierChoice& tiers);

/// Whether the options of tiers agree with each other and with those of the replay; fills in what
/// follows from them, but for payloads. Errors: invalid_argument naming the option
Status resolve_tiers(ReplayOptions& options);
/// The same of payloads that stand for pages of one kind.
Status resolve_payload(ReplayOptions& options);

}  // namespace folio::cli
