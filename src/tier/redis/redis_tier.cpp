// SPDX-License-Identifier: Apache-2.0
/// tier/redis/redis_tier.cpp: a tier from options or a URL.
#include "folio/tier/redis_tier.h"

#include <new>
#include <system_error>
#include <utility>

#include "tier/checks.h"
#include "tier/queued_tier.h"
#include "tier/redis/redis_medium.h"

namespace folio::inline v1::tier {
namespace {

using tier::redis::Encryption;
using tier::redis::RedisMedium;
using tier::redis::Settings;

template <class... Given>
Result<std::unique_ptr<Tier>> make(const TierOptions& options, const Given&... given) noexcept {
  if (Status s = tier::check_options(options); !s.is_ok()) return s;
  try {
    const Result<Settings> settings = tier::redis::settings_of(given...);
    if (!settings) return settings.error();
    std::unique_ptr<Encryption> encryption;
    if (settings->has_tls) {
      Result<std::unique_ptr<Encryption>> made = tier::redis::make_encryption(*settings);
      if (!made) return made.error();
      encryption = std::move(*made);
    }
    return tier::QueuedTier::create(
        std::make_unique<RedisMedium>(*settings, options, std::move(encryption)), options);
  } catch (const std::bad_alloc&) {
    return tier::out_of_memory("make_redis_tier");
  } catch (const std::system_error& e) {
    return fail(Errc::io, "make_redis_tier: no thread to be had: {}", e.what());
  }
}

}  // namespace

Result<std::unique_ptr<Tier>> make_redis_tier(const RedisOptions& redis,
                                              const TierOptions& options) noexcept {
  return make(options, redis);
}

Result<std::unique_ptr<Tier>> make_redis_tier(std::string_view url, const TierOptions& options,
                                              const RedisOptions& redis) noexcept {
  return make(options, url, redis);
}

}  // namespace folio::inline v1::tier
