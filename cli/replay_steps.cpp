// SPDX-License-Identifier: Apache-2.0
/// cli/replay_steps.cpp: the step loop: pool, then append and attend for each layer, then pool
/// again.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "layer_runner.h"
#include "parallel.h"
#include "progress.h"
#include "replay.h"
#include "scheduler.h"
#include "verify.h"

namespace folio::cli {
namespace {

constexpr int64_t usual_cache_bytes = int64_t{4} << 30;

/// Tokens that a request puts into the cache.
int64_t tokens_of(const TraceRequest& request) {
  return int64_t{request.input_length} + std::max(request.output_length, 1) - 1;
}

/// What the trace needs of the cache.
struct Demand {
  int64_t longest_tokens = 0;
  int64_t longest_pages = 0;  ///< of one request
  int64_t longest_line = 0;
  int64_t all_pages = 0;  ///< of all requests, as if they shared nothing
};

Demand demand_of(std::span<const TraceRequest> trace, int32_t page_size) {
  Demand demand;
  for (const TraceRequest& request : trace) {
    const int64_t pages = (tokens_of(request) + page_size - 1) / page_size;
    demand.all_pages += pages;
    if (tokens_of(request) <= demand.longest_tokens) continue;
    demand.longest_tokens = tokens_of(request);
    demand.longest_pages = pages;
    demand.longest_line = request.line;
  }
  return demand;
}

/// Pages of a cache whose size was not given: all that the trace can use, but no more than
/// `usual_cache_bytes` of keys and values. Errors: those of page_bytes
Result<int64_t> usual_pages(const ReplayOptions& options, const Demand& demand) {
  const int64_t most = std::min(demand.all_pages, int64_t{0x7fffffff});
  if (options.compute == Compute::none) return most;
  const auto bytes = page_bytes(kv_shape_of(options.sizes, options.page_size, options.kv_dtype));
  if (!bytes) return bytes.error();
  return std::max(std::min(most, usual_cache_bytes / *bytes), demand.longest_pages);
}

Result<PoolOptions> pool_options_of(const ReplayOptions& options, const Demand& demand) {
  const auto usual = usual_pages(options, demand);
  if (!usual) return usual.error();
  const int64_t pages = options.pages != 0 ? options.pages : *usual;
  if (pages < demand.longest_pages) {
    return Status(Errc::invalid_argument,
                  fmt::format("--pages: {} pages of {} tokens hold fewer than the {} tokens of the "
                              "request in line {} of {}",
                              pages, options.page_size, demand.longest_tokens, demand.longest_line,
                              options.trace));
  }
  PoolOptions pool;
  pool.num_pages = static_cast<uint32_t>(pages);
  pool.page_size = options.page_size;
  pool.max_sequences = static_cast<uint32_t>(options.max_batch);
  pool.max_pages_per_sequence = static_cast<uint32_t>(demand.longest_pages);
  pool.eviction = eviction_of(options.policy);
  pool.histograms = !options.metrics.empty();
  pool.min_partial_tokens = options.partial;
  return pool;
}

/// The loop and what it holds. `runner` and `verifier` may be absent.
class Replay {
 public:
  Replay(const ReplayOptions& options, std::span<const TraceRequest> trace, PagePool& pool,
         Recorder* recorder, TieredPages* below)
      : pool_(pool),
        recorder_(recorder),
        below_(below),
        scheduler_(trace, pool, {options.max_batch, options.step_tokens}, below),
        progress_(!options.quiet),
        requests_(static_cast<int64_t>(trace.size())) {}

  Status run(LayerRunner* runner, Verifier* verifier, ReplayFigures& figures) {
    if (Status s = run_all(runner, verifier, figures); !s.is_ok()) return s;
    if (below_ == nullptr) return {};
    figures.tiers = below_->figures();
    sources_.give(*figures.tiers);
    return {};
  }

 private:
  Status run_all(LayerRunner* runner, Verifier* verifier, ReplayFigures& figures) {
    const Timed timed(figures.seconds);
    Step step;
    while (scheduler_.has_work()) {
      const double before = spent(runner, figures);
      if (Status s = run_step(step, runner, verifier, figures); !s.is_ok()) return s;
      figures.step_seconds.push_back(spent(runner, figures) - before);
      if (recorder_ != nullptr) recorder_->end_step(figures.step_seconds.back());
      figures.computed_tokens += step.tokens();
      progress_.show(scheduler_.finished(), requests_);
    }
    return {};
  }

  static double spent(const LayerRunner* runner, const ReplayFigures& figures) {
    return figures.pool_seconds + (runner != nullptr ? runner->totals().engine_seconds() : 0.0);
  }

  Status run_step(Step& step, LayerRunner* runner, Verifier* verifier, ReplayFigures& figures) {
    std::span<const PageCopy> copies;
    StepTicket ticket;
    {
      const Timed timed(figures.pool_seconds);
      if (Status s = scheduler_.next(step); !s.is_ok()) return s;
      copies = pool_.take_copies();
      const auto begun = pool_.begin_step(step.ids);
      if (!begun) return begun.error();
      ticket = *begun;
    }
    if (recorder_ != nullptr) record_admissions(step);
    if (below_ != nullptr) record_sources(step);
    if (runner != nullptr) {
      if (Status s = runner->run(step, pool_.table(), copies, verifier); !s.is_ok()) return s;
    }
    {
      const Timed timed(figures.pool_seconds);
      if (Status s = pool_.end_step(ticket); !s.is_ok()) return s;
      if (Status s = scheduler_.commit(step); !s.is_ok()) return s;
    }
    if (verifier != nullptr) {
      for (const StepEntry& entry : step.entries) verifier->check(*entry.sequence);
    }
    if (recorder_ != nullptr) {
      for (size_t i = 0; i < step.entries.size(); ++i)
        if (step.entries[i].sequence->left() == 0) recorder_->releasing(row_of(step, i));
    }
    const Timed timed(figures.pool_seconds);
    return scheduler_.retire();
  }

