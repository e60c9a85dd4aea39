// SPDX-License-Identifier: Apache-2.0
/// tier/events/prometheus.cpp: counters, gauges and histograms, by prometheus-cpp.
#include "folio/tier/prometheus.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <new>
#include <string>
#include <vector>

#include "tier/checks.h"

namespace folio::inline v1::tier {
namespace {

constexpr auto call = "prometheus_text";

using Labels = std::map<std::string, std::string>;

struct Metric {
  const char* name;
  const char* help;
  int64_t value;
};

void add_counters(prometheus::Registry& to, const Labels& labels,
                  std::initializer_list<Metric> metrics) {
  for (const Metric& m : metrics)
    prometheus::BuildCounter().Name(m.name).Help(m.help).Register(to).Add(labels).Increment(
        static_cast<double>(m.value));
}

void add_gauges(prometheus::Registry& to, const Labels& labels,
                std::initializer_list<Metric> metrics) {
  for (const Metric& m : metrics)
    prometheus::BuildGauge().Name(m.name).Help(m.help).Register(to).Add(labels).Set(
        static_cast<double>(m.value));
}

/// A counter for each value of an enumeration, whose name is a label.
template <class Enum>
void add_by(prometheus::Registry& to, const Labels& labels, const char* label, const char* metric,
            const char* help, std::span<const int64_t> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    Labels all = labels;
    all[label] = name(static_cast<Enum>(i));
    add_counters(to, all, {{metric, help, values[i]}});
  }
}

/// Of loads or of stores.
void add_rests(prometheus::Registry& to, Labels tier, const char* direction,
               const TierRests& rests) {
  tier["direction"] = direction;
  add_by<RestReason>(to, tier, "reason", "folio_tier_rests_total",
                     "Times that loads, or stores, began to rest, by the reason of the last fault",
                     rests.begun);
  add_gauges(to, tier,
             {{"folio_tier_resting", "1 while the tier is left alone with loads, or with stores",
               rests.is_resting ? 1 : 0}});
}

void add_histogram(prometheus::Registry& to, const Labels& labels, const char* metric,
                   const char* help, const LatencyHistogram& from) {
  prometheus::Histogram::BucketBoundaries bounds;
  for (int b = 0; b + 1 < LatencyHistogram::num_buckets; ++b)
    bounds.push_back(static_cast<double>(LatencyHistogram::bound_us(b)) * 1e-6);
  const std::vector<double> counts(std::begin(from.counts), std::end(from.counts));
  prometheus::BuildHistogram()
      .Name(metric)
      .Help(help)
      .Register(to)
      .Add(labels, bounds)
      .ObserveMultiple(counts, static_cast<double>(from.sum_us) * 1e-6);
}

void add(prometheus::Registry& to, const CacheManagerFigures& f) {
  add_counters(
      to, {},
      {{"folio_tiers_asked_pages_total", "Pages that prompts asked tiers for", f.asked_pages},
       {"folio_tiers_found_pages_total", "Of these, pages that a tier had", f.found_pages},
       {"folio_tiers_loaded_pages_total", "Pages that came from tiers", f.loaded_pages},
       {"folio_tiers_shared_pages_total", "Of these, pages that the load of another prompt brought",
        f.shared_pages},
       {"folio_tiers_lost_pages_total", "Pages that were found and did not come", f.lost_pages},
       {"folio_tiers_changed_pages_total",
        "Of these, pages whose sequence gave up their room by the pool itself", f.changed_pages},
       {"folio_tiers_stored_pages_total", "Pages that were handed to tiers", f.stored_pages},
       {"folio_tiers_unstored_pages_total", "Pages that were to be stored and are not",
        f.unstored_pages}});
  add_gauges(to, {},
             {{"folio_tiers_loads", "Loads under way", f.loads},
              {"folio_tiers_stores", "Stores under way or waiting", f.stores}});
}

void add(prometheus::Registry& to, const Labels& tier, const TierCounters& c) {
  add_counters(
      to, tier,
      {{"folio_tier_lookup_pages_total", "Pages that the tier was asked for", c.looked_up_pages},
       {"folio_tier_found_pages_total", "Of these, pages that it had", c.found_pages},
       {"folio_tier_load_pages_total", "Pages that came, to be used", c.loaded_pages},
       {"folio_tier_load_tokens_total", "Tokens that came, to be used", c.loaded_tokens},
       {"folio_tier_load_bytes_total", "Bytes that came, to be used", c.loaded_bytes},
       {"folio_tier_lost_pages_total", "Pages whose load began and that are computed",
        c.lost_pages},
       {"folio_tier_store_pages_total", "Pages that were stored", c.stored_pages},
       {"folio_tier_store_tokens_total", "Tokens that were stored", c.stored_tokens},
       {"folio_tier_store_bytes_total", "Bytes that were stored", c.stored_bytes},
       {"folio_tier_promoted_pages_total", "Pages handed over as they came from a slower tier",
        c.promoted_pages}});
  add_by<TierOutcome>(to, tier, "outcome", "folio_tier_load_outcomes_total",
                      "Pages whose load began, by how it ended", c.load_outcomes);
  add_by<TierOutcome>(to, tier, "outcome", "folio_tier_store_outcomes_total",
                      "Pages handed over, by how that ended", c.store_outcomes);
  add_by<LoadRefusal>(to, tier, "reason", "folio_tier_not_loaded_pages_total",
                      "Pages that were not loaded, by reason", c.not_loaded);
  add_by<StoreRefusal>(to, tier, "reason", "folio_tier_not_stored_pages_total",
                       "Pages that were not stored, by reason", c.not_stored);
  add_gauges(to, tier,
             {{"folio_tier_loading_pages", "Pages on their way from the tier", c.loading_pages},
              {"folio_tier_waiting_pages", "Pages that wait to be handed over", c.waiting_pages},
              {"folio_tier_storing_pages", "Pages on their way to the tier", c.storing_pages},
              {"folio_tier_pending_store_bytes", "Bytes that wait or are on their way to the tier",
               c.store_bytes}});
  add_rests(to, tier, "load", c.load_rests);
  add_rests(to, tier, "store", c.store_rests);
  add_histogram(to, tier, "folio_tier_load_seconds", "From a load's call to its last page",
                c.load_latency);
  add_histogram(to, tier, "folio_tier_store_seconds", "From a store's call to its last page",
                c.store_latency);
}

void add(prometheus::Registry& to, const Labels& tier, const TierFigures& f) {
  add_counters(to, tier,
               {{"folio_tier_dropped_pages_total", "Pages that went to make room, or were dropped",
                 f.dropped_pages},
                {"folio_tier_refused_calls_total", "Calls for which the queue had no room",
                 f.refused_calls}});
  add_gauges(to, tier,
             {{"folio_tier_pages", "Pages in the tier", f.pages},
              {"folio_tier_bytes", "Bytes in the tier, headers included", f.bytes},
              {"folio_tier_queued_pages", "Pages in the tier's queue", f.queued_pages},
              {"folio_tier_queued_bytes", "Bytes of these", f.queued_bytes}});
}

void add(prometheus::Registry& to, const EventPublisherFigures& f) {
  add_counters(
      to, {},
      {{"folio_events_published_batches_total", "Batches of events sent", f.published_batches},
       {"folio_events_published_total", "Events sent", f.published_events},
       {"folio_events_dropped_total", "Events for which the queue had no room", f.dropped_events},
       {"folio_events_unnamed_total", "Events of pages without a name", f.unnamed_events},
       {"folio_events_failed_batches_total", "Batches that could not be sent", f.failed_batches},
       {"folio_events_replayed_batches_total", "Batches sent again", f.replayed_batches},
       {"folio_events_snapshots_total", "Snapshots sent", f.snapshots},
       {"folio_events_refused_requests_total", "Malformed requests", f.refused_requests},
       {"folio_events_cut_replays_total", "Requests whose sender did not keep up", f.cut_replays}});
  add_gauges(to, {},
             {{"folio_events_names", "Names that are somewhere", f.names},
              {"folio_events_queued", "Events that wait to be sent", f.queued_events},
              {"folio_events_kept_batches", "Batches kept for replays", f.kept_batches},
              {"folio_events_kept_bytes", "Bytes of these", f.kept_bytes}});
}

Status check(const TierReadings& readings) {
  const auto tiers = readings.tiers;
  if (Status s = tier::check_memory(call, "tiers", tiers.data(), tiers.size()); !s.is_ok())
    return s;
  for (size_t i = 0; i < tiers.size(); ++i) {
    const std::string_view label = tiers[i].tier;
    const std::string argument = "tiers[" + std::to_string(i) + "].tier";
    if (Status s = tier::check_label(call, argument.c_str(), label); !s.is_ok()) return s;
    for (size_t j = 0; j < i; ++j)
      if (tiers[j].tier == label)
        return fail(Errc::invalid_argument,
                    "prometheus_text: tiers {} and {} are both {}, expected a label for each", j, i,
                    label);
  }
  return {};
}

}  // namespace

Result<std::string> prometheus_text(const TierReadings& readings) noexcept {
  try {
    if (Status s = check(readings); !s.is_ok()) return s;
    prometheus::Registry registry;
    if (readings.manager != nullptr) add(registry, *readings.manager);
    for (const TierReading& reading : readings.tiers) {
      const Labels tier = {{"tier", std::string(reading.tier)}};
      if (reading.counters != nullptr) add(registry, tier, *reading.counters);
      if (reading.figures != nullptr) add(registry, tier, *reading.figures);
    }
    if (readings.events != nullptr) add(registry, *readings.events);
    return prometheus::TextSerializer().Serialize(registry.Collect());
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "prometheus_text: no memory for {} tiers",
                readings.tiers.size());
  } catch (const std::exception& e) {
    return fail(Errc::internal, "prometheus_text: {}", e.what());
  }
}

}  // namespace folio::inline v1::tier
