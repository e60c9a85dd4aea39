// SPDX-License-Identifier: Apache-2.0
/// cli/hybrid.cpp: `folio replay --model` of a model with groups, from options to figures.
#include "hybrid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "replay.h"

namespace folio::cli {
namespace {

constexpr double bytes_per_gib = 1024.0 * 1024.0 * 1024.0;
constexpr int64_t usual_memory_bytes = int64_t{64} << 30;

Status bad(const std::string& reason) { return {Errc::invalid_argument, reason}; }

/// Options of the other replays. Errors: invalid_argument naming the first one
Status refuse_others(const ReplayOptions& options) {
  const ModelShape& sizes = options.sizes;
  const std::pair<bool, const char*> given[] = {
      {sizes.layers != 0, "--layers"},
      {sizes.q_heads != 0, "--q-heads"},
      {sizes.kv_heads != 0, "--kv-heads"},
      {sizes.head_size != 0, "--head-size"},
      {sizes.v_head_size != 0, "--v-head-size"},
      {sizes.is_mla, "--mla"},
      {options.compute == Compute::attention, "--compute attention"},
      {options.verify, "--verify"},
      {options.page_per_block, "--page-per-block"},
      {options.policy == Policy::all, "--policy all"},
      {!options.report.empty(), "--report"},
      {!options.metrics.empty(), "--metrics"},
      {options.partial != 0, "--partial"},
  };
  for (const auto& [is_given, option] : given) {
    if (!is_given) continue;
    return bad(
        fmt::format("{}: not with --model {}, whose layers differ: it has sizes of its own, "
                    "and its pages and tables are replayed, by steps, under one policy",
                    option, options.model_name));
  }
  if (options.pages != 0 && options.gib != 0.0)
    return bad("--gib: not with --pages, which says the same in pages of all layers");
  return {};
}

/// Tokens of a page of states. Errors: invalid_argument naming --checkpoint
Result<int32_t> checkpoint_of(const ReplayOptions& options, const HybridModel& model) {
  const bool has_states = model.kinds.back().rule == GroupRule::state;
  if (options.checkpoint != 0 && !has_states)
    return bad(fmt::format("--checkpoint: --model {} has no states", model.name));
  if (!has_states) return 0;
  const int32_t checkpoint = options.checkpoint != 0 ? options.checkpoint : usual_checkpoint;
  if (checkpoint % options.page_size == 0) return checkpoint;
  return bad(fmt::format("--checkpoint: got '{}', expected a multiple of the {} tokens of a page",
                         checkpoint, options.page_size));
}

/// Finds the request with most tokens, and sums up.
int64_t measure(std::span<const TraceRequest> trace, HybridFigures& figures) {
  int64_t longest = 0;
  for (const TraceRequest& request : trace) {
    figures.prompt_tokens += request.input_length;
    figures.output_tokens += request.output_length;
    const int64_t tokens = int64_t{request.input_length} + std::max(request.output_length, 1) - 1;
    if (tokens <= longest) continue;
    longest = tokens;
    figures.longest_line = request.line;
  }
  figures.requests = static_cast<int64_t>(trace.size());
  return longest;
}

/// Errors: invalid_argument for --pages whose bytes nobody has
Result<int64_t> memory_of(const ReplayOptions& options, int64_t uniform_bytes,
                          int64_t longest_bytes) {
  constexpr int64_t most = int64_t{1} << 60;
  if (options.pages > most / uniform_bytes) {
    return bad(fmt::format("--pages: got '{}' of {} bytes each, expected at most {}", options.pages,
                           uniform_bytes, most / uniform_bytes));
  }
  if (options.pages != 0) return options.pages * uniform_bytes;
  if (options.gib != 0.0) return static_cast<int64_t>(std::floor(options.gib * bytes_per_gib));
  return std::max(usual_memory_bytes, longest_bytes);
}

Result<HybridFigures> run_both(const ReplayOptions& options, const HybridModel& model,
                               std::span<const TraceRequest> trace) {
  const GroupSizes sizes{options.page_size, options.checkpoint, options.kv_dtype};
  auto groups = groups_of(model, sizes);
  if (!groups) return groups.error();
  HybridFigures figures;
  PoolTask task{.groups = std::move(*groups), .page_size = options.page_size};
  task.longest_tokens = measure(trace, figures);
  task.checkpoint = options.checkpoint;
  const GroupOptions uniform = uniform_group(task.groups, sizes);
  task.everything_bytes = uniform.page_bytes;
  task.everything_tokens = uniform_page_size(task.groups, sizes);
  figures.longest_bytes = (task.longest_tokens + task.everything_tokens - 1) /
                          task.everything_tokens * uniform.page_bytes;
  const auto memory = memory_of(options, uniform.page_bytes, figures.longest_bytes);
  if (!memory) return memory.error();
  task.memory_bytes = figures.memory_bytes = *memory;
  auto run = run_pool(options, trace, task);
  if (!run) return run.error();
  figures.groups = std::move(*run);
  if (figures.longest_bytes > figures.memory_bytes) return figures;
  task.groups = {uniform};
  task.page_size = task.everything_tokens;
  task.checkpoint = 0;
  run = run_pool(options, trace, task);
  if (!run) return run.error();
  figures.uniform = std::move(*run);
  return figures;
}

}  // namespace

Status replay_hybrid(ReplayOptions options, const HybridModel& model) {
  if (Status s = refuse_others(options); !s.is_ok()) return s;
  const auto checkpoint = checkpoint_of(options, model);
  if (!checkpoint) return checkpoint.error();
  options.checkpoint = *checkpoint;
  if (Status s = check_files(options); !s.is_ok()) return s;
  if (options.sequential) options.max_batch = 1;
  const auto trace = read_trace(options.trace, options.limit);
  if (!trace) return trace.error();
  JsonFile json;
  if (Status s = json.open(options.json); !s.is_ok()) return s;
  const auto figures = run_both(options, model, *trace);
  if (!figures) return figures.error();
  if (!options.quiet) fmt::print("{}", summary_of(options, model, *figures));
  return json.write(json_of(options, model, *figures));
}

}  // namespace folio::cli
