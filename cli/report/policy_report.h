// SPDX-License-Identifier: Apache-2.0
/// cli/report/policy_report.h: eviction policies side by side.
#pragma once

#include <string>

#include "load/options.h"
#include "replay/policies.h"

namespace folio::cli {

/// A table to read.
std::string summary_of(const TraceOptions& trace, const Comparison& comparison);
/// The same as a JSON object.
std::string json_of(const TraceOptions& trace, const Comparison& comparison);
/// A page to look at.
std::string page_of(const ReplayOptions& options, const Comparison& comparison);

}  // namespace folio::cli
