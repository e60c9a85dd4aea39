// SPDX-License-Identifier: Apache-2.0
/// tier/redis/no_redis_tier.cpp: what stands for the tier where its libraries are missing.
#include "folio/tier/redis_tier.h"

namespace folio::inline v1::tier {

Result<std::unique_ptr<Tier>> make_redis_tier(const RedisOptions&, const TierOptions&) noexcept {
  return fail(Errc::unsupported,
              "make_redis_tier: this build has no hiredis or no OpenSSL (Debian: libhiredis-dev, "
              "libssl-dev)");
}

Result<std::unique_ptr<Tier>> make_redis_tier(std::string_view, const TierOptions& options,
                                              const RedisOptions& redis) noexcept {
  return make_redis_tier(redis, options);
}

}  // namespace folio::inline v1::tier
