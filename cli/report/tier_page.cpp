// SPDX-License-Identifier: Apache-2.0
/// cli/report/tier_page.cpp: tables and pictures of tiers.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <utility>

#include "parts/numbers.h"
#include "report/charts.h"
#include "report/report.h"
#include "report/report_page.h"
#include "report/tier_report.h"

namespace folio::cli {
namespace {

using nlohmann::ordered_json;

ordered_json sources_chart(const TieredFigures& f) {
  ordered_json ends = ordered_json::array(), all = ordered_json::array();
  const auto part = [&](const char* name, auto tokens) {
    return series(name, of_samples(f.samples, [&](const SourceSample& s) {
                    return percent(tokens(s.tokens), s.tokens.asked());
                  }));
  };
  for (const SourceSample& s : f.samples) ends.push_back(s.end);
  all.push_back(part("memory", [](const TokensBySource& t) { return t.memory; }));
  for (size_t t = 0; t < num_tiers; ++t)
    if (f.tiers[t].is_used)
      all.push_back(part(tier_names[t], [t](const TokensBySource& of) { return of.tiers[t]; }));
  all.push_back(faint(part("computed", [](const TokensBySource& t) { return t.computed; })));
  const int64_t requests = f.samples.empty() ? 1 : f.samples.front().end;
  return {{"id", "sources"},
          {"title", "Where tokens came from"},
          {"note", fmt::format("Prompt tokens; each bar is {} request{}.", requests,
                               requests == 1 ? "" : "s")},
          {"kind", "bar"},
          {"x", {{"label", "request"}, {"values", std::move(ends)}}},
          {"y", {{"label", "prompt tokens"}, {"unit", "%"}, {"max", 100}, {"stacked", true}}},
          {"series", std::move(all)}};
}

/// "< 8 µs", "8 µs", "16 µs", ...: from there to twice as much.
std::string label_of(size_t bucket) {
  constexpr double least_us = 8.0;
  if (bucket == 0) return "< " + duration(least_us * 1e-6);
  return duration(least_us * 1e-6 * static_cast<double>(uint64_t{1} << (bucket - 1)));
}

size_t bucket_of(double seconds) {
  const auto eighths = static_cast<uint64_t>(std::fmin(std::fmax(seconds, 0.0) * 1e6 / 8.0, 1e15));
  return static_cast<size_t>(std::bit_width(eighths));
}

ordered_json load_chart(const TieredFigures& f) {
  size_t buckets = 1;
  for (const OneTier& tier : f.tiers)
    for (const double seconds : tier.load_seconds)
      buckets = std::max(buckets, bucket_of(seconds) + 1);
  ordered_json labels = ordered_json::array(), all = ordered_json::array();
  for (size_t b = 0; b < buckets; ++b) labels.push_back(label_of(b));
  for (size_t t = 0; t < num_tiers; ++t) {
    if (!f.tiers[t].is_used) continue;
    std::vector<int64_t> counts(buckets);
    for (const double seconds : f.tiers[t].load_seconds) ++counts[bucket_of(seconds)];
    all.push_back(series(tier_names[t], counts));
  }
  return {{"id", "load-times"},
          {"title", "Time of loads"},
          {"note",
           fmt::format("Measured, of payloads{}: from the admission until the last page was there.",
                       f.kinds.size() > 1
                           ? ""
                           : fmt::format(" of {} bytes", grouped(f.kinds.front().payload_bytes)))},
          {"kind", "bar"},
          {"x", {{"label", "from, to twice as much"}, {"values", std::move(labels)}}},
          {"y", {{"label", "loads"}}},
          {"series", std::move(all)}};
}

ordered_json table_of_sources(const TieredFigures& f) {
  const auto gib = [&](const PagesByKind& pages) {
    return fmt::format("{:.4g}", gib_of(model_bytes(f.kinds, pages)));
  };
  ordered_json rows = ordered_json::array();
  const auto plain = [&](const char* name, int64_t tokens) {
    rows.push_back(ordered_json::array(
        {name, tokens, share(tokens, f.tokens.asked()), "", "", "", "", "", "", ""}));
  };
  plain("memory", f.tokens.memory);
  for (size_t t = 0; t < num_tiers; ++t) {
    const OneTier& tier = f.tiers[t];
    if (!tier.is_used) continue;
    const bool has_loads = !tier.load_seconds.empty();
    rows.push_back(ordered_json::array(
        {tier_names[t], f.tokens.tiers[t], share(f.tokens.tiers[t], f.tokens.asked()),
         tier.stored_pages, tier.loaded_pages, tier.dropped_pages, tier.pages,
         gib(tier.stored_by_kind), gib(tier.loaded_by_kind),
         has_loads ? fmt::format("{}, {}", duration(quantile(tier.load_seconds, 0.5)),
                                 duration(quantile(tier.load_seconds, 0.99)))
                   : ""}));
  }
  plain("computed", f.tokens.computed);
  plain("asked", f.tokens.asked());
  return {{"title", "By tier"},
          {"note", f.kinds.size() > 1
                       ? "GiB are those of the model. Payloads stand for its pages here: their "
                         "loads are measured."
                       : fmt::format("A page has {} bytes in the model: so GiB are computed. {} "
                                     "bytes stand for it here: their loads are measured.",
                                     grouped(f.kinds.front().page_bytes),
                                     grouped(f.kinds.front().payload_bytes))},
          {"columns",
           {"tokens from", "tokens", "of asked", "pages stored", "loaded", "dropped", "there",
            "GiB stored", "GiB loaded", "load p50, p99"}},
          {"rows", std::move(rows)}};
}

ordered_json table_of_kinds(const TieredFigures& f, KindNames kinds) {
  ordered_json rows = ordered_json::array();
  for (size_t t = 0; t < num_tiers; ++t) {
    const OneTier& tier = f.tiers[t];
    for (size_t k = 0; k < kinds.size() && tier.is_used; ++k) {
      const auto gib = [&](int64_t pages) {
        return fmt::format("{:.4g}", gib_of(pages, f.kinds[k].page_bytes));
      };
      rows.push_back(ordered_json::array({tier_names[t], kinds[k], tier.stored_by_kind[k],
                                          tier.loaded_by_kind[k], gib(tier.stored_by_kind[k]),
                                          gib(tier.loaded_by_kind[k]), f.kinds[k].payload_bytes}));
    }
  }
  return {
      {"title", "By tier and group"},
      {"note", fmt::format("Of the tokens from memory, {} needed pages of other layers from below.",
                           grouped(f.tokens.completed))},
      {"columns",
       {"tier", "group", "pages stored", "loaded", "GiB stored", "GiB loaded",
        "bytes of a payload"}},
      {"rows", std::move(rows)}};
}

/// Outcomes other than done; none: no table.
ordered_json table_of_losses(const TieredFigures& f) {
  ordered_json rows = ordered_json::array();
  for (size_t t = 0; t < num_tiers; ++t) {
    const OneTier& tier = f.tiers[t];
    const auto add = [&](const char* what, const ReasonCounts& outcomes) {
      for (const auto& [outcome, pages] : outcomes)
        if (pages != 0 && outcome != "done")
          rows.push_back(ordered_json::array({tier_names[t], what, outcome, pages}));
    };
    add("load", tier.load_outcomes);
    add("store", tier.store_outcomes);
    add("not loaded", tier.not_loaded);
    add("not stored", tier.not_stored);
  }
  return {{"title", "Pages lost"},
          {"note", "What was not loaded is computed, what was not stored is not there."},
          {"columns", {"tier", "call", "why", "pages"}},
          {"rows", std::move(rows)}};
}

}  // namespace

void add_to_page(const TieredFigures& figures, ordered_json& page, KindNames kinds) {
  page["heading"] = "By tier";
  ordered_json tables = ordered_json::array({table_of_sources(figures)});
  if (!kinds.empty()) tables.push_back(table_of_kinds(figures, kinds));
  ordered_json losses = table_of_losses(figures);
  if (!losses["rows"].empty()) tables.push_back(std::move(losses));
  if (page.contains("tables"))
    for (ordered_json& table : page["tables"]) tables.push_back(std::move(table));
  page["tables"] = std::move(tables);
  page["charts"] = ordered_json::array({sources_chart(figures), load_chart(figures)});
  page["left_out"] =
      "Pictures of the replay are of the pool: what was loaded counts there as not found.";
}

}  // namespace folio::cli
