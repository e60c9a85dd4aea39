// SPDX-License-Identifier: Apache-2.0
/// cli/watch/known_metrics.cpp: the table of metrics, and sums of their samples.
///
/// Sources: vLLM 0.32 v1/metrics/loggers.py; SGLang 0.5.23 srt/observability/metrics_collector.py;
/// LMCache 0.5.6 observability.py; src/tier/events/prometheus.cpp and cli/report/metrics.cpp.
#include "watch/known_metrics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "watch/exposition.h"

namespace folio::cli {
namespace {

/// Samples of a metric; `label` and `text` leave the others out, unless they are empty. Where
/// `label` ends in '*', each text of that label counts by itself.
struct Term {
  std::string_view metric;
  std::string_view label = {}, text = {};
};

struct KnownHits {
  std::string_view name, unit;
  Term hits, queries;
};

constexpr std::string_view effective = "sglang:prefill_effective_tokens_total";
constexpr KnownHits known_hits[] = {
    {"prefix cache",
     "tokens",
     {"vllm:prefix_cache_hits_total"},
     {"vllm:prefix_cache_queries_total"}},
    {"prefix cache",
     "tokens",
     {"vllm:gpu_prefix_cache_hits_total"},  // until 0.10
     {"vllm:gpu_prefix_cache_queries_total"}},
    {"external prefix cache",
     "tokens",
     {"vllm:external_prefix_cache_hits_total"},
     {"vllm:external_prefix_cache_queries_total"}},
    {"multimodal cache", "items", {"vllm:mm_cache_hits_total"}, {"vllm:mm_cache_queries_total"}},
    {"from",
     "tokens",
     {"vllm:prompt_tokens_cached_by_source_total", "source*"},
     {"vllm:prefix_cache_queries_total"}},
    {"device memory", "tokens", {effective, "mode", "device_hit"}, {effective}},
    {"host memory", "tokens", {effective, "mode", "host_hit"}, {effective}},
    {"storage", "tokens", {effective, "mode", "storage_hit"}, {effective}},
    {"from",
     "tokens",
     {"sglang:cached_tokens_total", "cache_source*"},
     {"sglang:prompt_tokens_total"}},
    {"LMCache", "tokens", {"lmcache:num_hit_tokens_total"}, {"lmcache:num_requested_tokens_total"}},
    {"pool", "pages", {"folio_hit_pages_total"}, {"folio_lookup_pages_total"}},
    {"tiers", "pages", {"folio_tiers_loaded_pages_total"}, {"folio_tiers_asked_pages_total"}},
    {"tier",
     "pages",
     {"folio_tier_found_pages_total", "tier*"},
     {"folio_tier_lookup_pages_total", "tier*"}},
};

struct KnownReading {
  std::string_view name;
  Term term;
  bool is_share = false;
};

constexpr KnownReading known_readings[] = {
    {"hit rate of the last prefill", {"sglang:cache_hit_rate"}, true},
    {"cache in use", {"vllm:kv_cache_usage_perc"}, true},
    {"cache in use", {"vllm:gpu_cache_usage_perc"}, true},
    {"cache in use", {"sglang:token_usage"}, true},
    {"requests running", {"vllm:num_requests_running"}},
    {"requests running", {"sglang:num_running_reqs"}},
    {"requests waiting", {"vllm:num_requests_waiting"}},
    {"requests waiting", {"sglang:num_queue_reqs"}},
    {"sequences", {"folio_sequences"}},
    {"pages", {"folio_pages", "state*"}},
    {"pages of tier", {"folio_tier_pages", "tier*"}},
    {"names told", {"folio_events_names"}},
};

/// Samples of a metric that were added up.
struct Sum {
  double value = 0;
  int64_t samples = 0;
  [[nodiscard]] double mean() const { return value / static_cast<double>(samples); }
};
/// By the text of a label that counts by itself; of a term without such a label one, of no text.
using Sums = std::map<std::string, Sum>;

constexpr size_t most_texts = 8;  // of a label that counts by itself

void add(const Term& term, const MetricSample& sample, Sums& to) {
  if (sample.name != term.metric || !std::isfinite(sample.value)) return;
  std::string key;
  if (term.label.ends_with('*')) {
    key = sample.label(term.label.substr(0, term.label.size() - 1));
  } else if (!term.label.empty() && sample.label(term.label) != term.text) {
    return;
  }
  if (!to.contains(key) && to.size() == most_texts) return;
  Sum& sum = to[key];
  sum.value += sample.value;
  ++sum.samples;
}

std::string named(std::string_view name, const std::string& text) {
  return text.empty() ? std::string(name) : std::string(name) + ": " + text;
}

/// A cache is told of once: by the first row that has its name and samples.
template <class T>
bool is_new(const std::vector<T>& all, const std::string& name) {
  return std::none_of(all.begin(), all.end(), [&](const T& one) { return one.name == name; });
}

void finish(const KnownHits& known, const Sums& hits, const Sums& queries,
            std::vector<HitCount>& to) {
  for (const auto& [text, found] : hits) {
    auto asked = queries.find(text);
    if (asked == queries.end()) asked = queries.find("");
    const std::string name = named(known.name, text);
    if (asked == queries.end() || to.size() == most_hit_counts || !is_new(to, name)) continue;
    if (!std::isfinite(found.value) || !std::isfinite(asked->second.value)) continue;
    to.push_back({.name = name,
                  .unit = known.unit,
                  .metric = known.hits.metric,
                  .hits = found.value,
                  .queries = asked->second.value});
  }
}

void finish(const KnownReading& known, const Sums& sums, std::vector<Reading>& to) {
  for (const auto& [text, sum] : sums) {
    const std::string name = named(known.name, text);
    if (to.size() == most_readings || !is_new(to, name) || !std::isfinite(sum.value)) continue;
    to.push_back({.name = name,
                  .is_share = known.is_share,
                  .metric = known.term.metric,
                  .value = known.is_share ? sum.mean() : sum.value});
  }
}

}  // namespace

Result<MetricsReading> read_metrics(std::string_view exposition) {
  std::vector<Sums> hits(std::size(known_hits)), queries(std::size(known_hits)),
      readings(std::size(known_readings));
  MetricsReading reading;
  const auto take = [&](const MetricSample& sample) {
    ++reading.samples;
    for (size_t i = 0; i < std::size(known_hits); ++i) {
      add(known_hits[i].hits, sample, hits[i]);
      add(known_hits[i].queries, sample, queries[i]);
    }
    for (size_t i = 0; i < std::size(known_readings); ++i)
      add(known_readings[i].term, sample, readings[i]);
  };
  if (Status s = read_exposition(exposition, take); !s.is_ok()) return s;
  for (size_t i = 0; i < std::size(known_hits); ++i)
    finish(known_hits[i], hits[i], queries[i], reading.hits);
  for (size_t i = 0; i < std::size(known_readings); ++i)
    finish(known_readings[i], readings[i], reading.readings);
  return reading;
}

}  // namespace folio::cli
