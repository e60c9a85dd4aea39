// SPDX-License-Identifier: Apache-2.0
/// tier/host/host_medium.h: what make_host_tier makes a tier of.
#pragma once

#include <memory>

#include "folio/tier/medium.h"

namespace folio::inline v1::tier {

/// Pages in memory of their own, `max_bytes` of it; null: there is no memory for it.
[[nodiscard]] std::unique_ptr<Medium> make_host_medium(const TierOptions& options) noexcept;

}  // namespace folio::inline v1::tier
