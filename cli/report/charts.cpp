// SPDX-License-Identifier: Apache-2.0
/// cli/report/charts.cpp: from samples to series with names and units.
#include "report/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace folio::cli {
namespace {

using nlohmann::ordered_json;

ordered_json occupancy(const PageRecorder& recorder, const std::string& step) {
  const auto pages = [&](const char* name, auto value) {
    return series(name, of_samples(recorder.steps(), value));
  };
  return over_steps(
      recorder, step,
      {{"id", "occupancy"},
       {"wide", "double"},
       {"title", "Occupancy"},
       {"note",
        "Pages that somebody holds, that are held by nobody but can be "
        "found again, and that are empty."},
       {"kind", "area"},
       {"y", {{"label", "pages"}}},
       {"series", ordered_json::array(
                      {pages("used", [](const StepSample& s) { return s.groups[0].used; }),
                       pages("cached", [](const StepSample& s) { return s.groups[0].cached; }),
                       pages("free", [](const StepSample& s) { return s.free_pages; })})}});
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

ordered_json heat_map(const PageRecorder& recorder) {
  const auto end = [](const HeatColumn& column) { return column.end; };
  const int64_t pages = recorder.places_per_row();
  return {{"id", "heat"},
          {"title", "Pages by time"},
          {"note", fmt::format("Each cell: {} page ids; how often prompts found one of them, or "
                               "had one written.",
                               pages)},
          {"kind", "heat"},
          {"x", {{"label", "request"}, {"values", of_samples(recorder.heat(), end)}}},
          {"y", {{"label", "page id"}, {"step", pages}}},
          {"layers", heat_layers(recorder, {""})}};
}

}  // namespace

ordered_json series(const std::string& name, ordered_json values) {
  return {{"name", name}, {"values", std::move(values)}};
}

ordered_json faint(ordered_json one) {
  one["faint"] = true;
  return one;
}

ordered_json over_steps(const Recorder& recorder, const std::string& step, ordered_json chart) {
  const auto end = [](const StepSample& s) { return s.end; };
  chart["x"] = {{"label", step}, {"values", of_samples(recorder.steps(), end)}};
  return chart;
}

ordered_json hit_rate(const Recorder& recorder, const std::string& step, const std::string& what,
                      const std::string& note) {
  int64_t found = 0, asked = 0;
  const auto so_far = [&](const StepSample& s) {
    return percent(found += s.found, asked += s.asked);
  };
  const auto now = [](const StepSample& s) { return percent(s.found, s.asked); };
  return over_steps(
      recorder, step,
      {{"id", "hit-rate"},
       {"title", "Hit rate over time"},
       {"note", note},
       {"kind", "line"},
       {"y", {{"label", what + " found"}, {"unit", "%"}, {"max", 100}}},
       {"series",
        ordered_json::array({series("since the beginning", of_samples(recorder.steps(), so_far)),
                             faint(series("at this time", of_samples(recorder.steps(), now)))})}});
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

ordered_json evictions(const Recorder& recorder, const std::string& step,
                       const std::vector<std::string>& groups, const std::string& note) {
  ordered_json all = ordered_json::array();
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto rate = [g](const StepSample& s) {
      return shown(static_cast<double>(s.groups[g].evicted) / static_cast<double>(s.steps));
    };
    all.push_back(series(groups[g], of_samples(recorder.steps(), rate)));
  }
  return over_steps(recorder, step,
                    {{"id", "evictions"},
                     {"title", "Evictions"},
                     {"note", note},
                     {"kind", "line"},
                     {"y", {{"label", "pages each " + step}}},
                     {"series", all}});
}

ordered_json step_times(const Recorder& recorder, const std::string& step, std::string note) {
  // Below the clock's grain: nothing to show on a logarithmic axis.
  const auto milliseconds = [](double seconds) {
    return seconds > 0.0 ? shown(seconds * 1e3) : ordered_json();
  };
  const auto mean = [&](const StepSample& s) {
    return milliseconds(s.seconds / static_cast<double>(s.steps));
  };
  const auto most = [&](const StepSample& s) { return milliseconds(s.most_seconds); };
  const auto& samples = recorder.steps();
  const int64_t steps = samples.empty() ? 1 : samples.front().steps;
  note += steps == 1 ? "Each point is one " + step + "."
                     : fmt::format("Each point stands for {} {}s.", steps, step);
  return over_steps(
      recorder, step,
      {{"id", "step-time"},
       {"title", "Time of a " + step},
       {"note", note},
       {"kind", "line"},
       {"y", {{"label", "time"}, {"unit", "ms"}, {"log", true}}},
       {"series", ordered_json::array({series("mean", of_samples(samples, mean)),
                                       faint(series("slowest", of_samples(samples, most)))})}});
}

ordered_json heat_layers(const Recorder& recorder, const std::vector<std::string>& groups) {
  const auto rows = static_cast<std::ptrdiff_t>(recorder.heat_rows());
  ordered_json layers = ordered_json::array();
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto add = [&](const char* what, std::vector<uint32_t> HeatColumn::*field) {
      const auto of_group = [&](const HeatColumn& column) {
        const auto first = (column.*field).begin() + static_cast<std::ptrdiff_t>(g) * rows;
        return std::vector<uint32_t>(first, first + rows);
      };
      layers.push_back(
          {{"name", what + groups[g]}, {"columns", of_samples(recorder.heat(), of_group)}});
    };
    add("found", &HeatColumn::found);
    add("written", &HeatColumn::written);
  }
  return layers;
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

ordered_json percent(int64_t part, int64_t whole) {
  if (whole <= 0) return nullptr;
  return shown(100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

ordered_json replay_charts(const PageRecorder& recorder, const std::string& step) {
  return ordered_json::array(
      {occupancy(recorder, step),
       hit_rate(recorder, step, "pages",
                "Of the pages that prompts looked for, those that were in the cache."),
       hit_positions(recorder.positions()),
       evictions(recorder, step, {"evicted"}, "Cached pages that gave way to new content."),
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
       step_times(recorder, step, ""), heat_map(recorder)});
}

}  // namespace folio::cli
