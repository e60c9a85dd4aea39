// SPDX-License-Identifier: Apache-2.0
/// cli/report/report.cpp: summary and JSON.
#include "report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "parts/numbers.h"
#include "parts/text.h"
#include "report/tier_report.h"

namespace folio::cli {
namespace {

/// What both reports show and neither stores.
struct Derived {
  double p50 = 0.0, p99 = 0.0;  // seconds
  double engine_seconds = 0.0;  // the sum of all steps
  double tokens_per_second = 0.0;
};

double gbytes_per_second(const LayerTotals& layers) {
  return ratio(layers.attended_bytes * 1e-9, layers.attend_seconds);
}
double gflops_per_second(const LayerTotals& layers) {
  return ratio(layers.attended_flops * 1e-9, layers.attend_seconds);
}

Derived derive(const ReplayFigures& figures) {
  Derived d;
  d.p50 = quantile(figures.step_seconds, 0.50);
  d.p99 = quantile(figures.step_seconds, 0.99);
  for (const double seconds : figures.step_seconds) d.engine_seconds += seconds;
  d.tokens_per_second = ratio(static_cast<double>(figures.computed_tokens), d.engine_seconds);
  return d;
}

std::string model_line(const ModelOptions& options, const ReplayFigures& figures) {
  const ModelShape& m = options.sizes;
  return fmt::format("{} layers, {} query and {} KV heads of {}{}, {} cache; {} on {} threads",
                     m.layers, m.q_heads, m.kv_heads, m.head_size,
                     m.is_mla ? fmt::format(" (values: the first {})", m.v_head_size) : "",
                     describe(options.kv), figures.kernel, figures.threads);
}

}  // namespace

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0.0;
  const auto count = static_cast<double>(values.size());
  const auto rank = static_cast<size_t>(std::clamp(std::ceil(share * count), 1.0, count)) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(rank),
                   values.end());
  return values[rank];
}

std::string attention_line(const LayerTotals& layers) {
  return fmt::format("{:.1f} GB/s of keys and values, {:.1f} GFLOP/s", gbytes_per_second(layers),
                     gflops_per_second(layers));
}

std::string verified_line(const VerifySummary& verify) {
  return fmt::format(
      "{} outputs, {} beyond the bound; largest relative rms {:.2e}, {:.0f} % of the bound",
      verify.outputs, verify.mismatches, verify.max_relative_rms,
      100.0 * verify.max_share_of_bound);
}

std::string summary_of(const ReplayOptions& options, const ReplayFigures& f) {
  const Derived d = derive(f);
  const PoolStats& pool = f.pool;
  const bool attends = options.compute == Compute::attention;
  Summary text;
  text.line("replay",
            fmt::format("{}: {} requests, {} prompt and {} output tokens", options.trace.file,
                        f.requests, f.prompt_tokens, f.output_tokens));
  text.line("model", attends ? model_line(options.model, f) : "pages and tables only");
  text.line("cache", fmt::format("{} pages of {} {}, eviction by {}", f.pages,
                                 options.steps.page_per_block ? 1 : f.page_size,
                                 options.steps.page_per_block ? "block" : "tokens",
                                 name(options.cache.policy)));
  text.line("hits", fmt::format("{:.4f} of tokens ({} of {}), {:.4f} of pages ({} of {})",
                                ratio(pool.hit_tokens, f.prompt_tokens), pool.hit_tokens,
                                f.prompt_tokens, ratio(pool.hit_pages, pool.lookup_pages),
                                pool.hit_pages, pool.lookup_pages));
  if (f.tiers) text.text += summary_of(options.tiers, *f.tiers);
  text.line("pages", fmt::format("{} evicted, {} at most in use, {} cached at the end",
                                 pool.evicted_pages, pool.peak_used_pages, pool.cached_pages));
  text.line("steps",
            fmt::format("{}: p50 {:.3f} ms, p99 {:.3f} ms, {:.2f} s in all, {:.0f} tokens/s",
                        f.step_seconds.size(), d.p50 * 1e3, d.p99 * 1e3, d.engine_seconds,
                        d.tokens_per_second));
  text.line(
      "time",
      fmt::format("attention {:.2f} s, append {:.2f} s, pool {:.2f} s, plan {:.2f} s; outside the "
                  "steps: inventing inputs "
                  "{:.2f} s, verifying {:.2f} s; {:.2f} s of wall time",
                  f.layers.attend_seconds, f.layers.append_seconds, f.pool_seconds,
                  f.layers.plan_seconds, f.layers.generate_seconds, f.verify.seconds, f.seconds));
  if (attends) text.line("attention", attention_line(f.layers));
  if (options.verify.wanted) text.line("verified", verified_line(f.verify));
  return text.text;
}

