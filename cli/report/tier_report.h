// SPDX-License-Identifier: Apache-2.0
/// cli/report/tier_report.h: the figures of tiers: text, JSON, and tables and pictures of a page.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "load/options.h"
#include "tiers/tiers.h"

namespace folio::cli {

/// Of the kinds of pages, where a pool has groups; none elsewhere.
using KindNames = std::span<const std::string>;

/// Lines of a summary.
std::string summary_of(const TierChoice& choice, const TieredFigures& figures,
                       KindNames kinds = {});

/// Members of the JSON object.
nlohmann::ordered_json json_of(const TierChoice& choice, const TieredFigures& figures,
                               KindNames kinds = {});

/// Adds heading, tables and charts to the data of a page, in front of those that are there.
void add_to_page(const TieredFigures& figures, nlohmann::ordered_json& page, KindNames kinds = {});

}  // namespace folio::cli
