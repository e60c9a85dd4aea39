// SPDX-License-Identifier: Apache-2.0
/// cli/report/charts.h: charts of a report as the JSON that cli/parts/page/report.js draws.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "parts/text.h"
#include "replay/recorder.h"

namespace folio::cli {

/// Four significant digits: what a picture shows. Not finite: null.
nlohmann::ordered_json shown(double value);
/// 100 * part / whole; null without a whole.
nlohmann::ordered_json percent(int64_t part, int64_t whole);

/// All charts of one replay. `step`: what a step is, for an axis: "step" or "request".
nlohmann::ordered_json replay_charts(const PageRecorder& recorder, const std::string& step);

// What charts of replays have in common, with groups and without. `step`: as above.

/// One line, area or set of bars.
nlohmann::ordered_json series(const std::string& name, nlohmann::ordered_json values);
/// Behind the others, thin: what jumps.
nlohmann::ordered_json faint(nlohmann::ordered_json one);

/// value(sample) of each.
template <class Sample, class Value>
nlohmann::ordered_json of_samples(const std::vector<Sample>& samples, Value value) {
  nlohmann::ordered_json values = nlohmann::ordered_json::array();
  for (const Sample& sample : samples) values.push_back(value(sample));
  return values;
}

/// The chart over steps.
nlohmann::ordered_json over_steps(const Recorder& recorder, const std::string& step,
                                  nlohmann::ordered_json chart);
/// `what` is found: "pages" or "tokens".
nlohmann::ordered_json hit_rate(const Recorder& recorder, const std::string& step,
                                const std::string& what, const std::string& note);
nlohmann::ordered_json hit_positions(const PositionHistogram& positions);
/// A line for each group, which has a name.
nlohmann::ordered_json evictions(const Recorder& recorder, const std::string& step,
                                 const std::vector<std::string>& groups, const std::string& note);
/// Mean and slowest of each sample; `note` stands before what a point is.
nlohmann::ordered_json step_times(const Recorder& recorder, const std::string& step,
                                  std::string note);
/// Layers of a heat map: what was found and written in each group. `groups`: behind their names.
nlohmann::ordered_json heat_layers(const Recorder& recorder,
                                   const std::vector<std::string>& groups);

}  // namespace folio::cli
