// SPDX-License-Identifier: Apache-2.0
/// cli/replay/replay_steps.cpp: a trace by steps through a pool whose layers all keep the same.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "replay/replay.h"
#include "replay/step_loop.h"

namespace folio::cli {
namespace {

constexpr int64_t usual_cache_bytes = int64_t{4} << 30;

/// Of all requests, as if they shared nothing.
int64_t all_pages_of(std::span<const TraceRequest> trace, int32_t page_size) {
  int64_t pages = 0;
  for (const TraceRequest& request : trace)
    pages += (cached_tokens(request) + page_size - 1) / page_size;
  return pages;
}

/// Pages of a cache whose size was not given: all that the trace can use, but no more than
/// `usual_cache_bytes` of keys and values. Errors: those of page_bytes
Result<int64_t> usual_pages(const ModelOptions& model, Compute compute, int64_t all_pages,
                            int64_t longest_pages) {
  const int64_t most = std::min(all_pages, int64_t{0x7fffffff});
  if (compute == Compute::none) return most;
  const auto bytes = page_bytes(kv_shape_of(model.sizes, model.page_size, model.kv));
  if (!bytes) return bytes.error();
  return std::max(std::min(most, usual_cache_bytes / *bytes), longest_pages);
}

Result<PoolOptions> pool_options_of(const ReplayOptions& options, const TraceDemand& demand,
                                    int64_t all_pages) {
  PoolOptions pool = pool_options_of(options.cache, options.output, options.steps.max_batch,
                                     options.model.page_size, demand.longest_tokens);
  const int64_t longest_pages = pool.max_pages_per_sequence;
  const auto usual = usual_pages(options.model, options.compute, all_pages, longest_pages);
  if (!usual) return usual.error();
  const int32_t spares = options.tiers.spares();
  const int64_t pages = options.cache.pages != 0 ? options.cache.pages : *usual + spares;
  if (pages < longest_pages + spares) {
    const std::string beside = spares != 0 ? fmt::format(" beside {} spare ones", spares) : "";
    return Status(Errc::invalid_argument,
                  fmt::format("--pages: {} pages of {} tokens hold fewer than the {} tokens of the "
                              "request in line {} of {}{}",
                              pages, options.model.page_size, demand.longest_tokens,
                              demand.longest_line, options.trace.file, beside));
  }
  pool.num_pages = static_cast<uint32_t>(pages);
  return pool;
}

/// What reports show of steps.
class Watcher : public StepWatcher {
 public:
  Watcher(const PagePool& pool, PageRecorder* recorder, TieredPages* below, ReplayFigures& figures)
      : pool_(pool), recorder_(recorder), below_(below), figures_(figures) {}

  void begun(const Step& step, std::span<const std::span<const PageCopy>>) override {
    if (recorder_ != nullptr) record_admissions(step);
    if (below_ == nullptr) return;
    for (const StepEntry& entry : step.entries) record_source(*entry.sequence);
  }

  void committed(const Step& step) override {
    if (recorder_ == nullptr) return;
    for (const StepEntry& entry : step.entries)
      if (entry.sequence->left() == 0) recorder_->releasing(row_of(*entry.sequence));
  }

  void ended(double seconds) override {
    figures_.step_seconds.push_back(seconds);
    if (recorder_ != nullptr) recorder_->end_step(seconds);
  }

  void finish() const {
    if (below_ == nullptr) return;
    figures_.tiers = below_->figures();
    sources_.give(*figures_.tiers);
  }

 private:
  /// All pages of a sequence: it has them from its first step to its last.
  [[nodiscard]] std::span<const uint32_t> row_of(const Running& sequence) const {
    const auto tokens = static_cast<int64_t>(sequence.tokens.size());
    const int64_t pages = (tokens + pool_.page_size() - 1) / pool_.page_size();
    return {pool_.table().entries + pool_.row_start(sequence.id).value_or(0),
            static_cast<size_t>(pages)};
  }

  void record_admissions(const Step& step) {
    admitted_.clear();
    for (const StepEntry& entry : step.entries) {
      const Running& sequence = *entry.sequence;
      if (sequence.done != sequence.first) continue;
      // What was loaded took pages as what is computed does.
      const int32_t found = below_ != nullptr ? sequence.from.memory : sequence.first;
      admitted_.push_back({sequence.request, row_of(sequence), found / pool_.page_size(), found});
    }
    recorder_->admitted(admitted_, pool_.stats());
  }

