// SPDX-License-Identifier: Apache-2.0
/// cli/tiers/no_tiers.cpp: tiers.h in a build without folio::tier or folio::names.
#include <fmt/format.h>

#include "tiers/tiers.h"

namespace folio::cli {

Result<std::unique_ptr<TieredPages>> make_tiered_pages(const TierChoice& choice,
                                                       const TierDemand&) {
  return Status(Errc::unsupported,
                fmt::format("{}: this build has no tiers; they need ISA-L and OpenSSL (Debian: "
                            "libisal-dev, libssl-dev)",
                            tier_option_of(choice)));
}

}  // namespace folio::cli
