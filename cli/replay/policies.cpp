// SPDX-License-Identifier: Apache-2.0
/// cli/replay/policies.cpp: one replay for each policy, and the offline optimum.
#include "replay/policies.h"

#include <utility>

#include "replay/replay.h"

namespace folio::cli {

Result<Comparison> compare_policies(ReplayOptions options, std::span<const TraceRequest> trace) {
  Comparison comparison;
  for (const Eviction eviction : evictions_of(options.cache.policy)) {
    options.cache.policy = {eviction};
    std::unique_ptr<PageRecorder> recorder;
    const auto figures =
        replay_blocks(options, trace, options.output.report.empty() ? nullptr : &recorder);
    if (!figures) return figures.error();
    comparison.requests = figures->requests;
    comparison.prompt_tokens = figures->prompt_tokens;
    comparison.prompt_work = figures->prompt_work;
    comparison.pages = figures->pages;
    const PoolStats& pool = figures->pool;
    comparison.policies.push_back({name(eviction),
                                   {pool.lookup_pages, pool.hit_pages, pool.hit_tokens,
                                    pool.evicted_pages, figures->saved_work},
                                   figures->pool_seconds,
                                   std::move(recorder)});
  }
  comparison.policies.push_back({"optimum", offline_optimum(trace, comparison.pages)});
  return comparison;
}

}  // namespace folio::cli
