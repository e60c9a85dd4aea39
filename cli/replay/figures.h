// SPDX-License-Identifier: Apache-2.0
/// cli/replay/figures.h: the figures of a replay.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "folio/pool/page_pool.h"
#include "replay/layer_runner.h"
#include "replay/verify.h"
#include "tiers/tiers.h"

namespace folio::cli {

struct ReplayFigures {
  int64_t requests = 0;
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  /// queries: prompt tokens that were not found, and outputs that were fed back
  int64_t computed_tokens = 0;
  int64_t saved_work = 0, prompt_work = 0;  ///< page-per-block: `work_of` what was found, of all
  uint32_t pages = 0;
  int32_t page_size = 0;
  PoolStats pool = {};
  PoolHistograms histograms = {};  ///< where metrics are asked for
  std::string kernel;              ///< empty without attention
  int threads = 1;

  std::vector<double> step_seconds;  ///< of each step: pool, plan, copies, append, attend
  double seconds = 0.0;              ///< of everything, inventing and verifying included
  double pool_seconds = 0.0;
  LayerTotals layers = {};
  VerifySummary verify = {};
  std::optional<TieredFigures> tiers = {};  ///< where there are any
};

}  // namespace folio::cli
