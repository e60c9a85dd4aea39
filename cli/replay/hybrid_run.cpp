// SPDX-License-Identifier: Apache-2.0
/// cli/replay/hybrid_run.cpp: what a trace and a model ask of two pools, and both of them run.
#include <fmt/format.h>

#include <utility>

#include "replay/hybrid.h"

namespace folio::cli {
namespace {

/// The layers that are computed, group by group. They are numbered as the groups stand, those of
/// states too.
std::vector<LayerRunnerOptions> layers_of(const ModelOptions& options, const HybridModel& model) {
  std::vector<LayerRunnerOptions> layers;
  int32_t first = 0;
  for (uint32_t g = 0; g < model.kinds.size(); ++g) {
    const LayerKind& kind = model.kinds[g];
    if (kind.rule != GroupRule::state) {
      const ModelShape shape = shape_of(kind);
      layers.push_back({.model = shape,
                        .shape = kv_shape_of(shape, options.page_size, options.kv),
                        .mask = mask_of(kind),
                        .group = g,
                        .first_layer = first});
    }
    first += kind.layers;
  }
  return layers;
}

/// What tiers below a pool are made for. `what` the pool keeps, as records say it.
TierDemand below(const ReplayOptions& options, std::span<const TraceRequest> trace,
                 const PoolTask& task, const char* what) {
  const ModelOptions& model = options.model;
  TierDemand demand{
      .page_size = task.page_size,
      .max_batch = options.steps.max_batch,
      .fingerprint = fmt::format("{}, {}, {}, {} tokens a page, {} a state", model.name, what,
                                 describe(model.kv), model.page_size, model.checkpoint)};
  for (const GroupOptions& group : task.groups) {
    const int64_t tokens = group.rule == GroupRule::state ? group.checkpoint : task.page_size;
    const auto pages_of = [&](int64_t all) { return (all + tokens - 1) / tokens; };
    PageKind& kind = demand.kinds.emplace_back();
    kind.page_bytes = group.page_bytes;
    kind.longest_pages = pages_of(task.longest_tokens);
    for (const TraceRequest& request : trace) kind.all_pages += pages_of(cached_tokens(request));
  }
  return demand;
}

}  // namespace

Result<HybridTasks> tasks_of(const ReplayOptions& options, const HybridModel& model,
                             std::span<const TraceRequest> trace) {
  const ModelOptions& pages = options.model;
  const GroupSizes sizes{pages.page_size, pages.checkpoint, pages.kv};
  auto groups = groups_of(model, sizes);
  if (!groups) return groups.error();
  const GroupOptions uniform = uniform_group(*groups, sizes);
  HybridTasks tasks{.demand = demand_of(trace)};
  TraceDemand& demand = tasks.demand;
  tasks.groups = {.groups = std::move(*groups),
                  .page_size = pages.page_size,
                  .checkpoint = pages.checkpoint,
                  .longest_tokens = demand.longest_tokens,
                  .partial = options.cache.partial,
                  .everything_bytes = uniform.page_bytes,
                  .records = !options.output.report.empty()};
  const int32_t tokens = uniform_page_size(tasks.groups.groups, sizes);
  tasks.groups.everything_tokens = tokens;
  demand.longest_bytes = (demand.longest_tokens + tokens - 1) / tokens * uniform.page_bytes;
  tasks.uniform = tasks.groups;
  tasks.uniform.groups = {uniform};
  tasks.uniform.page_size = tokens;
  if (pages.checkpoint != 0) tasks.uniform.partial = 0;  // the state behind a page cannot be cut
  tasks.uniform.checkpoint = 0;
  tasks.uniform.records = false;
  tasks.groups.tiers = tasks.uniform.tiers = options.tiers;
  if (options.tiers.any()) {
    tasks.groups.below = below(options, trace, tasks.groups, "in groups");
    tasks.uniform.below = below(options, trace, tasks.uniform, "everything");
    if (!options.tiers.disk.empty()) tasks.uniform.tiers.disk += "/everything";
  }
  if (options.compute == Compute::attention) tasks.groups.layers = layers_of(pages, model);
  return tasks;
}

Result<HybridFigures> run_both(const ReplayOptions& options, std::span<const TraceRequest> trace,
                               HybridTasks tasks, int64_t memory_bytes) {
  HybridFigures figures;
  figures.demand = tasks.demand;
  figures.memory_bytes = tasks.groups.memory_bytes = tasks.uniform.memory_bytes = memory_bytes;
  auto run = run_pool(options, trace, tasks.groups);
  if (!run) return run.error();
  figures.groups = std::move(*run);
  if (tasks.demand.longest_bytes > memory_bytes) return figures;
  run = run_pool(options, trace, tasks.uniform);
  if (!run && run.error().code() == Errc::invalid_argument && options.tiers.any()) {
    figures.no_tier = run.error().message();
    return figures;
  }
  if (!run) return run.error();
  figures.uniform = std::move(*run);
  return figures;
}

}  // namespace folio::cli
