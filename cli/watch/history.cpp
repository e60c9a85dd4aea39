// SPDX-License-Identifier: Apache-2.0
/// cli/watch/history.cpp: from counters to increments.
#include "watch/history.h"

#include <algorithm>

namespace folio::cli {

void Hits::take(const MetricsReading& reading, WatchSample& sample) {
  for (const HitCount& count : reading.hits) {
    auto at = std::find_if(caches_.begin(), caches_.end(),
                           [&](const Cache& cache) { return cache.name == count.name; });
    if (at == caches_.end()) {
      if (caches_.size() == most_hit_counts) continue;
      caches_.push_back({.name = count.name,
                         .unit = std::string(count.unit),
                         .metric = std::string(count.metric),
                         .hits = count.hits,
                         .queries = count.queries});
      continue;  // what was before nobody saw
    }
    const auto i = static_cast<size_t>(at - caches_.begin());
    const bool is_anew = count.hits < at->hits || count.queries < at->queries;
    sample.hits[i] += is_anew ? count.hits : count.hits - at->hits;
    sample.queries[i] += is_anew ? count.queries : count.queries - at->queries;
    at->hits = count.hits;
    at->queries = count.queries;
  }
}

}  // namespace folio::cli
