// SPDX-License-Identifier: Apache-2.0
/// cli/replay/policies.h: `folio replay --policy all`: the eviction policies side by side.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "load/options.h"
#include "load/trace.h"
#include "replay/offline_optimum.h"
#include "replay/recorder.h"

namespace folio::cli {

struct PolicyFigures {
  std::string policy;
  BlockCounts counts = {};
  double seconds = 0.0;                         ///< of the pool; 0 of the optimum, which has none
  std::unique_ptr<PageRecorder> recorder = {};  ///< where one was asked for; none of the optimum
};

struct Comparison {
  int64_t requests = 0;
  int64_t prompt_tokens = 0;
  int64_t prompt_work = 0;
  int64_t pages = 0;
  std::vector<PolicyFigures> policies;  ///< the last one is the offline optimum
};

/// Replays the trace once for each policy, a block a page. Errors: those of replay_blocks
Result<Comparison> compare_policies(ReplayOptions options, std::span<const TraceRequest> trace);

}  // namespace folio::cli
