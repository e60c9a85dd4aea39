// SPDX-License-Identifier: Apache-2.0
/// cli/report/no_metrics.cpp: metrics.h where there is no prometheus-cpp.
#include "report/metrics.h"

namespace folio::cli {

Status can_write_metrics() {
  return {Errc::unsupported,
          "--metrics: this build has no prometheus-cpp (Debian: prometheus-cpp-dev)"};
}

std::string metrics_of(const ReplayFigures&) { return {}; }
std::string metrics_of(const PoolRun&) { return {}; }

}  // namespace folio::cli
