// SPDX-License-Identifier: Apache-2.0
/// tier/tier.cpp: names of outcomes, and what a tier need not do.
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

void Tier::find_each(std::span<const PageName> names, std::span<uint8_t> there) noexcept {
  if (there.size() != names.size() || names.data() == nullptr || there.data() == nullptr) return;
  for (size_t i = 0; i < names.size(); ++i) there[i] = find(names.subspan(i, 1)) > 0 ? 1 : 0;
}

Status Tier::visit_names(NameVisitor visitor) noexcept {
  if (visitor.function == nullptr)
    return fail(Errc::invalid_argument, "Tier::visit_names: the function is null, expected one");
  return fail(Errc::unsupported, "Tier::visit_names: this tier does not know its names");
}

}  // namespace folio::inline v1::tier
