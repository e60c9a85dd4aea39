// SPDX-License-Identifier: Apache-2.0
/// cli/report/chart_parts.h: what charts of replays have in common, with groups and without.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "replay/recorder.h"
#include "report/charts.h"

namespace folio::cli {

/// One line, area or set of bars.
nlohmann::ordered_json series(const std::string& name, nlohmann::ordered_json values);
/// Behind the others, thin: what jumps.
nlohmann::ordered_json faint(nlohmann::ordered_json one);

nlohmann::ordered_json hit_positions(const PositionHistogram& positions);

/// value(sample) of each.
template <class Sample, class Value>
nlohmann::ordered_json of_samples(const std::vector<Sample>& samples, Value value) {
  nlohmann::ordered_json values = nlohmann::ordered_json::array();
  for (const Sample& sample : samples) values.push_back(value(sample));
  return values;
}

/// The chart over steps. `step`: what a step is: "step" or "request".
template <class Sample>
nlohmann::ordered_json over_steps(const std::vector<Sample>& samples, const std::string& step,
                                  nlohmann::ordered_json chart) {
  chart["x"] = {{"label", step},
                {"values", of_samples(samples, [](const Sample& s) { return s.end; })}};
  return chart;
}

/// Mean and slowest of each sample; `note` stands before what a point is.
template <class Sample>
nlohmann::ordered_json step_times(const std::vector<Sample>& samples, const std::string& step,
                                  std::string note) {
  // Below the clock's grain: nothing to show on a logarithmic axis.
  const auto milliseconds = [](double seconds) {
    return seconds > 0.0 ? shown(seconds * 1e3) : nlohmann::ordered_json();
  };
  const auto mean = [&](const Sample& s) {
    return milliseconds(s.seconds / static_cast<double>(s.steps));
  };
  const auto most = [&](const Sample& s) { return milliseconds(s.most_seconds); };
  const int64_t steps = samples.empty() ? 1 : samples.front().steps;
  note += steps == 1 ? "Each point is one " + step + "."
                     : "Each point stands for " + std::to_string(steps) + " " + step + "s.";
  return over_steps(samples, step,
                    {{"id", "step-time"},
                     {"title", "Time of a " + step},
                     {"note", note},
                     {"kind", "line"},
                     {"y", {{"label", "time"}, {"unit", "ms"}, {"log", true}}},
                     {"series", nlohmann::ordered_json::array(
                                    {series("mean", of_samples(samples, mean)),
                                     faint(series("slowest", of_samples(samples, most)))})}});
}

}  // namespace folio::cli
