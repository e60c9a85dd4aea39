// SPDX-License-Identifier: Apache-2.0
/// cli/replay/replay.h: a request trace through pool, append and attention.
#pragma once

#include <memory>
#include <span>

#include "folio/core/status.h"
#include "load/options.h"
#include "load/trace.h"
#include "replay/engine.h"
#include "replay/figures.h"
#include "replay/recorder.h"

namespace folio::cli {

/// The step loop over the whole trace. Checks sizes before it takes memory. Errors: those of its
/// parts
///
/// `recorder`: empty, or becomes what a report shows of it; so in replay_blocks.
Result<ReplayFigures> replay_steps(const ReplayOptions& options,
                                   std::span<const TraceRequest> trace,
                                   std::unique_ptr<PageRecorder>* recorder = nullptr);

/// One request after the other through the pool alone; a page is a block of the trace and a token
/// of the pool is a block's id. Errors: those of the pool; invalid_argument for a cache smaller
/// than one request
Result<ReplayFigures> replay_blocks(const ReplayOptions& options,
                                    std::span<const TraceRequest> trace,
                                    std::unique_ptr<PageRecorder>* recorder = nullptr);

/// Whether this machine's memory can hold the pool's tables and `more` bytes. `what` they are of,
/// beside an arena. Errors: invalid_argument with both sizes; those of the pool's options
Status check_memory(const PoolOptions& pool, double more, const char* what = "the step and");

/// What every pool of a replay has of the options. The longest sequence has so many tokens.
PoolOptions pool_options_of(const CacheChoice& cache, const OutputOptions& output,
                            int32_t max_batch, int32_t page_size, int64_t longest_tokens);

/// What computes the layers of the options, whose limits are those of `steps` and whose pages take
/// `bytes`; without its memory, and null without layers. Errors: those of check_memory and
/// Engine::create
Result<std::unique_ptr<Engine>> make_engine(EngineOptions options, const StepOptions& steps,
                                            const PoolOptions& pool, double bytes,
                                            int64_t longest_tokens, const Executor& executor);

/// A pool and what is below it.
struct TieredPool {
  std::unique_ptr<PagePool> pool;  ///< outlives the tiers
  std::unique_ptr<TieredPages> tiers;
};
/// The pool above `tiers`, which may be null, where there is room for it, for them and for `more`
/// bytes. Errors: those of check_memory, PagePool::create and TieredPages::attach
Result<TieredPool> make_pool(PoolOptions options, std::unique_ptr<TieredPages> tiers,
                             double more = 0.0);

}  // namespace folio::cli
