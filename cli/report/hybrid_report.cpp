// SPDX-License-Identifier: Apache-2.0
/// cli/report/hybrid_report.cpp: summary and JSON of a replay with groups.
#include "report/hybrid_report.h"

#include <fmt/format.h>

#include "parts/numbers.h"
#include "report/report.h"
#include "report/tier_report.h"

namespace folio::cli {

using nlohmann::ordered_json;

double mean_pages(const PoolRun& run, const GroupUse& group) {
  return ratio(group.used_pages, run.steps);
}

std::string shown_gib(double bytes) { return fmt::format("{:.3f}", bytes / bytes_per_gib); }

double hit_rate(const PoolRun& run, const TraceDemand& demand) {
  return ratio(run.hit_tokens, demand.prompt_tokens);
}

double evicted_bytes(const PoolRun& run) {
  double bytes = 0.0;
  for (const GroupUse& g : run.groups)
    bytes += static_cast<double>(g.evicted_pages) * static_cast<double>(g.page_bytes);
  return bytes;
}

std::string rule_of(const GroupOptions& group) {
  switch (group.rule) {
    case GroupRule::full: return "full";
    case GroupRule::window: return "window";
    case GroupRule::chunked: return "chunked";
    case GroupRule::state: return "state";
  }
  return {};
}

namespace {

/// Tokens of the rule; 0 of a full one.
int32_t span_of(const GroupOptions& group) { return group.window + group.chunk + group.checkpoint; }

}  // namespace

std::string title_of(const GroupOptions& group) {
  const int32_t span = span_of(group);
  return span == 0 ? rule_of(group) : fmt::format("{} {}", rule_of(group), span);
}

std::vector<std::string> titles_of(const PoolRun& run) {
  std::vector<std::string> titles;
  titles.reserve(run.groups.size());
  for (const GroupUse& group : run.groups) titles.push_back(title_of(group.options));
  return titles;
}

std::string no_uniform(const HybridFigures& f) {
  if (!f.no_tier.empty()) return "none: " + f.no_tier;
  return fmt::format("none: the request in line {} needs {} GiB", f.demand.longest_line,
                     shown_gib(static_cast<double>(f.demand.longest_bytes)));
}

int32_t layers_of(const HybridModel& model) {
  int32_t layers = 0;
  for (const LayerKind& kind : model.kinds) layers += kind.layers;
  return layers;
}

std::string model_line(const ModelOptions& options, const HybridModel& model) {
  return fmt::format("{}, {} layers, {} cache; from {}", model.name, layers_of(model),
                     describe(options.kv), model.source);
}

std::string cache_of(const ModelOptions& options, const CacheChoice& cache,
                     const HybridFigures& f) {
  std::string text = fmt::format("{} GiB, pages of {} tokens",
                                 shown_gib(static_cast<double>(f.memory_bytes)), options.page_size);
  if (cache.partial == 0) return text;
  return text + fmt::format(", hits inside them from {} on", cache.partial);
}

Summary summary_head(const ReplayOptions& options, const HybridModel& model,
                     const HybridFigures& f) {
  Summary text;
  text.line("replay",
            fmt::format("{}: {} requests, {} prompt and {} output tokens", options.trace.file,
                        f.demand.requests, f.demand.prompt_tokens, f.demand.output_tokens));
  text.line("model", model_line(options.model, model));
  text.line("cache",
            cache_of(options.model, options.cache, f) +
                (options.cache.policy.all ? "" : ", eviction by " + name(options.cache.policy)));
  return text;
}

namespace {

ordered_json json_of(const BytesInUse& bytes) {
  return {{"mean_bytes", bytes.mean}, {"peak_bytes", bytes.peak}};
}

}  // namespace

ordered_json json_of(const PoolRun& run, const TraceDemand& demand, const TierChoice& tiers) {
  ordered_json j;
  j["hit_tokens"] = run.hit_tokens;
  j["hit_rate_tokens"] = hit_rate(run, demand);
  j["hit_tokens_partial"] = run.partial_tokens;
  j["computed_tokens"] = run.computed_tokens;
  j["computed_again_tokens"] = run.again_tokens;
  j["steps"] = run.steps;
  j["preemptions"] = run.preemptions;
  j["pool_seconds"] = run.pool_seconds;
  j["used"] = json_of(run.used);
  j["groups"] = ordered_json::array();
  for (const GroupUse& g : run.groups) {
    ordered_json row;
    row["rule"] = rule_of(g.options);
    row["span"] = span_of(g.options);
    row["page_size"] = g.page_size;
    row["page_bytes"] = g.page_bytes;
    row["pages"] = g.pages;
    row["mean_pages"] = mean_pages(run, g);
    row["peak_pages"] = g.peak_pages;
    row["mean_bytes"] = mean_pages(run, g) * static_cast<double>(g.page_bytes);
    row["peak_bytes"] = g.peak_pages * g.page_bytes;
    row["given_back_pages"] = g.given_back;
    row["copied_pages"] = g.copies;
    row["evicted_pages"] = g.evicted_pages;
    row["cached_pages"] = g.cached_pages;
    j["groups"].push_back(std::move(row));
  }
  if (run.tiers) {
    const bool is_hybrid = run.tiers->kinds.size() > 1;
    j["tiers"] =
        json_of(tiers, *run.tiers, is_hybrid ? titles_of(run) : std::vector<std::string>());
  }
  return j;
}

namespace {

void add_table(const HybridModel& model, const PoolRun& run, std::string& text) {
  text += fmt::format("{:<16}{:>7}{:>8}{:>12}{:>10}{:>10}{:>12}{:>10}{:>12}\n", "group", "layers",
                      "tokens", "page bytes", "mean GiB", "peak GiB", "given back", "copied",
                      "evicted");
  for (size_t g = 0; g < run.groups.size(); ++g) {
    const GroupUse& group = run.groups[g];
    const auto bytes = static_cast<double>(group.page_bytes);
    text += fmt::format("{:<16}{:>7}{:>8}{:>12}{:>10}{:>10}{:>12}{:>10}{:>12}\n",
                        title_of(group.options), model.kinds[g].layers, group.page_size,
                        group.page_bytes, shown_gib(mean_pages(run, group) * bytes),
                        shown_gib(static_cast<double>(group.peak_pages) * bytes), group.given_back,
                        group.copies, group.evicted_pages);
  }
  const auto row = [&](std::string_view label, const BytesInUse& bytes) {
    text += fmt::format("{:<43}{:>10}{:>10}\n", label, shown_gib(bytes.mean),
                        shown_gib(static_cast<double>(bytes.peak)));
  };
  row("together", run.used);
  row("if every layer kept everything", run.everything);
}

std::string steps_of(const PoolRun& run) {
  return fmt::format("{}: {} tokens computed, {} of them again after {} preemptions; pool {:.2f} s",
                     run.steps, run.computed_tokens, run.again_tokens, run.preemptions,
                     run.pool_seconds);
}

/// Of hits inside pages.
std::string partial_hits(const HybridFigures& f, bool has_states) {
  const int64_t tokens = f.groups.partial_tokens;
  if (has_states) {
    return fmt::format(
        "{} of these tokens, behind the last token of an earlier request: a state cannot be cut; "
        "every layer keeping everything: none",
        tokens);
  }
  if (!f.uniform) return fmt::format("{} of these tokens", tokens);
  return fmt::format("{} of these tokens; every layer keeping everything: {}", tokens,
                     f.uniform->partial_tokens);
}

std::string uniform_hits(const HybridFigures& f) {
  if (f.uniform)
    return fmt::format("{:.4f} ({})", hit_rate(*f.uniform, f.demand), f.uniform->hit_tokens);
  return no_uniform(f);
}

/// "1024 tokens from memory, 512 from host"
std::string sources_of(const TieredFigures& f) {
  std::string text = fmt::format("{} tokens from memory", f.tokens.memory);
  for (size_t t = 0; t < num_tiers; ++t)
    if (f.tiers[t].is_used) text += fmt::format(", {} from {}", f.tokens.tiers[t], tier_names[t]);
  return text;
}

}  // namespace

std::string summary_of(const ReplayOptions& options, const HybridModel& model,
                       const HybridFigures& f) {
  const PoolRun& run = f.groups;
  Summary text = summary_head(options, model, f);
  add_table(model, run, text.text);
  const double saved = run.everything.mean - run.used.mean;
  const auto saved_peak = static_cast<double>(run.everything.peak - run.used.peak);
  text.line("saved",
            fmt::format("{} GiB ({:.1f} %) in the mean, {} GiB ({:.1f} %) between the peaks",
                        shown_gib(saved), 100.0 * ratio(saved, run.everything.mean),
                        shown_gib(saved_peak),
                        100.0 * ratio(saved_peak, static_cast<double>(run.everything.peak))));
  text.line(
      "hits",
      fmt::format("{:.4f} of tokens ({}){}; with as much memory{}, but every layer keeping "
                  "everything: {}",
                  hit_rate(run, f.demand), run.hit_tokens, run.tiers ? " in memory and below" : "",
                  run.tiers ? " and tiers" : "", uniform_hits(f)));
  if (run.tiers) text.text += summary_of(options.tiers, *run.tiers, titles_of(run));
  if (f.uniform && f.uniform->tiers)
    text.line("", "every layer keeping everything: " + sources_of(*f.uniform->tiers));
  if (options.cache.partial != 0)
    text.line("in pages", partial_hits(f, options.model.checkpoint != 0));
  text.line("steps", steps_of(run));
  if (f.uniform) text.line("", "every layer keeping everything: " + steps_of(*f.uniform));
  if (options.compute == Compute::attention)
    text.line("attention", run.kernels + "; " + attention_line(run.layers));
  if (options.verify.wanted) text.line("verified", verified_line(run.verify));
  return text.text;
}

ordered_json json_head(const TraceOptions& trace, const ModelOptions& options,
                       const PolicyChoice& policy, const StepOptions& steps,
                       const HybridModel& model, const TraceDemand& demand) {
  ordered_json j;
  j["trace"] = trace.file;
  j["model"] = model.name;
  j["source"] = model.source;
  j["layers"] = ordered_json::array();
  for (const LayerKind& kind : model.kinds) j["layers"].push_back(kind.layers);
  j["kv_dtype"] = name(options.kv.dtype);
  j["kv_format"] = describe(options.kv);
  j["requests"] = demand.requests;
  j["prompt_tokens"] = demand.prompt_tokens;
  j["output_tokens"] = demand.output_tokens;
  j["policy"] = name(policy);
  j["max_batch"] = steps.max_batch;
  j["step_tokens"] = steps.step_tokens;
  return j;
}

namespace {

/// Of layers that were computed.
void add_computed(const PoolRun& run, ordered_json& j) {
  if (run.kernels.empty()) return;
  j["kernel"] = run.kernels;
  j["attention_seconds"] = run.layers.attend_seconds;
  j["append_seconds"] = run.layers.append_seconds;
  j["verify_seconds"] = run.verify.seconds;
  j["verified_outputs"] = run.verify.outputs;
  j["mismatches"] = run.verify.mismatches;
  j["max_relative_rms"] = run.verify.max_relative_rms;
  j["max_share_of_bound"] = run.verify.max_share_of_bound;
}

/// What is saved, and the pool whose layers all keep everything.
void add_saved(const HybridFigures& f, const TierChoice& tiers, ordered_json& j) {
  const BytesInUse &everything = f.groups.everything, &used = f.groups.used;
  j["everything"] = json_of(everything);
  const double saved = everything.mean - used.mean;
  j["saved_mean_bytes"] = saved;
  j["saved_mean_share"] = ratio(saved, everything.mean);
  const int64_t saved_peak = everything.peak - used.peak;
  j["saved_peak_bytes"] = saved_peak;
  j["saved_peak_share"] = ratio(saved_peak, everything.peak);
  j["longest_request_bytes"] = f.demand.longest_bytes;
  j["uniform"] = f.uniform ? json_of(*f.uniform, f.demand, tiers) : ordered_json();
  if (!f.no_tier.empty()) j["no_uniform"] = f.no_tier;
}

}  // namespace

std::string json_of(const ReplayOptions& options, const HybridModel& model,
                    const HybridFigures& f) {
  ordered_json j =
      json_head(options.trace, options.model, options.cache.policy, options.steps, model, f.demand);
  j["partial"] = options.cache.partial;
  j["memory_bytes"] = f.memory_bytes;
  j.update(json_of(f.groups, f.demand, options.tiers));
  add_saved(f, options.tiers, j);
  add_computed(f.groups, j);
  return json_text(j);
}

std::string json_of(const ReplayOptions& options, const HybridModel& model,
                    const HybridPolicies& runs) {
  const HybridFigures& first = runs.front().figures;
  ordered_json j = json_head(options.trace, options.model, options.cache.policy, options.steps,
                             model, first.demand);
  j["partial"] = options.cache.partial;
  j["memory_bytes"] = first.memory_bytes;
  j["policies"] = ordered_json::array();
  for (const HybridPolicy& run : runs) {
    ordered_json row;
    row["policy"] = name(run.policy);
    row.update(json_of(run.figures.groups, first.demand));
    row["evicted_bytes"] = evicted_bytes(run.figures.groups);
    add_saved(run.figures, options.tiers, row);
    add_computed(run.figures.groups, row);
    j["policies"].push_back(std::move(row));
  }
  return json_text(j);
}

}  // namespace folio::cli
