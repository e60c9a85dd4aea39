// SPDX-License-Identifier: Apache-2.0
/// cli/capacity/hybrid_capacity.h: `folio plan-capacity` of a model with groups: what a memory
/// finds, beside a pool of as many bytes whose layers all keep everything.
///
/// A hit needs a page of each group, so a cache of one size does not hold what a smaller one does,
/// and stack distances say nothing: each size is replayed. Requests come one after the other, in
/// steps of `--step-tokens` as `folio replay` has them, without outputs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "capacity/capacity.h"
#include "replay/hybrid.h"

namespace folio::cli {

struct HybridCapacityRow {
  int64_t memory_bytes = 0;
  std::optional<PoolRun> groups;   ///< none where slabs leave no room for a request
  std::optional<PoolRun> uniform;  ///< none without room for the longest request
};

struct HybridCapacity {
  TraceDemand demand = {};
  std::vector<GroupOptions> groups = {};
  int64_t tokens_per_block = 0;
  int64_t block_bytes = 0;  ///< of a block of the trace, with everything of all layers, rounded up
  int64_t distinct = 0;     ///< blocks of the trace
  int64_t need_bytes =
      0;  ///< what the longest request holds at its end: no memory serves with less
  std::vector<HybridCapacityRow> rows = {};
};

/// As plan_capacity.
Status plan_hybrid_capacity(CapacityOptions options, const HybridModel& model);

std::string summary_of(const CapacityOptions& options, const HybridModel& model,
                       const HybridCapacity& plan);
std::string json_of(const CapacityOptions& options, const HybridModel& model,
                    const HybridCapacity& plan);
std::string page_of(const CapacityOptions& options, const HybridModel& model,
                    const HybridCapacity& plan);

}  // namespace folio::cli
