// SPDX-License-Identifier: Apache-2.0
/// cli/report/hybrid_charts.cpp: from samples of groups to series with names and units.
#include "report/hybrid_charts.h"

#include <fmt/format.h>

#include <utility>

#include "report/chart_parts.h"

namespace folio::cli {
namespace {

using nlohmann::ordered_json;

constexpr double bytes_per_gib = 1024.0 * 1024.0 * 1024.0;

double gib_of(int64_t pages, int64_t page_bytes) {
  return static_cast<double>(pages) * static_cast<double>(page_bytes) / bytes_per_gib;
}

/// Bytes that steps hold, of all groups.
double used_gib(const HybridRecorder& recorder, const HybridSample& sample) {
  double gib = 0.0;
  for (size_t g = 0; g < sample.groups.size(); ++g)
    gib += gib_of(sample.groups[g].used, recorder.page_bytes(g));
  return gib;
}

ordered_json occupancy(const PoolRun& run) {
  const HybridRecorder& recorder = *run.recorder;
  ordered_json all = ordered_json::array();
  const auto add = [&](const std::string& name, int64_t GroupPages::*field, size_t g) {
    const auto value = [&](const HybridSample& s) {
      return shown(gib_of(s.groups[g].*field, recorder.page_bytes(g)));
    };
    all.push_back(series(name, of_samples(recorder.steps(), value)));
  };
  for (size_t g = 0; g < run.groups.size(); ++g)
    add(title_of(run.groups[g].options) + ", used", &GroupPages::used, g);
  for (size_t g = 0; g < run.groups.size(); ++g)
    add(title_of(run.groups[g].options) + ", cached", &GroupPages::cached, g);
  const auto free = [&](const HybridSample& s) {
    double gib = gib_of(recorder.arena_bytes(), 1) - used_gib(recorder, s);
    for (size_t g = 0; g < s.groups.size(); ++g)
      gib -= gib_of(s.groups[g].cached, recorder.page_bytes(g));
    return shown(gib);
  };
  all.push_back(series("free", of_samples(recorder.steps(), free)));
  return over_steps(recorder.steps(), "step",
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

ordered_json saved(const HybridRecorder& recorder) {
  const auto used = [&](const HybridSample& s) { return shown(used_gib(recorder, s)); };
  const auto everything = [](const HybridSample& s) {
    return shown(gib_of(s.everything_bytes, 1));
  };
  const auto difference = [&](const HybridSample& s) {
    return shown(gib_of(s.everything_bytes, 1) - used_gib(recorder, s));
  };
  const auto& steps = recorder.steps();
  return over_steps(
      steps, "step",
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

ordered_json hit_rate(const HybridRecorder& recorder) {
  int64_t found = 0, looked = 0;
  const auto so_far = [&](const HybridSample& s) {
    return percent(found += s.hit_tokens, looked += s.prompt_tokens);
  };
  const auto now = [](const HybridSample& s) { return percent(s.hit_tokens, s.prompt_tokens); };
  const auto& steps = recorder.steps();
  return over_steps(
      steps, "step",
      {{"id", "hit-rate"},
       {"title", "Hit rate over time"},
       {"note", "Of the tokens of new requests' prompts, those that every group had."},
       {"kind", "line"},
       {"y", {{"label", "tokens found"}, {"unit", "%"}, {"max", 100}}},
       {"series", ordered_json::array({series("since the beginning", of_samples(steps, so_far)),
                                       faint(series("at this time", of_samples(steps, now)))})}});
}

ordered_json evictions(const PoolRun& run) {
  const auto& steps = run.recorder->steps();
  ordered_json all = ordered_json::array();
  for (size_t g = 0; g < run.groups.size(); ++g) {
    const auto rate = [g](const HybridSample& s) {
      return shown(static_cast<double>(s.groups[g].evicted) / static_cast<double>(s.steps));
    };
    all.push_back(series(title_of(run.groups[g].options), of_samples(steps, rate)));
  }
  return over_steps(steps, "step",
                    {{"id", "evictions"},
                     {"title", "Evictions"},
                     {"note", "Cached pages of each group that gave way to new content."},
                     {"kind", "line"},
                     {"y", {{"label", "pages each step"}}},
                     {"series", all}});
}

/// The arena by time, a layer for what was found and written in each group.
ordered_json heat_map(const PoolRun& run) {
  const HybridRecorder& recorder = *run.recorder;
  const auto rows = static_cast<std::ptrdiff_t>(recorder.heat_rows());
  ordered_json layers = ordered_json::array();
  const auto add = [&](const std::string& name, std::vector<uint32_t> HeatColumn::*field,
                       size_t g) {
    const auto value = [&](const HeatColumn& column) {
      const auto first = (column.*field).begin() + static_cast<std::ptrdiff_t>(g) * rows;
      return std::vector<uint32_t>(first, first + rows);
    };
    layers.push_back({{"name", name}, {"columns", of_samples(recorder.heat(), value)}});
  };
  for (size_t g = 0; g < run.groups.size(); ++g) {
    const std::string group = title_of(run.groups[g].options);
    add("found: " + group, &HeatColumn::found, g);
    add("written: " + group, &HeatColumn::written, g);
  }
  return over_steps(
      recorder.heat(), "step",
      {{"id", "heat"},
       {"title", "Pages by time"},
       {"note",
        fmt::format("Each cell: {} slabs of {:.2f} MiB, which groups pass to each other; how often "
                    "prompts found a page in one of them, or had one written.",
                    recorder.slabs_per_row(),
                    static_cast<double>(recorder.slab_bytes()) / (1024.0 * 1024.0))},
       {"kind", "heat"},
       {"y", {{"label", "slab"}, {"step", recorder.slabs_per_row()}}},
       {"layers", layers}});
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
  const HybridRecorder& recorder = *run.recorder;
  return ordered_json::array(
      {occupancy(run), saved(recorder), hit_rate(recorder), hit_positions(recorder.positions()),
       evictions(run),
       step_times(recorder.steps(), "step",
                  run.kernels.empty() ? "The pool's part: nothing is computed. " : ""),
       heat_map(run)});
}

ordered_json hybrid_policy_charts(const HybridPolicies& runs) {
  const HybridDemand& demand = runs.front().figures.demand;
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
