// SPDX-License-Identifier: Apache-2.0
/// cli/report_page.h: the page of `folio replay --report`.
#pragma once

#include <string>

#include "options.h"
#include "policies.h"
#include "recorder.h"
#include "report.h"

namespace folio::cli {

/// One replay.
std::string page_of(const ReplayOptions& options, const ReplayFigures& figures,
                    const Recorder& recorder);
/// All policies and the optimum.
std::string page_of(const ReplayOptions& options, const Comparison& comparison);

}  // namespace folio::cli
