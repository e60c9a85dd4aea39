// SPDX-License-Identifier: Apache-2.0
/// tier/tier.cpp: names of outcomes.
#include "folio/tier/tier.h"

namespace folio::inline v1::tier {

const char* name(TierOutcome outcome) noexcept {
  switch (outcome) {
    case TierOutcome::done: return "done";
    case TierOutcome::missing: return "missing";
    case TierOutcome::corrupt: return "corrupt";
    case TierOutcome::full: return "full";
    case TierOutcome::late: return "late";
    case TierOutcome::cancelled: return "cancelled";
    case TierOutcome::failed: return "failed";
  }
  return "not an outcome";
}

}  // namespace folio::inline v1::tier
