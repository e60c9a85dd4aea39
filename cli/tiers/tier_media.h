// SPDX-License-Identifier: Apache-2.0
/// cli/tiers/tier_media.h: the one place that knows how each tier is made.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "folio/tier/tier.h"
#include "tiers/tiers.h"

namespace folio::cli {

struct MadeTier {
  std::unique_ptr<Tier> tier;
  int64_t most_pages = 0;  ///< 0: not known
  std::string place;
};

/// Makes the tier of a kind; none where it is not chosen. `pages`: that a call may have under way.
/// Errors: as make_tiered_pages
Result<MadeTier> make_tier(TierKind kind, const TierChoice& choice, int64_t page_bytes,
                           int64_t pages, const Digest256& fingerprint);

}  // namespace folio::cli
