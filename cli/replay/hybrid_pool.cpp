// SPDX-License-Identifier: Apache-2.0
/// cli/replay/hybrid_pool.cpp: a trace through one pool with groups, and what it uses meanwhile.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "replay/hybrid.h"
#include "replay/replay.h"
#include "replay/step_loop.h"

namespace folio::cli {
namespace {

/// Adds up what is used, step by step.
class Usage : public StepWatcher {
 public:
  Usage(std::span<const TraceRequest> trace, const TieredPool& pool, const PoolTask& task,
        PoolRun& run)
      : trace_(trace), pool_(*pool.pool), below_(pool.tiers.get()), task_(task), run_(run) {
    for (uint32_t g = 0; g < pool_.num_groups(); ++g) {
      const GroupFigures f = pool_.group(g).value();
      run.groups.push_back({.options = task.groups[g],
                            .pages = f.num_pages,
                            .page_size = f.page_size,
                            .page_bytes = f.page_bytes});
    }
  }

  void begun(const Step& step, std::span<const std::span<const PageCopy>> copies) override {
    for (size_t g = 0; g < copies.size(); ++g) run_.groups[g].copies += std::ssize(copies[g]);
    const int64_t everything = add_step();
    if (run_.recorder != nullptr) run_.recorder->begin_step(pool_, step, everything);
  }

  void committed(const Step& step) override {
    if (below_ == nullptr) return;
    for (const StepEntry& entry : step.entries) {
      if (entry.sequence->left() != 0) continue;
      TokensBySource tokens = entry.sequence->sources;
      const TraceRequest& request = trace_[static_cast<size_t>(entry.sequence->request)];
      tokens.computed = request.input_length - tokens.found();
      sources_.add(tokens);
    }
  }

  void ended(double seconds) override {
    if (run_.recorder != nullptr) run_.recorder->end_step(seconds);
  }

  void finish(const Scheduler& scheduler, const StepTimes& times) {
    const auto steps = static_cast<double>(std::max<int64_t>(run_.steps, 1));
    run_.used.mean = used_ / steps;
    run_.everything.mean = everything_ / steps;
    for (uint32_t g = 0; g < run_.groups.size(); ++g) {
      const GroupFigures f = pool_.group(g).value();
      run_.groups[g].given_back = scheduler.given_back(g);
      run_.groups[g].evicted_pages = f.evicted_pages;
      run_.groups[g].cached_pages = f.cached_pages;
    }
    run_.hit_tokens = scheduler.hit_tokens();
    run_.partial_tokens = scheduler.partial_tokens();
    run_.again_tokens = scheduler.again_tokens();
    run_.preemptions = scheduler.preemptions();
    run_.computed_tokens = times.computed_tokens;
    run_.pool_seconds = times.pool_seconds;
    run_.stats = pool_.stats();
    run_.histograms = pool_.histograms().value_or(PoolHistograms());
    if (below_ == nullptr) return;
    run_.tiers = below_->figures();
    sources_.give(*run_.tiers);
  }

 private:
  /// Bytes, if all layers kept everything.
  int64_t add_step() {
    int64_t used = 0, leading = 0;
    for (uint32_t g = 0; g < run_.groups.size(); ++g) {
      GroupUse& group = run_.groups[g];
      const int64_t pages = pool_.group(g).value().used_pages;
      group.used_pages += pages;
      group.peak_pages = std::max(group.peak_pages, pages);
      used += pages * group.page_bytes;
      if (g == 0) leading = pages;
    }
    // fewer than 2^31 pages of at most 2^20 tokens: their product stays in int64, the bytes in a
    // double
    const double tokens = static_cast<double>(leading * task_.page_size);
    const double everything =
        tokens * static_cast<double>(task_.everything_bytes) / task_.everything_tokens;
    ++run_.steps;
    used_ += static_cast<double>(used);
    everything_ += everything;
    run_.used.peak = std::max(run_.used.peak, used);
    run_.everything.peak = std::max(run_.everything.peak, static_cast<int64_t>(everything));
    return static_cast<int64_t>(everything);
  }

  std::span<const TraceRequest> trace_;
  const PagePool& pool_;
  const TieredPages* below_;  // may be null
  const PoolTask& task_;
  PoolRun& run_;
  SourceRecorder sources_;
  double used_ = 0.0, everything_ = 0.0;
};

/// What computes the task's layers, with its memory; null where it has none. Errors: those of
/// make_engine; out_of_memory
Result<std::unique_ptr<Engine>> engine_of(const ReplayOptions& options, const PoolTask& task,
                                          const PoolOptions& pool_options, const PagePool& pool) {
  std::vector<LayerRunnerOptions> layers = task.layers;
  for (LayerRunnerOptions& one : layers) one.pages = pool.group(one.group).value().num_pages;
  auto made = make_engine({std::move(layers), options.verify}, options.steps, pool_options,
                          static_cast<double>(task.memory_bytes), task.longest_tokens,
                          default_executor(options.threads));
  if (!made || *made == nullptr) return made;
  Engine& engine = **made;
  if (Status s = check_memory(pool_options, engine.required_bytes(task.longest_tokens)); !s.is_ok())
    return s;
  if (Status s = engine.allocate(); !s.is_ok()) return s;
  return made;
}

Status of_option(const CacheChoice& cache, const Status& status) {
  if (status.message().starts_with("--")) return status;  // it names one already
  return {status.code(),
          fmt::format("{}: {}", cache.pages != 0 ? "--pages" : "--gib", status.message())};
}

}  // namespace

Result<PoolRun> run_pool(const ReplayOptions& options, std::span<const TraceRequest> trace,
                         const PoolTask& task) {
  PoolOptions pool_options = pool_options_of(options.cache, options.output, options.steps.max_batch,
                                             task.page_size, task.longest_tokens);
  pool_options.min_partial_tokens = task.partial;
  pool_options.groups = task.groups;
  pool_options.arena_bytes = task.memory_bytes;
  std::unique_ptr<TieredPages> below;
  if (task.tiers.any()) {
    auto tiers = make_tiered_pages(task.tiers, task.below);
    if (!tiers) return tiers.error();
    below = std::move(*tiers);
  }
  const auto tiered = make_pool(pool_options, std::move(below));
  if (!tiered) return of_option(options.cache, tiered.error());
  PagePool& pool = *tiered->pool;
  const auto made = engine_of(options, task, pool_options, pool);
  if (!made) return of_option(options.cache, made.error());
  Engine* const engine = made->get();
  PoolRun run;
  if (task.records)
    run.recorder = std::make_unique<GroupRecorder>(trace, pool, task.groups, task.memory_bytes);
  Usage usage(trace, *tiered, task, run);
  Scheduler scheduler(trace, pool, {options.steps.max_batch, options.steps.step_tokens},
                      tiered->tiers.get(), Reserve::step, task.checkpoint);
  StepTimes times;
  if (Status s = run_steps(pool, scheduler, engine, usage, std::ssize(trace), !options.output.quiet,
                           times);
      !s.is_ok())
    return s;
  usage.finish(scheduler, times);
  if (engine == nullptr) return run;
  run.kernels = engine->kernels();
  run.layers = engine->totals();
  run.verify = engine->verified();
  return run;
}

}  // namespace folio::cli
