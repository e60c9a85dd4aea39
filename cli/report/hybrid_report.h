// SPDX-License-Identifier: Apache-2.0
/// cli/report/hybrid_report.h: replays of models with groups, for people and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "parts/text.h"
#include "replay/hybrid.h"

namespace folio::cli {

/// One replay: text, JSON and page.
std::string summary_of(const ReplayOptions& options, const HybridModel& model,
                       const HybridFigures& figures);
std::string json_of(const ReplayOptions& options, const HybridModel& model,
                    const HybridFigures& figures);
std::string page_of(const ReplayOptions& options, const HybridModel& model,
                    const HybridFigures& figures);
/// All policies side by side: text, JSON and page.
std::string summary_of(const ReplayOptions& options, const HybridModel& model,
                       const HybridPolicies& runs);
std::string json_of(const ReplayOptions& options, const HybridModel& model,
                    const HybridPolicies& runs);
std::string page_of(const ReplayOptions& options, const HybridModel& model,
                    const HybridPolicies& runs);

// What these say alike.

/// Of the policies: why none of them is the offline optimum.
inline constexpr std::string_view no_optimum =
    "none: it is defined for pages of one size and one rule";

double hit_rate(const PoolRun& run, const TraceDemand& demand);  ///< of prompt tokens
std::string shown_gib(double bytes);                             ///< three decimals
std::string rule_of(const GroupOptions& group);                  ///< "window"
std::string title_of(const GroupOptions& group);                 ///< "window 1024"
std::vector<std::string> titles_of(const PoolRun& run);          ///< of its groups
int32_t layers_of(const HybridModel& model);
double mean_pages(const PoolRun& run, const GroupUse& group);
double evicted_bytes(const PoolRun& run);
/// "gemma-3-27b, 62 layers, bf16 cache; from ..."
std::string model_line(const ModelOptions& options, const HybridModel& model);

/// "40.000 GiB, pages of 16 tokens, hits inside them from 8 on"
std::string cache_of(const ModelOptions& options, const CacheChoice& cache,
                     const HybridFigures& figures);
/// The first lines: trace, model and cache, with the policy where it is one.
Summary summary_head(const ReplayOptions& options, const HybridModel& model,
                     const HybridFigures& figures);

/// Trace, model and options.
nlohmann::ordered_json json_head(const TraceOptions& trace, const ModelOptions& options,
                                 const PolicyChoice& policy, const StepOptions& steps,
                                 const HybridModel& model, const TraceDemand& demand);
/// With tiers, where `tiers` says which.
nlohmann::ordered_json json_of(const PoolRun& run, const TraceDemand& demand,
                               const TierChoice& tiers = {});
/// Why there is no pool whose layers all keep everything.
std::string no_uniform(const HybridFigures& figures);

}  // namespace folio::cli
