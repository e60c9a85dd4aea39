// SPDX-License-Identifier: Apache-2.0
/// cli/report/hybrid_page.cpp: figures, tables and charts of models with groups as the data of a
/// page.
#include <fmt/format.h>

#include "parts/numbers.h"
#include "parts/page.h"
#include "report/charts.h"
#include "report/hybrid_charts.h"
#include "report/report_page.h"
#include "report/tier_report.h"

namespace folio::cli {
namespace {

using nlohmann::ordered_json;

std::string gib(double bytes) { return shown_gib(bytes) + " GiB"; }

ordered_json facts_of(const ReplayOptions& options, const HybridModel& model,
                      const HybridFigures& f) {
  Facts facts = {
      {"model", model_line(options.model, model)},
      {"compute", f.groups.kernels.empty() ? "none: pages and tables only" : f.groups.kernels},
      {"order", order_of(options.steps)},
      {"cache", cache_of(options.model, options.cache, f)}};
  if (!options.cache.policy.all) facts.emplace_back("eviction", name(options.cache.policy));
  return facts_of_run(options.trace, options.output, facts);
}

/// What the layers are and what a page of them is.
ordered_json sizes_table(const HybridModel& model, const HybridFigures& f) {
  ordered_json rows = ordered_json::array();
  for (size_t g = 0; g < f.groups.groups.size(); ++g) {
    const GroupUse& group = f.groups.groups[g];
    rows.push_back(ordered_json::array({title_of(group.options), model.kinds[g].layers,
                                        group.page_size, group.page_bytes, group.pages}));
  }
  return {{"title", "Groups"},
          {"note", "Pages: as many as the group would have with the whole memory."},
          {"columns", {"group", "layers", "tokens of a page", "bytes of a page", "pages"}},
          {"rows", rows}};
}

ordered_json use_table(const HybridFigures& f) {
  ordered_json rows = ordered_json::array();
  const auto number = [](double bytes) { return shown_gib(bytes); };
  for (const GroupUse& group : f.groups.groups) {
    const auto bytes = static_cast<double>(group.page_bytes);
    rows.push_back(ordered_json::array(
        {title_of(group.options), number(mean_pages(f.groups, group) * bytes),
         number(static_cast<double>(group.peak_pages) * bytes), group.given_back, group.copies,
         group.evicted_pages, group.cached_pages}));
  }
  const auto add = [&](const char* label, const BytesInUse& bytes) {
    rows.push_back(
        ordered_json::array({label, number(bytes.mean), number(static_cast<double>(bytes.peak)),
                             nullptr, nullptr, nullptr, nullptr}));
  };
  add("together", f.groups.used);
  add("if every layer kept everything", f.groups.everything);
  return {
      {"title", "What steps hold"},
      {"note",
       "Given back: pages that running sequences left behind. Copied: because a hit ended inside "
       "them."},
      {"columns",
       {"group", "mean, GiB", "peak, GiB", "pages given back", "pages copied", "pages evicted",
        "pages cached at the end"}},
      {"rows", rows}};
}

ordered_json pools_table(const HybridFigures& f) {
  ordered_json rows = ordered_json::array();
  const auto add = [&](const char* label, const PoolRun& run) {
    rows.push_back(ordered_json::array({label, share(run.hit_tokens, f.demand.prompt_tokens),
                                        run.hit_tokens, run.partial_tokens, run.steps,
                                        run.computed_tokens, run.again_tokens, run.preemptions}));
  };
  add("groups", f.groups);
  if (f.uniform) add("every layer keeps everything", *f.uniform);
  const std::string none =
      f.no_tier.empty()
          ? fmt::format(
                "With every layer keeping everything, the request in line {} needs {}: more "
                "than there is.",
                f.demand.longest_line, gib(static_cast<double>(f.demand.longest_bytes)))
          : "With every layer keeping everything, " + f.no_tier;
  return {{"title", "What the memory finds"},
          {"note", f.uniform ? "" : none},
          {"columns",
           {"pool", "of tokens", "tokens found", "of these inside pages", "steps",
            "tokens computed", "of these again", "preemptions"}},
          {"rows", rows}};
}

ordered_json policy_table(const HybridPolicies& runs) {
  const std::vector<GroupUse>& groups = runs.front().figures.groups.groups;
  ordered_json columns = {"policy", "of tokens", "tokens found", "of tokens, all kept"};
  for (const GroupUse& group : groups) columns.push_back("evicted, " + title_of(group.options));
  for (const char* name : {"evicted, GiB", "mean held, GiB", "peak held, GiB", "preemptions"})
    columns.push_back(name);
  ordered_json rows = ordered_json::array();
  for (const HybridPolicy& run : runs) {
    const HybridFigures& f = run.figures;
    const int64_t prompts = f.demand.prompt_tokens;
    ordered_json row = {name(run.policy), share(f.groups.hit_tokens, prompts), f.groups.hit_tokens,
                        f.uniform ? share(f.uniform->hit_tokens, prompts) : "none"};
    for (const GroupUse& group : f.groups.groups) row.push_back(group.evicted_pages);
    row.push_back(shown_gib(evicted_bytes(f.groups)));
    row.push_back(shown_gib(f.groups.used.mean));
    row.push_back(shown_gib(static_cast<double>(f.groups.used.peak)));
    row.push_back(f.groups.preemptions);
    rows.push_back(std::move(row));
  }
  return {{"title", "Policies"},
          {"note", "All kept: as much memory whose layers all keep everything."},
          {"columns", columns},
          {"rows", rows}};
}

ordered_json saved_tile(const HybridFigures& f) {
  const BytesInUse &used = f.groups.used, &everything = f.groups.everything;
  const double mean = ratio(everything.mean - used.mean, everything.mean);
  return tile("Saved", fmt::format("{:.1f} %", 100.0 * mean),
              fmt::format("in the mean; between the peaks {}",
                          share(everything.peak - used.peak, everything.peak)));
}

ordered_json requests_tile(const HybridFigures& f) {
  return tile("Requests", grouped(f.demand.requests),
              grouped(f.demand.prompt_tokens) + " prompt tokens");
}

void add_tiers(const PoolRun& run, const TieredFigures& tiers, const TraceDemand& demand,
               ordered_json& data) {
  const TokensBySource& tokens = tiers.tokens;
  data["tiles"][0] =
      tile("Tokens found", share(run.hit_tokens, demand.prompt_tokens),
           fmt::format("{} in memory, {} below", share(tokens.memory, tokens.asked()),
                       share(tokens.in_tiers(), tokens.asked())));
  const std::string of_groups = data["left_out"].get<std::string>();
  add_to_page(tiers, data, titles_of(run));
  data["heading"] = "Tiers and groups";
  data["left_out"] = of_groups + " " + data["left_out"].get<std::string>();
}

}  // namespace

std::string page_of(const ReplayOptions& options, const HybridModel& model,
                    const HybridFigures& f) {
  const PoolRun& run = f.groups;
  const int64_t prompts = f.demand.prompt_tokens;
  ordered_json data;
  data["title"] = title_of("replay", options.trace);
  data["heading"] = "Groups";
  data["facts"] = facts_of(options, model, f);
  data["tiles"] = ordered_json::array(
      {tile("Tokens found", share(run.hit_tokens, prompts),
            fmt::format("{} of {} prompt tokens", grouped(run.hit_tokens), grouped(prompts))),
       tile("All layers full", f.uniform ? share(f.uniform->hit_tokens, prompts) : "none",
            fmt::format("found by as much memory{} whose layers all keep everything",
                        run.tiers ? " and tiers" : "")),
       saved_tile(f),
       tile("Held at most", gib(static_cast<double>(run.used.peak)),
            "of " + gib(static_cast<double>(f.memory_bytes))),
       tile("Evicted", gib(evicted_bytes(run)), "by " + name(options.cache.policy)),
       requests_tile(f),
       tile("Step", duration(ratio(run.pool_seconds, static_cast<double>(run.steps))),
            fmt::format("of the pool, in the mean of {}", grouped(run.steps)))});
  data["tables"] = ordered_json::array({sizes_table(model, f), use_table(f), pools_table(f)});
  data["runs"] =
      ordered_json::array({{{"name", name(options.cache.policy)}, {"charts", hybrid_charts(run)}}});
  data["left_out"] = left_out;
  if (run.tiers) add_tiers(run, *run.tiers, f.demand, data);
  return make_page(title_of("replay", options.trace), data);
}

std::string page_of(const ReplayOptions& options, const HybridModel& model,
                    const HybridPolicies& runs) {
  const HybridFigures& first = runs.front().figures;
  const HybridPolicy* best = &runs.front();
  for (const HybridPolicy& run : runs)
    if (run.figures.groups.hit_tokens > best->figures.groups.hit_tokens) best = &run;
  ordered_json data;
  data["title"] = title_of("replay", options.trace);
  data["lead"] = fmt::format(
      "The offline optimum: {}. Hit rates over time are each policy's own: under another one the "
      "trace takes other steps.",
      no_optimum);
  data["facts"] = facts_of(options, model, first);
  data["tiles"] = ordered_json::array(
      {tile("Best policy", name(best->policy),
            fmt::format("{} tokens found", grouped(best->figures.groups.hit_tokens))),
       tile("Tokens found", share(best->figures.groups.hit_tokens, first.demand.prompt_tokens),
            "by " + name(best->policy)),
       tile("Memory", gib(static_cast<double>(first.memory_bytes)), "shared by the groups"),
       requests_tile(first)});
  data["tables"] = ordered_json::array({policy_table(runs), sizes_table(model, first)});
  data["charts"] = hybrid_policy_charts(runs);
  data["runs"] = ordered_json::array();
  for (const HybridPolicy& run : runs) {
    data["runs"].push_back(
        {{"name", name(run.policy)}, {"charts", hybrid_charts(run.figures.groups)}});
  }
  data["left_out"] = left_out;
  return make_page(title_of("replay", options.trace), data);
}

}  // namespace folio::cli
