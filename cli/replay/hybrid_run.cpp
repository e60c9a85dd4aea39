// SPDX-License-Identifier: Apache-2.0
/// cli/replay/hybrid_run.cpp: what a trace and a model ask of two pools, and both of them run.
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
                        .shape = kv_shape_of(shape, options.page_size, options.kv_dtype),
                        .mask = mask_of(kind),
                        .group = g,
                        .first_layer = first});
    }
    first += kind.layers;
  }
  return layers;
}

}  // namespace

Result<HybridTasks> tasks_of(const ReplayOptions& options, const HybridModel& model,
                             std::span<const TraceRequest> trace) {
  const ModelOptions& pages = options.model;
  const GroupSizes sizes{pages.page_size, pages.checkpoint, pages.kv_dtype};
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
  if (!run) return run.error();
  figures.uniform = std::move(*run);
  return figures;
}

}  // namespace folio::cli
