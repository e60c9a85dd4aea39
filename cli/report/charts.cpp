// SPDX-License-Identifier: Apache-2.0
/// cli/report/charts.cpp: from samples to series with names and units.
#include "report/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "report/chart_parts.h"

namespace folio::cli {
namespace {

using nlohmann::ordered_json;

ordered_json occupancy(const Recorder& recorder, const std::string& step) {
  const auto pages = [&](const char* name, int64_t StepSample::*field) {
    return series(name,
                  of_samples(recorder.steps(), [&](const StepSample& s) { return s.*field; }));
  };
  return over_steps(recorder.steps(), step,
                    {{"id", "occupancy"},
                     {"wide", "double"},
                     {"title", "Occupancy"},
                     {"note",
                      "Pages that somebody holds, that are held by nobody but can be "
                      "found again, and that are empty."},
                     {"kind", "area"},
                     {"y", {{"label", "pages"}}},
                     {"series", ordered_json::array({pages("used", &StepSample::used_pages),
                                                     pages("cached", &StepSample::cached_pages),
                                                     pages("free", &StepSample::free_pages)})}});
}

ordered_json hit_rate(const Recorder& recorder, const std::string& step) {
  int64_t found = 0, looked = 0;
  const auto so_far = [&](const StepSample& s) {
    return percent(found += s.hit_pages, looked += s.lookup_pages);
  };
  const auto now = [](const StepSample& s) { return percent(s.hit_pages, s.lookup_pages); };
  return over_steps(
      recorder.steps(), step,
      {{"id", "hit-rate"},
       {"title", "Hit rate over time"},
       {"note", "Of the pages that prompts looked for, those that were in the cache."},
       {"kind", "line"},
       {"y", {{"label", "pages found"}, {"unit", "%"}, {"max", 100}}},
       {"series",
        ordered_json::array({series("since the beginning", of_samples(recorder.steps(), so_far)),
                             faint(series("at this time", of_samples(recorder.steps(), now)))})}});
}

ordered_json evictions(const Recorder& recorder, const std::string& step) {
  const auto rate = [](const StepSample& s) {
    return shown(static_cast<double>(s.evicted_pages) / static_cast<double>(s.steps));
  };
  return over_steps(
      recorder.steps(), step,
      {{"id", "evictions"},
       {"title", "Evictions"},
       {"note", "Cached pages that gave way to new content."},
       {"kind", "line"},
       {"y", {{"label", "pages each " + step}}},
       {"series", ordered_json::array({series("evicted", of_samples(recorder.steps(), rate))})}});
}

/// "0", "1", "2-3", "4-7", ...
std::string label_of(size_t bits) {
  if (bits < 2) return bits == 0 ? "0" : "1";
  const uint64_t low = uint64_t{1} << (bits - 1);
  return fmt::format("{}–{}", low, low - 1 + low);
}

ordered_json histogram(const Log2Histogram& histogram, ordered_json chart) {
  size_t used = histogram.counts.size();
  while (used > 1 && histogram.counts[used - 1] == 0) --used;
  ordered_json labels = ordered_json::array(), counts = ordered_json::array();
  for (size_t bits = 0; bits < used; ++bits) {
    labels.push_back(label_of(bits));
    counts.push_back(histogram.counts[bits]);
  }
  chart["kind"] = "bar";
  chart["x"]["values"] = labels;
  chart["y"] = {{"label", "evicted pages"}};
  chart["series"] = ordered_json::array({series("evicted pages", counts)});
  return chart;
}

ordered_json heat_map(const Recorder& recorder) {
  ordered_json ends = ordered_json::array(), found = ordered_json::array(),
               written = ordered_json::array();
  for (const HeatColumn& column : recorder.heat()) {
    ends.push_back(column.end);
    found.push_back(column.found);
    written.push_back(column.written);
  }
  return {{"id", "heat"},
          {"title", "Pages by time"},
          {"note", fmt::format("Each cell: {} page ids; how often prompts found one of them, or "
                               "had one written.",
                               recorder.pages_per_row())},
          {"kind", "heat"},
          {"x", {{"label", "request"}, {"values", ends}}},
          {"y", {{"label", "page id"}, {"step", recorder.pages_per_row()}}},
          {"layers", ordered_json::array({{{"name", "found"}, {"columns", found}},
                                          {{"name", "written"}, {"columns", written}}})}};
}

}  // namespace

ordered_json series(const std::string& name, ordered_json values) {
  return {{"name", name}, {"values", std::move(values)}};
}

ordered_json faint(ordered_json one) {
  one["faint"] = true;
  return one;
}

ordered_json hit_positions(const PositionHistogram& positions) {
  ordered_json at = ordered_json::array(), rates = ordered_json::array();
  int64_t end = 0;
  for (const auto& range : positions.ranges()) {
    at.push_back(end += positions.width());
    rates.push_back(percent(range.found, range.tokens));
  }
  return {{"id", "hit-position"},
          {"title", "Hit rate by position in the prompt"},
          {"note", fmt::format("Each point stands for {} tokens of all prompts that are so long.",
                               positions.width())},
          {"kind", "line"},
          {"x", {{"label", "position"}, {"unit", "tokens"}, {"values", at}}},
          {"y", {{"label", "tokens found"}, {"unit", "%"}, {"max", 100}}},
          {"series", ordered_json::array({series("tokens found", rates)})}};
}

ordered_json shown(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == 0.0) return 0;
  const double scale = std::pow(10.0, 3.0 - std::floor(std::log10(std::fabs(value))));
  const double rounded = std::round(value * scale) / scale;
  if (!std::isfinite(rounded)) return value;
  if (rounded == std::floor(rounded) && std::fabs(rounded) < 1e15)
    return static_cast<int64_t>(rounded);
  return rounded;
}

std::string grouped(int64_t value) {
  std::string digits = fmt::format("{}", value);
  const size_t first = value < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

ordered_json percent(int64_t part, int64_t whole) {
  if (whole <= 0) return nullptr;
  return shown(100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

ordered_json replay_charts(const Recorder& recorder, const std::string& step) {
  return ordered_json::array(
      {occupancy(recorder, step), hit_rate(recorder, step), hit_positions(recorder.positions()),
       evictions(recorder, step),
       histogram(recorder.idle_seconds(),
                 {{"id", "idle-seconds"},
                  {"title", "Age of evicted pages"},
                  {"note", "Time of the trace since the page was last used."},
                  {"x", {{"label", "idle"}, {"unit", "s"}}}}),
       histogram(recorder.idle_requests(),
                 {{"id", "idle-requests"},
                  {"title", "Age of evicted pages in requests"},
                  {"note", "Requests admitted since the page was last used."},
                  {"x", {{"label", "idle"}, {"unit", "requests"}}}}),
       histogram(recorder.finds(),
                 {{"id", "finds"},
                  {"title", "Finds before eviction"},
                  {"note", "How often an evicted page had been found; 0: kept in vain."},
                  {"x", {{"label", "times found"}}}}),
       step_times(recorder.steps(), step, ""), heat_map(recorder)});
}

}  // namespace folio::cli