  void record_source(const Running& sequence) {
    if (sequence.done != sequence.first) return;
    TokensBySource tokens{.memory = sequence.from.memory,
                          .computed = sequence.prompt - sequence.first};
    for (size_t t = 0; t < num_tiers; ++t) tokens.tiers[t] = sequence.from.tiers[t];
    sources_.add(tokens);
  }

  const PagePool& pool_;
  PageRecorder* recorder_;  // may be null
  TieredPages* below_;      // may be null
  ReplayFigures& figures_;
  SourceRecorder sources_;
  std::vector<AdmittedRequest> admitted_;
};

/// Errors: those of page_bytes and make_engine
Result<std::unique_ptr<Engine>> engine_of(const ReplayOptions& options, const PoolOptions& pool,
                                          int64_t longest_tokens, const Executor& executor) {
  if (options.compute == Compute::none) return std::unique_ptr<Engine>();
  const ModelOptions& model = options.model;
  const KVShape shape = kv_shape_of(model.sizes, model.page_size, model.kv);
  const auto page = page_bytes(shape);
  if (!page) return page.error();
  return make_engine(
      {{{.model = model.sizes, .shape = shape, .pages = pool.num_pages}}, options.verify},
      options.steps, pool, static_cast<double>(pool.num_pages) * static_cast<double>(*page),
      longest_tokens, executor);
}

/// What is known before and behind the loop.
void add_figures(const TraceDemand& demand, const PagePool& pool, const Engine* engine,
                 const StepTimes& times, ReplayFigures& figures) {
  figures.requests = demand.requests;
  figures.prompt_tokens = demand.prompt_tokens;
  figures.output_tokens = demand.output_tokens;
  figures.seconds = times.seconds;
  figures.pool_seconds = times.pool_seconds;
  figures.computed_tokens = times.computed_tokens;
  figures.pages = pool.num_pages();
  figures.page_size = pool.page_size();
  figures.pool = pool.stats();
  figures.histograms = pool.histograms().value_or(PoolHistograms());
  if (engine == nullptr) return;
  figures.kernel = engine->kernels();
  figures.layers = engine->totals();
  figures.verify = engine->verified();
}

}  // namespace

Result<ReplayFigures> replay_steps(const ReplayOptions& options,
                                   std::span<const TraceRequest> trace,
                                   std::unique_ptr<PageRecorder>* recorder) {
  const TraceDemand demand = demand_of(trace);
  const int64_t all_pages = all_pages_of(trace, options.model.page_size);
  const auto pool_options = pool_options_of(options, demand, all_pages);
  if (!pool_options) return pool_options.error();
  const Executor executor = default_executor(options.threads);
  auto below = tiers_of(options.tiers, options.model,
                        {.tokens = options.model.page_size,
                         .all_pages = all_pages,
                         .longest_pages = pool_options->max_pages_per_sequence,
                         .page_size = options.model.page_size,
                         .max_batch = options.steps.max_batch});
  if (!below) return below.error();

  // Sizes first, memory last.
  const auto computes = engine_of(options, *pool_options, demand.longest_tokens, executor);
  if (!computes) return computes.error();
  Engine* const engine = computes->get();
  const auto made =
      make_pool(*pool_options, std::move(*below),
                engine != nullptr ? engine->required_bytes(demand.longest_tokens) : 0.0);
  if (!made) return made.error();
  if (engine != nullptr) {
    if (Status s = engine->allocate(); !s.is_ok()) return s;
  }

  ReplayFigures figures;
  figures.threads = executor.concurrency(executor.context);
  if (recorder != nullptr)
    *recorder = std::make_unique<PageRecorder>(trace, pool_options->num_pages);
  PagePool& pool = *made->pool;
  TieredPages* const tiers = made->tiers.get();
  Watcher watcher(pool, recorder != nullptr ? recorder->get() : nullptr, tiers, figures);
  Scheduler scheduler(trace, pool, {options.steps.max_batch, options.steps.step_tokens}, tiers);
  StepTimes times;
  if (Status s = run_steps(pool, scheduler, engine, watcher, std::ssize(trace),
                           !options.output.quiet, times);
      !s.is_ok())
    return s;
  watcher.finish();
  add_figures(demand, pool, engine, times, figures);
  return figures;
}

}  // namespace folio::cli
