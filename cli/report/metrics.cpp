// SPDX-License-Identifier: Apache-2.0
/// cli/report/metrics.cpp: the one file that knows prometheus-cpp.
#include "report/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

#include "report/hybrid_report.h"

namespace folio::cli {
namespace {

void add(prometheus::Registry& to, const char* name, const char* help, int64_t value,
         const std::map<std::string, std::string>& labels = {}) {
  prometheus::BuildCounter().Name(name).Help(help).Register(to).Add(labels).Increment(
      static_cast<double>(value));
}

void add_gauge(prometheus::Registry& to, const char* name, const char* help, int64_t value,
               const std::map<std::string, std::string>& labels = {}) {
  prometheus::BuildGauge().Name(name).Help(help).Register(to).Add(labels).Set(
      static_cast<double>(value));
}

/// Bucket b of the pool ends at 2^b - 1, the last one nowhere.
void add_histogram(prometheus::Registry& to, const char* name, const char* help,
                   const PoolHistogram& from) {
  prometheus::Histogram::BucketBoundaries ends;
  for (int b = 0; b + 1 < PoolHistogram::num_buckets; ++b)
    ends.push_back(static_cast<double>((int64_t{1} << b) - 1));
  const std::vector<double> counts(std::begin(from.counts), std::end(from.counts));
  prometheus::BuildHistogram().Name(name).Help(help).Register(to).Add({}, ends).ObserveMultiple(
      counts, static_cast<double>(from.sum));
}

void add_pool(prometheus::Registry& registry, const PoolStats& s, const PoolHistograms& h) {
  add(registry, "folio_lookup_pages_total", "Full pages that prompts looked for", s.lookup_pages);
  add(registry, "folio_hit_pages_total", "Full pages that prompts found", s.hit_pages);
  constexpr auto hits = "folio_hit_tokens_total";
  constexpr auto of_hits = "Tokens that prompts found, by what had them, in tokens of the pool";
  add(registry, hits, of_hits, s.hit_tokens_cached, {{"kind", "cached"}});
  add(registry, hits, of_hits, s.hit_tokens_used, {{"kind", "used"}});
  add(registry, hits, of_hits, s.hit_tokens_partial, {{"kind", "partial"}});
  add(registry, "folio_evicted_pages_total", "Cached pages taken for new content", s.evicted_pages);
  constexpr auto pages = "folio_pages";
  constexpr auto of_pages = "Pages by state";
  add_gauge(registry, pages, of_pages, s.used_pages, {{"state", "used"}});
  add_gauge(registry, pages, of_pages, s.cached_pages, {{"state", "cached"}});
  add_gauge(registry, pages, of_pages, s.free_pages, {{"state", "free"}});
  add_gauge(registry, "folio_peak_used_pages", "Most pages in use at once", s.peak_used_pages);
  add_gauge(registry, "folio_sequences", "Sequences alive", s.sequences);
  add_gauge(registry, "folio_unfinished_steps", "Steps in flight", s.unfinished_steps);
  add_histogram(registry, "folio_evicted_lifetime_pages",
                "Age of evicted pages since they were filled, in pages taken", h.lifetime);
  add_histogram(registry, "folio_evicted_idle_pages",
                "Age of evicted pages since their last use, in pages taken", h.idle);
  add_histogram(registry, "folio_reuse_pages", "Time between two uses of a page, in pages taken",
                h.reuse);
}

void add_group(prometheus::Registry& registry, const GroupUse& group) {
  const std::map<std::string, std::string> labels = {{"group", title_of(group.options)}};
  add(registry, "folio_group_evicted_pages_total", "Cached pages of a group taken for new content",
      group.evicted_pages, labels);
  add(registry, "folio_group_given_back_pages_total",
      "Pages of a group that running sequences left behind", group.given_back, labels);
  add_gauge(registry, "folio_group_cached_pages", "Cached pages of a group", group.cached_pages,
            labels);
  add_gauge(registry, "folio_group_peak_used_pages", "Most pages of a group in use at once",
            group.peak_pages, labels);
}

std::string text_of(const prometheus::Registry& registry) {
  return prometheus::TextSerializer().Serialize(registry.Collect());
}

}  // namespace

Status can_write_metrics() { return {}; }

std::string metrics_of(const ReplayFigures& figures) {
  prometheus::Registry registry;
  add_pool(registry, figures.pool, figures.histograms);
  return text_of(registry);
}

std::string metrics_of(const PoolRun& run) {
  prometheus::Registry registry;
  add_pool(registry, run.stats, run.histograms);
  for (const GroupUse& group : run.groups) add_group(registry, group);
  return text_of(registry);
}

}  // namespace folio::cli