std::string json_of(const ReplayOptions& options, const ReplayFigures& f) {
  const Derived d = derive(f);
  const ModelOptions& model = options.model;
  nlohmann::ordered_json j;
  j["trace"] = options.trace.file;
  j["requests"] = f.requests;
  j["prompt_tokens"] = f.prompt_tokens;
  j["output_tokens"] = f.output_tokens;
  j["computed_tokens"] = f.computed_tokens;
  j["pages"] = f.pages;
  j["page_size"] = f.page_size;
  j["policy"] = name(options.cache.policy);
  j["lookup_pages"] = f.pool.lookup_pages;
  j["hit_pages"] = f.pool.hit_pages;
  j["hit_tokens"] = f.pool.hit_tokens;
  j["hit_tokens_partial"] = f.pool.hit_tokens_partial;
  j["hit_rate_pages"] = ratio(f.pool.hit_pages, f.pool.lookup_pages);
  j["hit_rate_tokens"] = ratio(f.pool.hit_tokens, f.prompt_tokens);
  if (options.steps.page_per_block) {
    j["saved_work"] = f.saved_work;
    j["prompt_work"] = f.prompt_work;
  }
  j["evicted_pages"] = f.pool.evicted_pages;
  j["peak_pages"] = f.pool.peak_used_pages;
  j["cached_pages"] = f.pool.cached_pages;
  j["steps"] = f.step_seconds.size();
  j["step_seconds_p50"] = d.p50;
  j["step_seconds_p99"] = d.p99;
  j["step_seconds"] = d.engine_seconds;
  j["seconds"] = f.seconds;
  j["pool_seconds"] = f.pool_seconds;
  j["plan_seconds"] = f.layers.plan_seconds;
  j["append_seconds"] = f.layers.append_seconds;
  j["attention_seconds"] = f.layers.attend_seconds;
  j["generate_seconds"] = f.layers.generate_seconds;
  j["verify_seconds"] = f.verify.seconds;
  j["tokens_per_second"] = d.tokens_per_second;
  j["attention_gbytes_per_second"] = gbytes_per_second(f.layers);
  j["attention_gflops_per_second"] = gflops_per_second(f.layers);
  j["verified_outputs"] = f.verify.outputs;
  j["mismatches"] = f.verify.mismatches;
  j["max_relative_rms"] = f.verify.max_relative_rms;
  j["max_share_of_bound"] = f.verify.max_share_of_bound;
  j["kernel"] = f.kernel;
  j["threads"] = f.threads;
  j["kv_dtype"] = name(model.kv.dtype);
  j["kv_format"] = describe(model.kv);
  j["layers"] = model.sizes.layers;
  j["q_heads"] = model.sizes.q_heads;
  j["kv_heads"] = model.sizes.kv_heads;
  j["head_size"] = model.sizes.head_size;
  j["v_head_size"] = model.sizes.v_head_size;
  if (f.tiers) j["tiers"] = json_of(options.tiers, *f.tiers);
  return json_text(j);
}

}  // namespace folio::cli
