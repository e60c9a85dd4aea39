// SPDX-License-Identifier: Apache-2.0
/// cli/replay.h: `folio replay`: a request trace through pool, append and attention.
#pragma once

#include <memory>
#include <span>

#include "folio/core/status.h"
#include "options.h"
#include "recorder.h"
#include "report.h"
#include "tiers.h"
#include "trace.h"

namespace folio::cli {

/// Replays what the options ask for, prints the summary and writes the JSON.
/// Errors: everything that is wrong with the input, sizes that this machine cannot hold, a failed
/// verification (Errc::internal)
Status replay(ReplayOptions options);

/// The step loop over the whole trace. Checks sizes before it takes memory. Errors: those of its
/// parts
///
/// `recorder`: empty, or becomes what a report shows of it; so in replay_blocks.
Result<ReplayFigures> replay_steps(const ReplayOptions& options,
                                   std::span<const TraceRequest> trace,
                                   std::unique_ptr<Recorder>* recorder = nullptr);

/// One request after the other through the pool alone; a page is a block of the trace and a token
/// of the pool is a block's id. Errors: those of the pool; invalid_argument for a cache smaller
/// than one request
Result<ReplayFigures> replay_blocks(const ReplayOptions& options,
                                    std::span<const TraceRequest> trace,
                                    std::unique_ptr<Recorder>* recorder = nullptr);

/// The tiers that the options choose for pages of so many tokens of the trace, `page_size` of the
/// pool; null without. Errors: those of make_tiered_pages
Result<std::unique_ptr<TieredPages>> tiers_of(const ReplayOptions& options, int32_t tokens,
                                              TierDemand demand);

/// Of one policy, not of all.
inline Eviction eviction_of(Policy policy) { return static_cast<Eviction>(policy); }

/// Whether this machine's memory can hold the pool and `more` bytes. Errors: invalid_argument with
/// both sizes; those of the pool's options
Status check_memory(const PoolOptions& pool, double more);

}  // namespace folio::cli
