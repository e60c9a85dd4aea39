// SPDX-License-Identifier: Apache-2.0
/// cli/report/report_page.cpp: figures, parameters and charts of a replay as the data of a page.
#include "report/report_page.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "parts/machine.h"
#include "parts/page.h"
#include "report/charts.h"
#include "report/policy_report.h"
#include "report/tier_report.h"

namespace folio::cli {

using nlohmann::ordered_json;

std::string share(int64_t part, int64_t whole) {
  return whole > 0 ? fmt::format("{:.2f} %",
                                 100.0 * static_cast<double>(part) / static_cast<double>(whole))
                   : "none";
}

std::string duration(double seconds) {
  if (seconds >= 1.0) return fmt::format("{:.3g} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} µs", seconds * 1e6);
}

ordered_json tile(const std::string& label, const std::string& value, const std::string& note) {
  return {{"label", label}, {"value", value}, {"note", note}};
}

std::string title_of(std::string_view command, const TraceOptions& trace) {
  return fmt::format("folio {}: {}", command,
                     std::filesystem::path(trace.file).filename().string());
}

ordered_json facts_of_run(const TraceOptions& trace, const OutputOptions& output,
                          const Facts& more) {
  Facts facts = {{"command", output.command},
                 {"machine", machine_line()},
                 {"date", date_now()},
                 {"version", "folio " + version()},
                 {"trace", trace.file}};
  facts.insert(facts.end(), more.begin(), more.end());
  return facts;
}

std::string order_of(const StepOptions& options) {
  if (options.page_per_block) return "one request after the other, a trace block a page";
  if (options.sequential) return "one request after the other";
  return fmt::format("up to {} sequences and {} tokens a step", options.max_batch,
                     options.step_tokens);
}

namespace {

ordered_json facts_of(const ReplayOptions& options) {
  const ModelShape& m = options.model.sizes;
  const bool attends = options.compute == Compute::attention;
  Facts facts = {{"compute", attends ? "attention" : "none: pages and tables only"},
                 {"order", order_of(options.steps)}};
  if (attends) {
    facts.emplace_back(
        "model",
        fmt::format("{}: {} layers, {} query and {} KV heads of {}, {} cache", options.model.name,
                    m.layers, m.q_heads, m.kv_heads, m.head_size, describe(options.model.kv)));
  }
  return facts_of_run(options.trace, options.output, facts);
}

std::string step_word(const StepOptions& options) {
  return options.page_per_block ? "request" : "step";
}

ordered_json policy_charts(const Comparison& c) {
  ordered_json names = ordered_json::array(), rates = ordered_json::array();
  ordered_json x, lines = ordered_json::array();
  for (const PolicyFigures& p : c.policies) {
    names.push_back(p.policy);
    rates.push_back(percent(p.counts.hit_blocks, p.counts.lookup_blocks));
    if (!p.recorder) continue;
    ordered_json so_far = ordered_json::array();
    int64_t found = 0, asked = 0;
    x = ordered_json::array();
    for (const StepSample& s : p.recorder->steps()) {
      so_far.push_back(percent(found += s.found, asked += s.asked));
      x.push_back(s.end);
    }
    lines.push_back({{"name", p.policy}, {"values", std::move(so_far)}});
  }
  const ordered_json y = {{"label", "blocks found"}, {"unit", "%"}};
  return ordered_json::array(
      {{{"id", "policies"},
        {"title", "Policies side by side"},
        {"note", "Blocks found of those looked for; the optimum knows the future."},
        {"kind", "bar"},
        {"x", {{"label", "policy"}, {"values", names}}},
        {"y", y},
        {"series", ordered_json::array({{{"name", "blocks found"}, {"values", rates}}})}},
       {{"id", "policies-time"},
        {"title", "Policies over time"},
        {"note", "Hit rate since the beginning."},
        {"kind", "line"},
        {"x", {{"label", "request"}, {"values", x}}},
        {"y", y},
        {"series", lines}}});
}

ordered_json policy_table(const Comparison& c) {
  const BlockCounts& best = c.policies.back().counts;
  ordered_json rows = ordered_json::array();
  for (const PolicyFigures& p : c.policies) {
    const double blocks = static_cast<double>(p.counts.lookup_blocks);
    rows.push_back(ordered_json::array(
        {p.policy, p.counts.hit_blocks, share(p.counts.hit_blocks, p.counts.lookup_blocks),
         share(p.counts.hit_tokens, c.prompt_tokens), share(p.counts.saved_work, c.prompt_work),
         share(p.counts.hit_blocks, best.hit_blocks), p.counts.evicted_blocks,
         p.seconds > 0.0 ? fmt::format("{:.1f}", p.seconds * 1e9 / blocks) : ""}));
  }
  return {{"title", "Policies"},
          {"columns",
           {"policy", "blocks found", "of blocks", "of tokens", "of work", "of the optimum",
            "evicted", "ns a block"}},
          {"rows", rows}};
}

}  // namespace

std::string page_of(const ReplayOptions& options, const ReplayFigures& f,
                    const PageRecorder& recorder) {
  ordered_json data;
  data["title"] = title_of("replay", options.trace);
  data["facts"] = facts_of(options);
  const double p99 = quantile(f.step_seconds, 0.99), p50 = quantile(f.step_seconds, 0.5);
  data["tiles"] = ordered_json::array(
      {tile("Tokens found", share(f.pool.hit_tokens, f.prompt_tokens),
            fmt::format("{} of {} prompt tokens", grouped(f.pool.hit_tokens),
                        grouped(f.prompt_tokens))),
       tile("Pages found", share(f.pool.hit_pages, f.pool.lookup_pages),
            fmt::format("{} of {} looked for", grouped(f.pool.hit_pages),
                        grouped(f.pool.lookup_pages))),
       tile("Evicted", grouped(f.pool.evicted_pages),
            fmt::format("pages, by {}", name(options.cache.policy))),
       tile("Pages", grouped(f.pages),
            fmt::format("{} {} each; {} in use at most",
                        options.steps.page_per_block ? 1 : f.page_size,
                        options.steps.page_per_block ? "trace block" : "tokens",
                        grouped(f.pool.peak_used_pages))),
       tile("Requests", grouped(f.requests),
            fmt::format("in {} steps", grouped(static_cast<int64_t>(f.step_seconds.size())))),
       tile("Step", duration(p50), fmt::format("median; 99 %: {}", duration(p99)))});
  if (f.tiers) {
    const TokensBySource& tokens = f.tiers->tokens;
    data["tiles"][0] =
        tile("Tokens found", share(tokens.found(), tokens.asked()),
             fmt::format("{} in memory, {} below", share(tokens.memory, tokens.asked()),
                         share(tokens.in_tiers(), tokens.asked())));
    add_to_page(*f.tiers, data);
  }
  data["runs"] =
      ordered_json::array({{{"name", name(options.cache.policy)},
                            {"charts", replay_charts(recorder, step_word(options.steps))}}});
  return make_page(title_of("replay", options.trace), data);
}

std::string page_of(const ReplayOptions& options, const Comparison& c) {
  ordered_json data;
  data["title"] = title_of("replay", options.trace);
  data["facts"] = facts_of(options);
  const PolicyFigures* best = &c.policies.front();
  for (const PolicyFigures& p : c.policies)
    if (p.recorder && p.counts.hit_blocks > best->counts.hit_blocks) best = &p;
  const BlockCounts& optimum = c.policies.back().counts;
  data["tiles"] = ordered_json::array(
      {tile("Best policy", best->policy,
            fmt::format("{} of the optimum's blocks",
                        share(best->counts.hit_blocks, optimum.hit_blocks))),
       tile("Blocks found", share(best->counts.hit_blocks, best->counts.lookup_blocks),
            fmt::format("by {}", best->policy)),
       tile("Optimum", share(optimum.hit_blocks, optimum.lookup_blocks),
            "blocks, knowing the future"),
       tile("Pages", grouped(c.pages), "1 trace block each"),
       tile("Requests", grouped(c.requests), grouped(c.prompt_tokens) + " prompt tokens")});
  data["tables"] = ordered_json::array({policy_table(c)});
  data["charts"] = policy_charts(c);
  data["runs"] = ordered_json::array();
  for (const PolicyFigures& p : c.policies) {
    if (!p.recorder) continue;
    data["runs"].push_back(
        {{"name", p.policy}, {"charts", replay_charts(*p.recorder, step_word(options.steps))}});
  }
  return make_page(title_of("replay", options.trace), data);
}

}  // namespace folio::cli