  /// All pages of entry i: a sequence has them from its first step to its last.
  std::span<const uint32_t> row_of(const Step& step, size_t i) const {
    const auto tokens = static_cast<int64_t>(step.entries[i].sequence->tokens.size());
    const int64_t pages = (tokens + pool_.page_size() - 1) / pool_.page_size();
    return {pool_.table().entries + step.row_starts[i], static_cast<size_t>(pages)};
  }

  void record_admissions(const Step& step) {
    admitted_.clear();
    for (size_t i = 0; i < step.entries.size(); ++i) {
      const Running& sequence = *step.entries[i].sequence;
      if (sequence.done != sequence.first) continue;
      // What was loaded took pages as what is computed does.
      const int32_t found = below_ != nullptr ? sequence.from.memory : sequence.first;
      admitted_.push_back({sequence.request, row_of(step, i), found / pool_.page_size(), found});
    }
    recorder_->admitted(admitted_, pool_.stats());
  }

  void record_sources(const Step& step) {
    for (const StepEntry& entry : step.entries) {
      const Running& sequence = *entry.sequence;
      if (sequence.done != sequence.first) continue;
      TokensBySource tokens{.memory = sequence.from.memory,
                            .computed = sequence.prompt - sequence.first};
      for (size_t t = 0; t < num_tiers; ++t) tokens.tiers[t] = sequence.from.tiers[t];
      sources_.add(tokens);
    }
  }

  PagePool& pool_;
  Recorder* recorder_;  // may be null
  TieredPages* below_;  // may be null
  SourceRecorder sources_;
  std::vector<AdmittedRequest> admitted_;
  Scheduler scheduler_;
  ProgressBar progress_;
  int64_t requests_;
};

}  // namespace

Result<ReplayFigures> replay_steps(const ReplayOptions& options,
                                   std::span<const TraceRequest> trace,
                                   std::unique_ptr<Recorder>* recorder) {
  const Demand demand = demand_of(trace, options.page_size);
  auto pool_options = pool_options_of(options, demand);
  if (!pool_options) return pool_options.error();
  const Executor executor = default_executor(options.threads);
  std::optional<PagePool> pool;  // outlives what is below
  const auto below = tiers_of(options, options.page_size,
                              {.all_pages = demand.all_pages,
                               .longest_pages = demand.longest_pages,
                               .page_size = options.page_size,
                               .max_batch = options.max_batch});
  if (!below) return below.error();
  TieredPages* const tiers = below->get();
  if (tiers != nullptr) tiers->prepare(*pool_options);

  // Sizes first, memory last.
  std::optional<LayerRunner> runner;
  std::optional<Verifier> verifier;
  double bytes = tiers != nullptr ? tiers->required_bytes(pool_options->num_pages) : 0.0;
  if (options.compute == Compute::attention) {
    LayerRunnerOptions layers{
        .model = options.sizes,
        .shape = kv_shape_of(options.sizes, options.page_size, options.kv_dtype)};
    layers.pages = pool_options->num_pages;
    const auto page = page_bytes(layers.shape);
    if (!page) return page.error();
    // before the planes of so many pages are described
    const double planes = static_cast<double>(layers.pages) * static_cast<double>(*page);
    if (Status s = check_memory(*pool_options, planes); !s.is_ok()) return s;
    layers.limits = {.batch = options.max_batch,
                     .tokens = options.step_tokens,
                     .context = static_cast<int32_t>(demand.longest_tokens),
                     .parallelism = executor.concurrency(executor.context)};
    layers.poison = options.verify;
    auto created = LayerRunner::create(layers, executor);
    if (!created) return created.error();
    runner.emplace(std::move(*created));
    bytes += runner->required_bytes();
    if (options.verify) {
      const double scale = static_cast<double>(runner->attention().problem().scale);
      verifier.emplace(
          VerifierOptions{options.sizes, layers.shape, scale, options.verify_share, options.seed},
          executor);
      bytes += verifier->required_bytes(demand.longest_tokens);
    }
  }
  if (Status s = check_memory(*pool_options, bytes); !s.is_ok()) return s;
  auto created = PagePool::create(*pool_options);
  if (!created) return created.error();
  pool.emplace(std::move(*created));
  if (tiers != nullptr) {
    if (Status s = tiers->attach(*pool); !s.is_ok()) return s;
  }
  if (runner) {
    if (Status s = runner->allocate(); !s.is_ok()) return s;
  }

  ReplayFigures figures;
  if (recorder != nullptr) *recorder = std::make_unique<Recorder>(trace, pool_options->num_pages);
  Replay loop(options, trace, *pool, recorder != nullptr ? recorder->get() : nullptr, tiers);
  if (Status s = loop.run(runner ? &*runner : nullptr, verifier ? &*verifier : nullptr, figures);
      !s.is_ok())
    return s;
  figures.requests = static_cast<int64_t>(trace.size());
  for (const TraceRequest& request : trace) {
    figures.prompt_tokens += request.input_length;
    figures.output_tokens += request.output_length;
  }
  figures.pages = pool->num_pages();
  figures.page_size = pool->page_size();
  figures.pool = pool->stats();
  figures.histograms = pool->histograms().value_or(PoolHistograms());
  figures.threads = executor.concurrency(executor.context);
  if (runner) {
    figures.kernel = runner->attention().kernel();
    figures.layers = runner->totals();
  }
  if (verifier) figures.verify = verifier->summary();
  return figures;
}

}  // namespace folio::cli
