// SPDX-License-Identifier: Apache-2.0
/// cli/report/tier_report.h: the figures of tiers: text, JSON, and tables and pictures of a page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "load/options.h"
#include "tiers/tiers.h"

namespace folio::cli {

/// Lines of a summary.
std::string summary_of(const TierChoice& choice, const TieredFigures& figures);

/// Members of the JSON object.
nlohmann::ordered_json json_of(const TierChoice& choice, const TieredFigures& figures);

/// Adds heading, tables and charts to the data of a page.
void add_to_page(const TieredFigures& figures, nlohmann::ordered_json& page);

}  // namespace folio::cli
