// SPDX-License-Identifier: Apache-2.0
/// folio/tier/prometheus.h: the counters of tiers as Prometheus reads them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "folio/core/export.h"
#include "folio/core/status.h"
#include "folio/tier/cache_manager.h"
#include "folio/tier/event_publisher.h"
#include "folio/tier/tier.h"

namespace folio::inline v1::tier {

/// What is null is left out.
struct TierReading {
  std::string_view tier;                   ///< its label: 1 .. 64 printable characters of ASCII
  const TierCounters* counters = nullptr;  ///< what a manager has had of it
  const TierFigures* figures = nullptr;    ///< its own
};

struct TierReadings {
  const CacheManagerFigures* manager = nullptr;
  std::span<const TierReading> tiers = {};  ///< each with a label of its own
  const EventPublisherFigures* events = nullptr;
};

/// In the text format of Prometheus 0.0.4: counters `folio_tier_..._total{tier="disk"}`, gauges,
/// and histograms `folio_tier_load_seconds`, `folio_tier_store_seconds`. Errors: invalid_argument
/// for labels; out_of_memory; unsupported in a build without prometheus-cpp
[[nodiscard]] FOLIO_EXPORT Result<std::string> prometheus_text(
    const TierReadings& readings) noexcept;

}  // namespace folio::inline v1::tier

namespace folio::inline v1 {  // flat names, for one release
using tier::prometheus_text;
using tier::TierReading;
using tier::TierReadings;
}  // namespace folio::inline v1
