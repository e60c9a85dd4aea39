// SPDX-License-Identifier: Apache-2.0
/// tier/events/no_prometheus.cpp: folio/tier/prometheus.h where there is no prometheus-cpp.
#include "folio/tier/prometheus.h"

namespace folio::inline v1::tier {

Result<std::string> prometheus_text(const TierReadings&) noexcept {
  return fail(Errc::unsupported,
              "prometheus_text: this build has no prometheus-cpp (Debian: prometheus-cpp-dev)");
}

}  // namespace folio::inline v1::tier
