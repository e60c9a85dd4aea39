// SPDX-License-Identifier: Apache-2.0
/// cli/tiers/tier_media.h: the one place that knows how each tier is made.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>

#include "folio/tier/tier.h"
#include "tiers/tiers.h"

namespace folio::cli {

struct MadeTier {
  std::unique_ptr<Tier> tier;
  int64_t most_pages = 0;  ///< of the first kind, if there were no others; 0: not known
  std::string place;
  int64_t most_bytes = 0;  ///< of payloads and their headers
};

/// Gives each kind of page the payload that stands for it: one kind has the bytes that are chosen;
/// of several each is so large that all tiers that are chosen count it in proportion to the model's
/// bytes.
void choose_payloads(const TierChoice& choice, std::span<PageKind> kinds);

struct TierTask {
  std::span<const PageKind> kinds;  ///< with their payloads
  int64_t pages = 0;                ///< that a call may have under way
  Digest256 fingerprint = {};
};
/// Makes the tier of a kind; none where it is not chosen. Errors: as make_tiered_pages
Result<MadeTier> make_tier(TierKind kind, const TierChoice& choice, const TierTask& task);

}  // namespace folio::cli
