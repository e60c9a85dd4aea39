// SPDX-License-Identifier: Apache-2.0
/// cli/capacity/capacity_report.cpp: a capacity plan as table, JSON and page.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "capacity/capacity.h"
#include "parts/numbers.h"
#include "parts/page.h"
#include "parts/text.h"
#include "report/charts.h"
#include "report/report_page.h"

namespace folio::cli {
namespace {

using nlohmann::ordered_json;

double blocks_gib(const CapacityPlan& plan, int64_t blocks) {
  return gib_of(blocks, plan.bytes_per_block);
}

int64_t again(const CapacityPlan& plan, const BlockCounts& counts) {
  return plan.most_hit_tokens - counts.hit_tokens;
}

int64_t engine_pages(const CapacityOptions& options, const CapacityPlan& plan, int64_t blocks) {
  return blocks * (plan.tokens_per_block / options.model.page_size);
}

std::string model_of(const CapacityOptions& options, const CapacityPlan& plan) {
  const ModelShape& m = options.model.sizes;
  return fmt::format(
      "{}, {} layers, {} KV heads of {}, {}: {} bytes a token, {:.1f} MiB a block "
      "of {} tokens",
      options.model.name, m.layers, m.kv_heads, m.head_size, describe(options.model.kv),
      plan.bytes_per_token, static_cast<double>(plan.bytes_per_block) / bytes_per_mib,
      plan.tokens_per_block);
}

std::string method_of(const CapacityOptions& options, const CapacityPlan& plan) {
  return plan.is_exact ? "lru, every size at once by stack distances: exact"
                       : name(options.policy) + ", each size replayed through the pool";
}

std::string knee_of(const CapacityPlan& plan) {
  if (plan.knee == 0) return "none: nothing is found";
  return fmt::format("{} blocks, {:.1f} GiB: beyond it, memory finds less and less", plan.knee,
                     blocks_gib(plan, plan.knee));
}

std::string shown_gib(const CapacityPlan& plan, int64_t blocks) {
  return fmt::format("{:.1f}", blocks_gib(plan, blocks));
}

std::string shown_rate(const CapacityPlan& plan, const BlockCounts& counts) {
  return fmt::format("{:.2f} %", 100.0 * ratio(counts.hit_tokens, plan.prompt_tokens));
}

double tenths(double value) { return std::round(value * 10.0) / 10.0; }

/// Of a tile: short.
std::string number(double value) {
  return value < 1000.0 ? fmt::format("{:.1f}", value) : grouped(std::llround(value));
}

}  // namespace

std::string summary_of(const CapacityOptions& options, const CapacityPlan& plan) {
  Summary text{.width = 10};
  text.line("trace",
            fmt::format("{}: {} requests, {} prompt tokens, {} different blocks",
                        options.trace.file, plan.requests, plan.prompt_tokens, plan.distinct));
  text.line("model", model_of(options, plan));
  text.line("method", method_of(options, plan));
  text.text += fmt::format("{:>10}{:>10}{:>14}{:>12}{:>12}{:>15}{:>12}{:>12}\n", "blocks", "GiB",
                           fmt::format("pages of {}", options.model.page_size), "hit blocks",
                           "of tokens", "computed again", "evicted", "optimum");
  for (const CapacityRow& row : plan.rows) {
    text.text +=
        fmt::format("{:>10}{:>10}{:>14}{:>12}{:>12}{:>15}{:>12}{:>12}\n", row.blocks,
                    shown_gib(plan, row.blocks), engine_pages(options, plan, row.blocks),
                    row.counts.hit_blocks, shown_rate(plan, row.counts), again(plan, row.counts),
                    row.counts.evicted_blocks, shown_rate(plan, row.optimum));
  }
  text.line("knee", knee_of(plan));
  std::string shares;
  for (const auto& share : plan.shares) {
    shares += fmt::format("{}{} % with {} GiB", shares.empty() ? "" : ", ", share.percent,
                          shown_gib(plan, share.blocks));
  }
  if (!shares.empty()) text.line("of hits", shares);
  return text.text;
}

std::string json_of(const CapacityOptions& options, const CapacityPlan& plan) {
  const ModelOptions& model = options.model;
  ordered_json j;
  j["trace"] = options.trace.file;
  j["requests"] = plan.requests;
  j["prompt_tokens"] = plan.prompt_tokens;
  j["distinct_blocks"] = plan.distinct;
  j["tokens_per_block"] = plan.tokens_per_block;
  j["page_size"] = model.page_size;
  j["model"] = model.name;
  j["layers"] = model.sizes.layers;
  j["kv_heads"] = model.sizes.kv_heads;
  j["head_size"] = model.sizes.head_size;
  j["kv_dtype"] = name(model.kv.dtype);
  j["kv_format"] = describe(model.kv);
  j["bytes_per_token"] = plan.bytes_per_token;
  j["bytes_per_block"] = plan.bytes_per_block;
  j["policy"] = name(options.policy);
  j["method"] = plan.is_exact ? "stack distances" : "replays";
  j["most_hit_tokens"] = plan.most_hit_tokens;
  j["sizes"] = ordered_json::array();
  for (const CapacityRow& row : plan.rows) {
    ordered_json r;
    r["blocks"] = row.blocks;
    r["gib"] = blocks_gib(plan, row.blocks);
    r["pages"] = engine_pages(options, plan, row.blocks);
    r["lookup_blocks"] = row.counts.lookup_blocks;
    r["hit_blocks"] = row.counts.hit_blocks;
    r["hit_tokens"] = row.counts.hit_tokens;
    r["hit_rate_blocks"] = ratio(row.counts.hit_blocks, row.counts.lookup_blocks);
    r["hit_rate_tokens"] = ratio(row.counts.hit_tokens, plan.prompt_tokens);
    r["saved_work"] = row.counts.saved_work;
    r["tokens_computed_again"] = again(plan, row.counts);
    r["evicted_blocks"] = row.counts.evicted_blocks;
    r["optimum_hit_blocks"] = row.optimum.hit_blocks;
    r["optimum_hit_rate_tokens"] = ratio(row.optimum.hit_tokens, plan.prompt_tokens);
    j["sizes"].push_back(std::move(r));
  }
  j["knee_blocks"] = plan.knee > 0 ? ordered_json(plan.knee) : ordered_json();
  j["knee_gib"] = plan.knee > 0 ? ordered_json(blocks_gib(plan, plan.knee)) : ordered_json();
  j["shares"] = ordered_json::array();
  for (const auto& share : plan.shares) {
    j["shares"].push_back({{"percent", share.percent},
                           {"blocks", share.blocks},
                           {"gib", blocks_gib(plan, share.blocks)}});
  }
  return json_text(j);
}

namespace {

/// Sizes that the charts show, with what each series has there.
struct ChartSize {
  ordered_json policy, optimum, knee, again, optimum_again;
};

ordered_json charts_of(const CapacityOptions& options, const CapacityPlan& plan) {
  std::map<int64_t, ChartSize> sizes;
  for (const auto& point : plan.curve) {
    ChartSize& size = sizes[point.blocks];
    size.policy = percent(point.hit_tokens, plan.prompt_tokens);
    size.again = plan.most_hit_tokens - point.hit_tokens;
    if (point.blocks == plan.knee) size.knee = size.policy;
  }
  for (const CapacityRow& row : plan.rows) {
    ChartSize& size = sizes[row.blocks];
    size.policy = percent(row.counts.hit_tokens, plan.prompt_tokens);
    size.again = again(plan, row.counts);
    size.optimum = percent(row.optimum.hit_tokens, plan.prompt_tokens);
    size.optimum_again = again(plan, row.optimum);
  }
  ordered_json x = ordered_json::array(), policy = x, optimum = x, knee = x, more = x, least = x;
  for (const auto& [blocks, size] : sizes) {
    x.push_back(shown(blocks_gib(plan, blocks)));
    policy.push_back(size.policy);
    optimum.push_back(size.optimum);
    knee.push_back(size.knee);
    more.push_back(size.again);
    least.push_back(size.optimum_again);
  }
  const ordered_json axis = {{"label", "memory"}, {"unit", "GiB"}, {"log", true}, {"values", x}};
  const std::string by = name(options.policy);
  return ordered_json::array(
      {{{"id", "capacity-hits"},
        {"title", "Hit rate by memory"},
        {"note", "Prompt tokens found. The optimum knows the future: no policy finds more."},
        {"kind", "line"},
        {"x", axis},
        {"y", {{"label", "tokens found"}, {"unit", "%"}}},
        {"series", ordered_json::array({{{"name", by}, {"values", policy}},
                                        {{"name", "optimum"}, {"values", optimum}},
                                        {{"name", "knee"}, {"values", knee}, {"points", true}}})}},
       {{"id", "capacity-again"},
        {"title", "Tokens computed again"},
        {"note", "Prompt tokens that an endless cache would have found."},
        {"kind", "line"},
        {"x", axis},
        {"y", {{"label", "computed again"}, {"unit", "tokens"}}},
        {"series", ordered_json::array({{{"name", by}, {"values", more}},
                                        {{"name", "optimum"}, {"values", least}}})}}});
}

ordered_json tables_of(const CapacityOptions& options, const CapacityPlan& plan) {
  ordered_json rows = ordered_json::array(), shares = ordered_json::array();
  for (const CapacityRow& row : plan.rows) {
    rows.push_back(ordered_json::array(
        {tenths(blocks_gib(plan, row.blocks)), row.blocks, engine_pages(options, plan, row.blocks),
         shown_rate(plan, row.counts), row.counts.hit_blocks, again(plan, row.counts),
         row.counts.evicted_blocks, shown_rate(plan, row.optimum)}));
  }
  for (const auto& share : plan.shares)
    shares.push_back(ordered_json::array({fmt::format("{} %", share.percent),
                                          tenths(blocks_gib(plan, share.blocks)), share.blocks}));
  ordered_json tables = ordered_json::array();
  tables.push_back(
      {{"title", "Sizes"},
       {"columns",
        {"GiB", "blocks", fmt::format("pages of {}", options.model.page_size), "tokens found",
         "blocks found", "tokens computed again", "blocks evicted", "tokens found by the optimum"}},
       {"rows", rows}});
  if (!plan.shares.empty()) {
    tables.push_back({{"title", "The least memory for a share of what an endless cache finds"},
                      {"columns", {"share", "GiB", "blocks"}},
                      {"rows", shares}});
  }
  return tables;
}

}  // namespace

std::string page_of(const CapacityOptions& options, const CapacityPlan& plan) {
  const std::string title = title_of("plan-capacity", options.trace);
  ordered_json data;
  data["title"] = title;
  data["heading"] = "Sizes";
  data["facts"] = facts_of_run(
      options.trace, options.output,
      {{"model", model_of(options, plan)},
       {"method", method_of(options, plan)},
       {"rule", "requests come one after the other; a page is a block of the trace"},
       {"knee",
        "where the curve stands highest above the line from nothing to everything, over "
        "memory and hits as shares of those of an endless cache"}});
  data["tiles"] = ordered_json::array(
      {tile("Keys and values", fmt::format("{} B", grouped(plan.bytes_per_token)),
            "a token, over all layers"),
       tile("Knee", plan.knee > 0 ? number(blocks_gib(plan, plan.knee)) + " GiB" : "none",
            plan.knee > 0 ? grouped(plan.knee) + " blocks" : "nothing is found"),
       tile("Endless cache", number(blocks_gib(plan, plan.distinct)) + " GiB",
            fmt::format("finds {:.2f} % of tokens",
                        100.0 * ratio(plan.most_hit_tokens, plan.prompt_tokens))),
       tile("Requests", grouped(plan.requests), grouped(plan.prompt_tokens) + " prompt tokens")});
  data["charts"] = charts_of(options, plan);
  data["tables"] = tables_of(options, plan);
  return make_page(title, data);
}

}  // namespace folio::cli
