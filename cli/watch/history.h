// SPDX-License-Identifier: Apache-2.0
/// cli/watch/history.h: what came, went and was found over time, in a bounded number of samples.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "parts/bounded_series.h"
#include "watch/census.h"
#include "watch/known_metrics.h"

namespace folio::cli {

/// A span of time.
struct WatchSample {
  double seconds = 0;
  int64_t stored = 0, removed = 0;  ///< copies of names that came, and that went
  PerMedium in = {};                ///< names at its end, in each medium
  /// Of each cache, in the order of `Hits::caches`: what was found and what was looked for
  std::array<double, most_hit_counts> hits = {}, queries = {};

  void merge(const WatchSample& later) {
    seconds += later.seconds;
    stored += later.stored;
    removed += later.removed;
    in = later.in;
    for (size_t i = 0; i < hits.size(); ++i) {
      hits[i] += later.hits[i];
      queries[i] += later.queries[i];
    }
  }
};

/// Counters of an engine as increments: each look's beyond the last one's.
class Hits {
 public:
  struct Cache {
    std::string name, unit, metric;
    double hits = 0, queries = 0;  ///< as the engine counts, since it began
    /// It is there: engines count for caches and sources that they do not have, too.
    [[nodiscard]] bool is_used() const {
      return hits > 0 || (queries > 0 && name.find(": ") == name.npos);
    }
  };
  /// A counter that went back began anew, with its engine.
  void take(const MetricsReading& reading, WatchSample& sample);
  /// Those that were ever told of, at most most_hit_counts.
  [[nodiscard]] const std::vector<Cache>& caches() const { return caches_; }

 private:
  std::vector<Cache> caches_;
};

constexpr size_t most_watch_samples = 240;

using WatchHistory = BoundedSeries<WatchSample>;

}  // namespace folio::cli
