// SPDX-License-Identifier: Apache-2.0
/// cli/replay/hybrid.h: `folio replay` of a model with groups: what each kind of layer keeps, what
/// is saved, and what the memory finds beside a pool whose layers all keep everything.
///
/// Layers with attention are computed where this is asked for, those with states never. The same
/// trace runs through two pools of equal memory, one after the other, with the same steps and the
/// same rules of admission; nothing is computed over the second one. Tiers below them have equal
/// bytes, too, and nothing in common: a directory has one of its own for the second.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "load/hybrid_model.h"
#include "load/options.h"
#include "load/trace.h"
#include "replay/engine.h"
#include "replay/recorder.h"

namespace folio::cli {

/// One group during a replay. Means are over steps.
struct GroupUse {
  GroupOptions options = {};
  int64_t pages = 0;      ///< if it had the whole memory
  int32_t page_size = 0;  ///< tokens
  int64_t page_bytes = 0;
  int64_t used_pages = 0;  ///< the sum over all steps
  int64_t peak_pages = 0;  ///< used by the steps that used most
  int64_t given_back = 0;  ///< pages that running sequences have left behind
  int64_t copies = 0;      ///< that steps ran: of pages inside which hits ended
  int64_t evicted_pages = 0;
  int64_t cached_pages = 0;  ///< at the end
};

/// Bytes in use.
struct BytesInUse {
  double mean = 0.0;
  int64_t peak = 0;
};

struct PoolRun {
  std::vector<GroupUse> groups;
  int64_t steps = 0;
  int64_t hit_tokens = 0;
  int64_t partial_tokens = 0;  ///< of these, in pages that were found for their first tokens only
  int64_t computed_tokens = 0;
  int64_t again_tokens = 0;  ///< of these, once more after a preemption
  int64_t preemptions = 0;   ///< sequences that gave up their pages for an older one
  BytesInUse used = {};
  BytesInUse everything = {};  ///< if all layers kept all tokens that the leading group has
  double pool_seconds = 0.0;
  // Where layers are computed.
  std::string kernels;
  LayerTotals layers = {};
  VerifySummary verify = {};
  PoolStats stats = {};
  PoolHistograms histograms = {};           ///< where metrics are asked for
  std::unique_ptr<GroupRecorder> recorder;  ///< where one was asked for
  std::optional<TieredFigures> tiers;       ///< where there are any; what they found are hits, too
};

struct HybridFigures {
  TraceDemand demand = {};
  int64_t memory_bytes = 0;
  PoolRun groups;
  std::optional<PoolRun> uniform;  ///< all layers keep everything; none without room for a request
  std::string no_tier;             ///< or where a tier is too small for its pages: why
};

/// The model under one policy.
struct HybridPolicy {
  Eviction policy = Eviction::lru;
  HybridFigures figures;
};
using HybridPolicies = std::vector<HybridPolicy>;  ///< of one trace, model and memory

/// What a pool is to do.
struct PoolTask {
  std::vector<GroupOptions> groups;
  int32_t page_size = 16;
  int32_t checkpoint = 0;  ///< 0: no states
  int64_t memory_bytes = 0;
  int64_t longest_tokens = 0;
  int32_t partial = 0;  ///< PoolOptions::min_partial_tokens
  /// of the leading group's tokens, if all layers keep everything: bytes of so many tokens
  int64_t everything_bytes = 0;
  int32_t everything_tokens = 1;
  bool records = false;                         ///< for a page
  std::vector<LayerRunnerOptions> layers = {};  ///< that are computed, but for sizes of the pool
  TierChoice tiers = {};                        ///< below the pool
  TierDemand below = {};                        ///< what they are made for
};

/// A trace through the pool of a model's groups and through the one whose layers all keep
/// everything, but for the memory.
struct HybridTasks {
  TraceDemand demand = {};
  PoolTask groups = {}, uniform = {};
};

/// The trace through one pool. Errors: invalid_argument where the pool cannot be made, out_of_pages
/// where the memory does not hold a request; those of the pool
Result<PoolRun> run_pool(const ReplayOptions& options, std::span<const TraceRequest> trace,
                         const PoolTask& task);

/// Errors: those of page_bytes
Result<HybridTasks> tasks_of(const ReplayOptions& options, const HybridModel& model,
                             std::span<const TraceRequest> trace);
/// Errors: those of run_pool
Result<HybridFigures> run_both(const ReplayOptions& options, std::span<const TraceRequest> trace,
                               HybridTasks tasks, int64_t memory_bytes);

/// What no command takes of the options beside a model with groups, and the tokens of a page of
/// states. Errors: invalid_argument naming the option
Status resolve_hybrid(ReplayOptions& options, const HybridModel& model);

/// One policy or all of them, with the memory that the options give. Errors: invalid_argument for
/// --pages whose bytes nobody has; those of run_both
Result<HybridPolicies> run_policies(ReplayOptions options, const HybridTasks& tasks,
                                    std::span<const TraceRequest> trace);

}  // namespace folio::cli
