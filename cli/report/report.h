// SPDX-License-Identifier: Apache-2.0
/// cli/report/report.h: a replay's figures, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "load/options.h"
#include "replay/figures.h"

namespace folio::cli {

/// The `share` quantile (0 ... 1) of the values by nearest rank; 0 without values.
double quantile(std::vector<double> values, double share);

/// Of --verify: a line of a summary.
std::string verified_line(const VerifySummary& verify);
/// Keys and values that attention read, and its operations: a line of a summary.
std::string attention_line(const LayerTotals& layers);

/// A summary to read.
std::string summary_of(const ReplayOptions& options, const ReplayFigures& figures);

/// The same as a JSON object. Figures that are not finite become null.
std::string json_of(const ReplayOptions& options, const ReplayFigures& figures);

}  // namespace folio::cli
