// SPDX-License-Identifier: Apache-2.0
/// cli/report/metrics.h: the figures of a pool as Prometheus reads them.
#pragma once

#include <string>

#include "folio/core/status.h"
#include "replay/figures.h"
#include "replay/hybrid.h"

namespace folio::cli {

/// Errors: unsupported in a build without prometheus-cpp
Status can_write_metrics();

/// Counters, gauges and histograms in Prometheus's text exposition format. Ages are in pages taken.
/// Needs `can_write_metrics`.
std::string metrics_of(const ReplayFigures& figures);
/// With the pages of each group, by its rule.
std::string metrics_of(const PoolRun& run);

}  // namespace folio::cli
