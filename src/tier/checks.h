// SPDX-License-Identifier: Apache-2.0
/// tier/checks.h: what tiers refuse, in one voice: `Tier::call: argument is X, expected Y`.
#pragma once

#include <span>

#include "folio/tier/tier.h"

namespace folio::inline v1::tier {

[[nodiscard]] Status check_options(const TierOptions& options) noexcept;
/// `writes`: their bytes will be written, so no two may share one.
[[nodiscard]] Status check_pages(const char* call, std::span<const TierPage> pages,
                                 bool writes) noexcept;
[[nodiscard]] Status out_of_memory(const char* call) noexcept;

}  // namespace folio::inline v1::tier
