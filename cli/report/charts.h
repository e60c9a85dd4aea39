// SPDX-License-Identifier: Apache-2.0
/// cli/report/charts.h: charts of a report as the JSON that cli/parts/page/report.js draws.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "replay/recorder.h"

namespace folio::cli {

/// Four significant digits: what a picture shows. Not finite: null.
nlohmann::ordered_json shown(double value);
/// 100 * part / whole; null without a whole.
nlohmann::ordered_json percent(int64_t part, int64_t whole);

/// "1,234,567"
std::string grouped(int64_t value);

/// All charts of one replay. `step`: what a step is, for an axis: "step" or "request".
nlohmann::ordered_json replay_charts(const Recorder& recorder, const std::string& step);

}  // namespace folio::cli
