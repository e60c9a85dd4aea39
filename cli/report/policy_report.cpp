// SPDX-License-Identifier: Apache-2.0
/// cli/report/policy_report.cpp: eviction policies side by side, as a table and as JSON.
#include "report/policy_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "parts/numbers.h"
#include "parts/text.h"

namespace folio::cli {

std::string summary_of(const TraceOptions& trace, const Comparison& c) {
  std::string text =
      fmt::format("{}: {} requests, {} blocks, {} prompt tokens, {} pages\n", trace.file,
                  c.requests, c.policies.back().counts.lookup_blocks, c.prompt_tokens, c.pages);
  text += fmt::format("{:<10}{:>12}{:>10}{:>10}{:>10}{:>12}{:>13}{:>12}\n", "policy", "hit blocks",
                      "of blocks", "of tokens", "of work", "of optimum", "evicted", "ns a block");
  for (const PolicyFigures& p : c.policies) {
    text += fmt::format(
        "{:<10}{:>12}{:>10.4f}{:>10.4f}{:>10.4f}{:>12.4f}{:>13}{:>12}\n", p.policy,
        p.counts.hit_blocks, ratio(p.counts.hit_blocks, p.counts.lookup_blocks),
        ratio(p.counts.hit_tokens, c.prompt_tokens), ratio(p.counts.saved_work, c.prompt_work),
        ratio(p.counts.hit_blocks, c.policies.back().counts.hit_blocks), p.counts.evicted_blocks,
        p.seconds > 0.0
            ? fmt::format("{:.1f}", p.seconds * 1e9 / static_cast<double>(p.counts.lookup_blocks))
            : "");
  }
  return text;
}

std::string json_of(const TraceOptions& trace, const Comparison& c) {
  nlohmann::ordered_json j;
  j["trace"] = trace.file;
  j["requests"] = c.requests;
  j["prompt_tokens"] = c.prompt_tokens;
  j["prompt_work"] = c.prompt_work;
  j["pages"] = c.pages;
  j["lookup_pages"] = c.policies.back().counts.lookup_blocks;
  for (const PolicyFigures& p : c.policies) {
    nlohmann::ordered_json row;
    row["policy"] = p.policy;
    row["hit_pages"] = p.counts.hit_blocks;
    row["hit_tokens"] = p.counts.hit_tokens;
    row["saved_work"] = p.counts.saved_work;
    row["evicted_pages"] = p.counts.evicted_blocks;
    row["hit_rate_pages"] = ratio(p.counts.hit_blocks, p.counts.lookup_blocks);
    row["hit_rate_tokens"] = ratio(p.counts.hit_tokens, c.prompt_tokens);
    row["share_of_optimum"] = ratio(p.counts.hit_blocks, c.policies.back().counts.hit_blocks);
    row["pool_seconds"] = p.seconds;
    j["policies"].push_back(std::move(row));
  }
  return json_text(j);
}

}  // namespace folio::cli
