// SPDX-License-Identifier: Apache-2.0
/// cli/capacity/hybrid_capacity.cpp: sizes of an arena, and what each finds.
#include "capacity/hybrid_capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "parts/numbers.h"
#include "replay/replay.h"
#include "report/outputs.h"

namespace folio::cli {
namespace {

constexpr size_t usual_sizes = 8;

/// A share of a page where this has more tokens than a block.
int64_t block_bytes_of(const PoolTask& uniform, int64_t tokens_per_block) {
  const int64_t page_size = uniform.page_size;
  return (uniform.groups.front().page_bytes * tokens_per_block + page_size - 1) / page_size;
}

/// From a little more than the longest request needs on, until the whole trace has room.
std::vector<int64_t> usual_ladder(const HybridCapacity& plan) {
  std::vector<int64_t> sizes = {plan.need_bytes / 4 * 5};
  while (sizes.size() < usual_sizes && sizes.back() < plan.distinct * plan.block_bytes)
    sizes.push_back(2 * sizes.back());
  return sizes;
}

/// Bytes. Errors: invalid_argument naming the option
Result<std::vector<int64_t>> sizes_of(const CapacityOptions& options, const HybridCapacity& plan) {
  std::vector<int64_t> sizes;
  sizes.reserve(options.pages.size() + options.gib.size());
  for (const int64_t blocks : options.pages) sizes.push_back(blocks * plan.block_bytes);
  for (const double gib : options.gib)
    sizes.push_back(static_cast<int64_t>(std::floor(gib * bytes_per_gib)));
  if (sizes.empty()) return usual_ladder(plan);
  if (sizes.front() >= plan.need_bytes) return sizes;
  return Status(
      Errc::invalid_argument,
      fmt::format("{}: {:.3f} GiB are less than the {:.3f} that the request in line {} of {} needs",
                  options.gib.empty() ? "--pages" : "--gib", gib_of(sizes.front()),
                  gib_of(plan.need_bytes), plan.demand.longest_line, options.trace.file));
}

Result<HybridCapacityRow> replay_at(const ReplayOptions& options,
                                    std::span<const TraceRequest> trace, HybridTasks tasks,
                                    int64_t memory_bytes) {
  HybridCapacityRow row{.memory_bytes = memory_bytes, .groups = {}, .uniform = {}};
  tasks.groups.memory_bytes = tasks.uniform.memory_bytes = memory_bytes;
  auto run = run_pool(options, trace, tasks.groups);
  if (!run && run.error().code() != Errc::out_of_pages) return run.error();
  if (run) row.groups = std::move(*run);
  if (tasks.demand.longest_bytes > memory_bytes) return row;
  run = run_pool(options, trace, tasks.uniform);
  if (!run) return run.error();
  row.uniform = std::move(*run);
  return row;
}

Result<HybridCapacity> make_plan(const CapacityOptions& options, const HybridModel& model,
                                 const ReplayOptions& replay, std::span<const TraceRequest> trace) {
  const int32_t page_size = options.model.page_size;
  const int32_t tokens_per_block = trace.front().tokens_per_block;
  if (Status s = check_page_size(page_size, tokens_per_block); !s.is_ok()) return s;
  auto tasks = tasks_of(replay, model, trace);
  if (!tasks) return tasks.error();
  HybridCapacity plan{.demand = tasks->demand, .groups = tasks->groups.groups};
  plan.tokens_per_block = tokens_per_block;
  plan.block_bytes = block_bytes_of(tasks->uniform, tokens_per_block);
  plan.distinct = name_blocks(trace).distinct;
  for (const GroupOptions& group : plan.groups)
    plan.need_bytes += held_bytes(group, page_size, plan.demand.longest_tokens);
  const auto sizes = sizes_of(options, plan);
  if (!sizes) return sizes.error();
  for (const int64_t size : *sizes) {
    auto row = replay_at(replay, trace, *tasks, size);
    if (!row) return row.error();
    plan.rows.push_back(std::move(*row));
  }
  return plan;
}

}  // namespace

Status plan_hybrid_capacity(CapacityOptions options, const HybridModel& model) {
  if (Status s = check_sizes(options); !s.is_ok()) return s;
  ReplayOptions replay = replay_of(options);
  if (!options.pages.empty()) replay.cache.pages = options.pages.back();  // the option of messages
  if (Status s = resolve_hybrid(replay, model); !s.is_ok()) return s;
  options.model = replay.model;
  return report_on_trace(options.trace, options.output, {},
                         [&](std::vector<TraceRequest>& trace) -> Result<Report> {
                           for (TraceRequest& request : trace) request.output_length = 0;
                           const auto plan = make_plan(options, model, replay, trace);
                           if (!plan) return plan.error();
                           return report_of(!options.output.report.empty(), options, model, *plan);
                         });
}

}  // namespace folio::cli
