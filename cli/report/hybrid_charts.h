// SPDX-License-Identifier: Apache-2.0
/// cli/report/hybrid_charts.h: charts of models with groups as the JSON that
/// cli/parts/page/report.js draws.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "report/hybrid_report.h"

namespace folio::cli {

/// Of pictures that other replays have: why they are not there.
inline constexpr std::string_view left_out =
    "Ages and finds of evicted pages are left out: a slab that goes over to another group takes "
    "all pages in it along, and which these were the pool does not tell.";

/// All charts of a replay that was recorded.
nlohmann::ordered_json hybrid_charts(const PoolRun& run);
/// Of all policies side by side.
nlohmann::ordered_json hybrid_policy_charts(const HybridPolicies& runs);

}  // namespace folio::cli
