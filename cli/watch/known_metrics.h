// SPDX-License-Identifier: Apache-2.0
/// cli/watch/known_metrics.h: which of an engine's metrics say what its caches find.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "folio/core/status.h"

namespace folio::cli {

/// Of what was looked for, how much was found.
struct HitCount {
  std::string name;         ///< "prefix cache", "prefix cache: host memory"
  std::string_view unit;    ///< "tokens", "pages", "items"
  std::string_view metric;  ///< whose hits these are
  double hits = 0, queries = 0;
};

/// A number as of now.
struct Reading {
  std::string name;       ///< "requests running"
  bool is_share = false;  ///< 0 .. 1
  std::string_view metric;
  double value = 0;
};

/// What one look at the metrics said: of each name at most one, in the order of the table.
struct MetricsReading {
  std::vector<HitCount> hits;
  std::vector<Reading> readings;
  int64_t samples = 0;  ///< of all metrics, known or not
};

constexpr size_t most_hit_counts = 16, most_readings = 16;

/// Samples of one metric that differ in labels that do not matter (engine, model, rank) are added;
/// of shares the mean is taken. Errors: those of read_exposition
Result<MetricsReading> read_metrics(std::string_view exposition);

}  // namespace folio::cli
