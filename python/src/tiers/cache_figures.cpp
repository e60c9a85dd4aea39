// SPDX-License-Identifier: Apache-2.0
/// python/src/tiers/cache_figures.cpp: the keys are the fields of the structs.
#include "cache_figures.h"

namespace folio::python {
namespace {

nb::dict rests_of(const tier::TierRests& rests) {
  nb::dict out;
  out["begun"] = counts_by_name<tier::RestReason>(rests.begun);
  out["last_reason"] = tier::name(rests.last_reason);
  out["is_resting"] = rests.is_resting;
  return out;
}

nb::dict histogram_of(const tier::LatencyHistogram& histogram) {
  nb::dict out;
  nb::list counts, bounds;
  for (int bucket = 0; bucket < tier::LatencyHistogram::num_buckets; ++bucket) {
    counts.append(histogram.counts[bucket]);
    if (bucket + 1 < tier::LatencyHistogram::num_buckets)
      bounds.append(tier::LatencyHistogram::bound_us(bucket));
  }
  out["bounds_us"] = bounds;
  out["counts"] = counts;
  out["count"] = histogram.count;
  out["sum_us"] = histogram.sum_us;
  return out;
}

}  // namespace

nb::dict figures_of(const tier::TierFigures& f) {
  nb::dict out;
  out["stored_pages"] = f.stored_pages;
  out["loaded_pages"] = f.loaded_pages;
  out["stored_bytes"] = f.stored_bytes;
  out["loaded_bytes"] = f.loaded_bytes;
  out["load_outcomes"] = counts_by_name<tier::TierOutcome>(f.load_outcomes);
  out["store_outcomes"] = counts_by_name<tier::TierOutcome>(f.store_outcomes);
  out["refused_calls"] = f.refused_calls;
  out["dropped_pages"] = f.dropped_pages;
  out["pages"] = f.pages;
  out["bytes"] = f.bytes;
  out["queued_pages"] = f.queued_pages;
  out["queued_bytes"] = f.queued_bytes;
  return out;
}

nb::dict figures_of(const tier::CacheManagerFigures& f) {
  nb::dict out;
  out["asked_pages"] = f.asked_pages;
  out["found_pages"] = f.found_pages;
  out["loaded_pages"] = f.loaded_pages;
  out["lost_pages"] = f.lost_pages;
  out["shared_pages"] = f.shared_pages;
  out["changed_pages"] = f.changed_pages;
  out["stored_pages"] = f.stored_pages;
  out["unstored_pages"] = f.unstored_pages;
  out["loads"] = f.loads;
  out["stores"] = f.stores;
  return out;
}

nb::dict counters_of(const tier::TierCounters& c) {
  nb::dict out;
  out["looked_up_pages"] = c.looked_up_pages;
  out["found_pages"] = c.found_pages;
  out["loaded_pages"] = c.loaded_pages;
  out["loaded_tokens"] = c.loaded_tokens;
  out["loaded_bytes"] = c.loaded_bytes;
  out["lost_pages"] = c.lost_pages;
  out["load_outcomes"] = counts_by_name<tier::TierOutcome>(c.load_outcomes);
  out["not_loaded"] = counts_by_name<tier::LoadRefusal>(c.not_loaded);
  out["stored_pages"] = c.stored_pages;
  out["stored_tokens"] = c.stored_tokens;
  out["stored_bytes"] = c.stored_bytes;
  out["promoted_pages"] = c.promoted_pages;
  out["store_outcomes"] = counts_by_name<tier::TierOutcome>(c.store_outcomes);
  out["not_stored"] = counts_by_name<tier::StoreRefusal>(c.not_stored);
  out["load_rests"] = rests_of(c.load_rests);
  out["store_rests"] = rests_of(c.store_rests);
  out["loading_pages"] = c.loading_pages;
  out["waiting_pages"] = c.waiting_pages;
  out["storing_pages"] = c.storing_pages;
  out["store_bytes"] = c.store_bytes;
  out["load_latency"] = histogram_of(c.load_latency);
  out["store_latency"] = histogram_of(c.store_latency);
  return out;
}

}  // namespace folio::python
