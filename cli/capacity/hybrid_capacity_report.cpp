// SPDX-License-Identifier: Apache-2.0
/// cli/capacity/hybrid_capacity_report.cpp: what sizes of an arena find, as table, JSON and page.
#include <fmt/format.h>

#include "capacity/hybrid_capacity.h"
#include "parts/numbers.h"
#include "parts/page.h"
#include "parts/text.h"
#include "report/charts.h"
#include "report/hybrid_report.h"
#include "report/report_page.h"

namespace folio::cli {
namespace {

using nlohmann::ordered_json;

std::string gib(int64_t bytes) { return fmt::format("{:.1f}", gib_of(bytes)); }

std::string method_of(const CapacityOptions& options) {
  const int32_t checkpoint = options.model.checkpoint;
  const std::string states =
      checkpoint != 0 ? fmt::format("a state every {} tokens, ", checkpoint) : "";
  return fmt::format(
      "{}, {}each size replayed in steps of {} tokens, without outputs: a hit needs pages of every "
      "group, and has no stack distance",
      name(options.policy), states, options.steps.step_tokens);
}

std::string need_of(const HybridCapacity& plan) {
  return fmt::format("{} GiB, the longest request; where every layer keeps everything {} GiB",
                     gib(plan.need_bytes), gib(plan.demand.longest_bytes));
}

std::string all_of(const HybridCapacity& plan) {
  return fmt::format("{} GiB, all {} blocks of {:.1f} MiB", gib(plan.distinct * plan.block_bytes),
                     plan.distinct, double(plan.block_bytes) / bytes_per_mib);
}

/// "none" where the memory holds no request.
std::string rate_of(const std::optional<PoolRun>& run, const HybridCapacity& plan) {
  return run ? share(run->hit_tokens, plan.demand.prompt_tokens) : "none";
}

std::string tokens_of(const std::optional<PoolRun>& run) {
  return run ? fmt::format("{}", run->hit_tokens) : "";
}

std::string evicted_of(const std::optional<PoolRun>& run) {
  return run ? fmt::format("{:.1f}", evicted_bytes(*run) / bytes_per_gib) : "";
}

}  // namespace

std::string summary_of(const CapacityOptions& options, const HybridModel& model,
                       const HybridCapacity& plan) {
  Summary text{.width = 10};
  text.line("trace", fmt::format("{}: {} requests, {} prompt tokens", options.trace.file,
                                 plan.demand.requests, plan.demand.prompt_tokens));
  text.line("model", model_line(options.model, model));
  text.line("method", method_of(options));
  text.text += fmt::format("{:>10}{:>10}{:>12}{:>14}{:>14}{:>12}{:>14}{:>14}\n", "GiB", "blocks",
                           "of tokens", "hit tokens", "evicted GiB", "all kept", "hit tokens",
                           "evicted GiB");
  for (const HybridCapacityRow& row : plan.rows) {
    text.text +=
        fmt::format("{:>10}{:>10}{:>12}{:>14}{:>14}{:>12}{:>14}{:>14}\n", gib(row.memory_bytes),
                    row.memory_bytes / plan.block_bytes, rate_of(row.groups, plan),
                    tokens_of(row.groups), evicted_of(row.groups), rate_of(row.uniform, plan),
                    tokens_of(row.uniform), evicted_of(row.uniform));
  }
  text.line("all kept", "as much memory whose layers all keep everything");
  text.line("need", need_of(plan));
  text.line("trace", all_of(plan));
  return text.text;
}

std::string json_of(const CapacityOptions& options, const HybridModel& model,
                    const HybridCapacity& plan) {
  ordered_json j =
      json_head(options.trace, options.model, options.policy, options.steps, model, plan.demand);
  j["method"] = "replays";
  j["page_size"] = options.model.page_size;
  j["checkpoint"] = options.model.checkpoint;
  j["tokens_per_block"] = plan.tokens_per_block;
  j["bytes_per_block"] = plan.block_bytes;
  j["distinct_blocks"] = plan.distinct;
  j["need_bytes"] = plan.need_bytes;
  j["longest_request_bytes"] = plan.demand.longest_bytes;
  j["sizes"] = ordered_json::array();
  const auto run_of = [&](const std::optional<PoolRun>& run) {
    if (!run) return ordered_json();
    ordered_json figures = json_of(*run, plan.demand);
    figures["evicted_bytes"] = evicted_bytes(*run);
    return figures;
  };
  for (const HybridCapacityRow& row : plan.rows) {
    j["sizes"].push_back({{"memory_bytes", row.memory_bytes},
                          {"gib", gib_of(row.memory_bytes)},
                          {"blocks", row.memory_bytes / plan.block_bytes},
                          {"groups", run_of(row.groups)},
                          {"uniform", run_of(row.uniform)}});
  }
  return json_text(j);
}

namespace {

ordered_json charts_of(const HybridCapacity& plan) {
  using Run = std::optional<PoolRun> HybridCapacityRow::*;
  const auto memory = [](const HybridCapacityRow& row) { return shown(gib_of(row.memory_bytes)); };
  const ordered_json x = {{"label", "memory"},
                          {"unit", "GiB"},
                          {"log", true},
                          {"values", of_samples(plan.rows, memory)}};
  const auto both = [&](auto value) {
    const auto line = [&](const std::string& name, Run run) {
      ordered_json one = series(name, of_samples(plan.rows, [&](const HybridCapacityRow& row) {
                                  return row.*run ? value(*(row.*run)) : ordered_json();
                                }));
      one["points"] = one["line"] = true;
      return one;
    };
    return ordered_json::array({line("groups", &HybridCapacityRow::groups),
                                line("every layer keeps everything", &HybridCapacityRow::uniform)});
  };
  return ordered_json::array(
      {{{"id", "capacity-hits"},
        {"title", "Hit rate by memory"},
        {"note", "Prompt tokens found. A memory that does not hold the longest request has none."},
        {"kind", "line"},
        {"x", x},
        {"y", {{"label", "tokens found"}, {"unit", "%"}}},
        {"series", both([&](const PoolRun& run) {
           return percent(run.hit_tokens, plan.demand.prompt_tokens);
         })}},
       {{"id", "capacity-evicted"},
        {"title", "Evicted by memory"},
        {"note", "Cached pages that gave way to new content, in bytes."},
        {"kind", "line"},
        {"x", x},
        {"y", {{"label", "evicted"}, {"unit", "GiB"}}},
        {"series",
         both([](const PoolRun& run) { return shown(evicted_bytes(run) / bytes_per_gib); })}}});
}

ordered_json tables_of(const HybridModel& model, const HybridCapacity& plan) {
  ordered_json rows = ordered_json::array(), groups = ordered_json::array();
  const auto tokens = [](const std::optional<PoolRun>& run) {
    return run ? ordered_json(run->hit_tokens) : ordered_json();
  };
  for (const HybridCapacityRow& row : plan.rows) {
    rows.push_back(ordered_json::array({gib(row.memory_bytes), row.memory_bytes / plan.block_bytes,
                                        rate_of(row.groups, plan), tokens(row.groups),
                                        evicted_of(row.groups), rate_of(row.uniform, plan),
                                        tokens(row.uniform), evicted_of(row.uniform)}));
  }
  for (size_t g = 0; g < plan.groups.size(); ++g)
    groups.push_back(ordered_json::array(
        {title_of(plan.groups[g]), model.kinds[g].layers, plan.groups[g].page_bytes}));
  return ordered_json::array(
      {{{"title", "Sizes"},
        {"note", "All kept: as much memory whose layers all keep everything."},
        {"columns",
         {"GiB", "blocks", "tokens found", "tokens", "evicted, GiB", "found, all kept",
          "tokens, all kept", "evicted, GiB, all kept"}},
        {"rows", rows}},
       {{"title", "Groups"},
        {"columns", {"group", "layers", "bytes of a page"}},
        {"rows", groups}}});
}

}  // namespace

std::string page_of(const CapacityOptions& options, const HybridModel& model,
                    const HybridCapacity& plan) {
  const std::string title = title_of("plan-capacity", options.trace);
  const HybridCapacityRow& last = plan.rows.back();
  ordered_json data;
  data["title"] = title;
  data["heading"] = "Sizes";
  data["facts"] = facts_of_run(options.trace, options.output,
                               {{"model", model_line(options.model, model)},
                                {"method", method_of(options)},
                                {"need", need_of(plan)},
                                {"whole trace", all_of(plan)}});
  data["lead"] =
      "No knee and no curve between the sizes: a hit needs pages of every group, so that stack "
      "distances, by which models with one kind of layer have every size at once, do not apply.";
  data["tiles"] = ordered_json::array(
      {tile("Longest request", gib(plan.need_bytes) + " GiB",
            gib(plan.demand.longest_bytes) + " GiB where every layer keeps everything"),
       tile("Whole trace", gib(plan.distinct * plan.block_bytes) + " GiB",
            "of different blocks, everything of all layers"),
       tile("With " + gib(last.memory_bytes) + " GiB", rate_of(last.groups, plan),
            "of tokens found; all kept: " + rate_of(last.uniform, plan)),
       tile("Requests", grouped(plan.demand.requests),
            grouped(plan.demand.prompt_tokens) + " prompt tokens")});
  data["charts"] = charts_of(plan);
  data["tables"] = tables_of(model, plan);
  return make_page(title, data);
}

}  // namespace folio::cli
