// SPDX-License-Identifier: Apache-2.0
/// cli/replay/hybrid.cpp: a model with groups, from options to figures.
#include "replay/hybrid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "parts/numbers.h"

namespace folio::cli {
namespace {

// Without attention the memory is that of a server; with it, this machine has to have it.
constexpr int64_t usual_memory_bytes = int64_t{64} << 30, usual_computed_bytes = int64_t{4} << 30;

Status bad(const std::string& reason) { return {Errc::invalid_argument, reason}; }

/// Options of the other replays. Errors: invalid_argument naming the first one
Status refuse_others(const ReplayOptions& options) {
  const ModelShape& sizes = options.model.sizes;
  const std::pair<bool, const char*> given[] = {
      {sizes.layers != 0, "--layers"},
      {sizes.q_heads != 0, "--q-heads"},
      {sizes.kv_heads != 0, "--kv-heads"},
      {sizes.head_size != 0, "--head-size"},
      {sizes.v_head_size != 0, "--v-head-size"},
      {sizes.is_mla, "--mla"},
      {options.steps.page_per_block, "--page-per-block"},
  };
  for (const auto& [is_given, option] : given) {
    if (!is_given) continue;
    return bad(
        fmt::format("{}: not with --model {}, whose layers differ: it has sizes of its own, "
                    "and is replayed by steps",
                    option, options.model.name));
  }
  return {};
}

/// Tokens of a page of states. Errors: invalid_argument naming --checkpoint
Result<int32_t> checkpoint_of(const ModelOptions& options, const HybridModel& model) {
  const bool has_states = model.kinds.back().rule == GroupRule::state;
  if (options.checkpoint != 0 && !has_states)
    return bad(fmt::format("--checkpoint: --model {} has no states", model.name));
  if (!has_states) return 0;
  const int32_t checkpoint = options.checkpoint != 0 ? options.checkpoint : usual_checkpoint;
  if (checkpoint % options.page_size == 0) return checkpoint;
  return bad(fmt::format("--checkpoint: got '{}', expected a multiple of the {} tokens of a page",
                         checkpoint, options.page_size));
}

/// Errors: invalid_argument naming --hit-interval
Status check_hit_interval(const ReplayOptions& options, const HybridModel& model) {
  const int32_t interval = options.tiers.hit_interval, page_size = options.model.page_size;
  const bool has_windows = std::ranges::any_of(model.kinds, [](const LayerKind& kind) {
    return kind.rule == GroupRule::window || kind.rule == GroupRule::chunked;
  });
  if (interval != 0 && !has_windows)
    return bad(fmt::format("--hit-interval: --model {} has no windows or chunks", model.name));
  if (interval % page_size == 0) return {};
  return bad(fmt::format("--hit-interval: got '{}', expected a multiple of the {} tokens of a page",
                         interval, page_size));
}

/// Errors: invalid_argument for --pages whose bytes nobody has
Result<int64_t> memory_of(const CacheChoice& cache, Compute compute, int64_t uniform_bytes,
                          int64_t longest_bytes) {
  constexpr int64_t most = int64_t{1} << 60;
  if (cache.pages > most / uniform_bytes) {
    return bad(fmt::format("--pages: got '{}' of {} bytes each, expected at most {}", cache.pages,
                           uniform_bytes, most / uniform_bytes));
  }
  if (cache.pages != 0) return cache.pages * uniform_bytes;
  if (cache.gib != 0.0) return static_cast<int64_t>(std::floor(cache.gib * bytes_per_gib));
  return std::max(compute == Compute::attention ? usual_computed_bytes : usual_memory_bytes,
                  longest_bytes);
}

}  // namespace

Status resolve_hybrid(ReplayOptions& options, const HybridModel& model) {
  if (options.cache.pages != 0 && options.cache.gib != 0.0)
    return bad("--gib: not with --pages, which says the same in pages of all layers");
  if (Status s = refuse_others(options); !s.is_ok()) return s;
  if (Status s = resolve_tiers(options); !s.is_ok()) return s;
  if (Status s = check_partial(options.cache, options.model); !s.is_ok()) return s;
  if (Status s = check_hit_interval(options, model); !s.is_ok()) return s;
  if (options.cache.policy.all && !options.output.metrics.empty())
    return bad("--metrics: needs one policy, not --policy all");
  if (options.verify.wanted && options.compute == Compute::none)
    return bad("--verify: needs --compute attention");
  if (options.compute == Compute::usual)
    options.compute = options.verify.wanted ? Compute::attention : Compute::none;
  const auto checkpoint = checkpoint_of(options.model, model);
  if (!checkpoint) return checkpoint.error();
  options.model.checkpoint = *checkpoint;
  if (options.steps.sequential) options.steps.max_batch = 1;
  return {};
}

Result<HybridPolicies> run_policies(ReplayOptions options, const HybridTasks& tasks,
                                    std::span<const TraceRequest> trace) {
  const auto memory =
      memory_of(options.cache, options.compute, tasks.uniform.groups.front().page_bytes,
                tasks.demand.longest_bytes);
  if (!memory) return memory.error();
  HybridPolicies runs;
  for (const Eviction eviction : evictions_of(options.cache.policy)) {
    options.cache.policy = {eviction};
    auto figures = run_both(options, trace, tasks, *memory);
    if (!figures) return figures.error();
    runs.push_back({eviction, std::move(*figures)});
  }
  return runs;
}

}  // namespace folio::cli
