// SPDX-License-Identifier: Apache-2.0
/// cli/directory/no_cache.cpp: cache.h where there is no folio::tier.
#include "directory/cache.h"

namespace folio::cli {

Status run_cache(const CacheOptions&) {
  return {Errc::unsupported, "this build has no tiers (Debian: libisal-dev)"};
}

}  // namespace folio::cli
