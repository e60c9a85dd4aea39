// SPDX-License-Identifier: Apache-2.0
/// cli/report/hybrid_charts.cpp: from samples of groups to series with names and units.
#include "report/hybrid_charts.h"

#include <fmt/format.h>

#include <utility>

#include "parts/numbers.h"
#include "report/charts.h"

namespace folio::cli {
namespace {

using nlohmann::ordered_json;

/// Bytes that steps hold, of all groups.
double used_gib(const GroupRecorder& recorder, const StepSample& sample) {
  double gib = 0.0;
  for (size_t g = 0; g < sample.groups.size(); ++g)
    gib += gib_of(sample.groups[g].used, recorder.page_bytes(g));
  return gib;
}

std::vector<std::string> names_of(const PoolRun& run, const std::string& front = "") {
  std::vector<std::string> names;
  names.reserve(run.groups.size());
  for (const GroupUse& group : run.groups) names.push_back(front + title_of(group.options));
  return names;
}

ordered_json occupancy(const PoolRun& run) {
  const GroupRecorder& recorder = *run.recorder;
  ordered_json all = ordered_json::array();
  const auto add = [&](const std::string& name, int64_t GroupPages::*field, size_t g) {
    const auto value = [&](const StepSample& s) {
      return shown(gib_of(s.groups[g].*field, recorder.page_bytes(g)));
    };
    all.push_back(series(name, of_samples(recorder.steps(), value)));
  };
  for (size_t g = 0; g < run.groups.size(); ++g)
    add(title_of(run.groups[g].options) + ", used", &GroupPages::used, g);
  for (size_t g = 0; g < run.groups.size(); ++g)
    add(title_of(run.groups[g].options) + ", cached", &GroupPages::cached, g);
  const auto free = [&](const StepSample& s) {
    double gib = gib_of(recorder.arena_bytes()) - used_gib(recorder, s);
    for (size_t g = 0; g < s.groups.size(); ++g)
      gib -= gib_of(s.groups[g].cached, recorder.page_bytes(g));
    return shown(gib);
  };
  all.push_back(series("free", of_samples(recorder.steps(), free)));
  return over_steps(recorder, "step",
                    {{"id", "occupancy"},
                     {"wide", "double"},
                     {"title", "Occupancy"},
                     {"note",
                      "Memory of each group's pages that somebody holds, that are held by nobody "
                      "but can be found again, and the rest of the arena."},
                     {"kind", "area"},
                     {"y", {{"label", "memory"}, {"unit", "GiB"}}},
                     {"series", all}});
}

ordered_json saved(const GroupRecorder& recorder) {
  const auto used = [&](const StepSample& s) { return shown(used_gib(recorder, s)); };
  const auto everything = [](const StepSample& s) { return shown(gib_of(s.everything_bytes)); };
  const auto difference = [&](const StepSample& s) {
    return shown(gib_of(s.everything_bytes) - used_gib(recorder, s));
  };
  const auto& steps = recorder.steps();
  return over_steps(
      recorder, "step",
      {{"id", "saved"},
       {"title", "Memory saved"},
       {"note", "What steps hold, and what they would if every layer kept everything."},
       {"kind", "line"},
       {"y", {{"label", "memory"}, {"unit", "GiB"}}},
       {"series", ordered_json::array(
                      {series("held", of_samples(steps, used)),
                       series("if every layer kept everything", of_samples(steps, everything)),
                       series("saved", of_samples(steps, difference))})}});
}

/// The arena by time.
ordered_json heat_map(const PoolRun& run) {
  const GroupRecorder& recorder = *run.recorder;
  const int64_t slabs = recorder.places_per_row();
  ordered_json chart = {
      {"id", "heat"},
      {"title", "Pages by time"},
      {"note",
       fmt::format("Each cell: {} slabs of {:.2f} MiB, which groups pass to each other; how often "
                   "prompts found a page in one of them, or had one written.",
                   slabs, static_cast<double>(recorder.slab_bytes()) / bytes_per_mib)},
      {"kind", "heat"},
      {"y", {{"label", "slab"}, {"step", slabs}}},
      {"layers", heat_layers(recorder, names_of(run, ": "))}};
  const auto end = [](const HeatColumn& column) { return column.end; };
  chart["x"] = {{"label", "step"}, {"values", of_samples(recorder.heat(), end)}};
  return chart;
}

/// Bars for each policy. `series`: with values in the order of the runs.
ordered_json by_policy(const HybridPolicies& runs, ordered_json chart) {
  ordered_json names = ordered_json::array();
  for (const HybridPolicy& run : runs) names.push_back(name(run.policy));
  chart["kind"] = "bar";
  chart["x"] = {{"label", "policy"}, {"values", names}};
  return chart;
}

}  // namespace

ordered_json hybrid_charts(const PoolRun& run) {
  const GroupRecorder& recorder = *run.recorder;
  return ordered_json::array(
      {occupancy(run), saved(recorder),
       hit_rate(recorder, "step", "tokens",
                "Of the tokens of new requests' prompts, those that every group had."),
       hit_positions(recorder.positions()),
       evictions(recorder, "step", names_of(run),
                 "Cached pages of each group that gave way to new content."),
       step_times(recorder, "step",
                  run.kernels.empty() ? "The pool's part: nothing is computed. " : ""),
       heat_map(run)});
}

ordered_json hybrid_policy_charts(const HybridPolicies& runs) {
  const TraceDemand& demand = runs.front().figures.demand;
  const auto rate = [&](const HybridPolicy& run) {
    return percent(run.figures.groups.hit_tokens, demand.prompt_tokens);
  };
  const auto uniform = [&](const HybridPolicy& run) {
    return run.figures.uniform ? percent(run.figures.uniform->hit_tokens, demand.prompt_tokens)
                               : ordered_json();
  };
  ordered_json evicted = ordered_json::array();
  const std::vector<GroupUse>& groups = runs.front().figures.groups.groups;
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto gib = [g](const HybridPolicy& run) {
      const GroupUse& group = run.figures.groups.groups[g];
      return shown(gib_of(group.evicted_pages, group.page_bytes));
    };
    evicted.push_back(series(title_of(groups[g].options), of_samples(runs, gib)));
  }
  return ordered_json::array(
      {by_policy(runs, {{"id", "policies"},
                        {"title", "Policies side by side"},
                        {"note",
                         "Prompt tokens found, by the groups and by as much memory whose "
                         "layers all keep everything."},
                        {"y", {{"label", "tokens found"}, {"unit", "%"}}},
                        {"series", ordered_json::array({series("groups", of_samples(runs, rate)),
                                                        series("every layer keeps everything",
                                                               of_samples(runs, uniform))})}}),
       by_policy(runs, {{"id", "policies-evicted"},
                        {"title", "Evicted by each policy"},
                        {"note", "Pages of each group that gave way, in bytes."},
                        {"y", {{"label", "evicted"}, {"unit", "GiB"}}},
                        {"series", evicted}})});
}

}  // namespace folio::cli
