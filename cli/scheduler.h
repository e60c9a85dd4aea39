// SPDX-License-Identifier: Apache-2.0
/// cli/scheduler.h: continuous batching: which requests run, and how many tokens each gets in a
/// step.
///
/// Requests are admitted in the order of the trace. A request reserves all its pages when it is
/// admitted, so whoever runs can finish; the one at the head of the queue keeps the pages it found
/// and waits until the rest is free. Nothing is preempted, nothing overtakes, nothing can lock:
/// when the running ones are gone, every page that the head does not hold is free or evictable. A
/// step has a token budget: first one token for each sequence that decodes, then chunks of prompts
/// in order of arrival, then new requests while budget is left, so that a request looks for its
/// prefix as late as possible.
///
/// Over tiers (cli/tiers.h) a request is admitted where all its pages have room, so that what is
/// found below has it, too.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "folio/cache/batch.h"
#include "folio/pool/page_pool.h"
#include "tiers.h"
#include "trace.h"

namespace folio::cli {

/// A request that has been admitted.
struct Running {
  int64_t request = 0;  ///< index in the trace
  SequenceId id = {};
  std::vector<TokenId> tokens;  ///< prompt and fed-back outputs
  int32_t prompt = 0;
  int32_t first = 0;  ///< tokens that were found, in tiers, too
  TieredAdmit from;   ///< where, with tiers
  int32_t done = 0;   ///< tokens in the cache
  [[nodiscard]] int32_t left() const { return static_cast<int32_t>(tokens.size()) - done; }
  [[nodiscard]] bool decodes() const { return done >= prompt; }
};

struct StepEntry {
  Running* sequence = nullptr;
  int32_t new_tokens = 0;
};

/// One step: entry i is row i of the batch.
struct Step {
  int64_t number = 0;
  std::vector<StepEntry> entries;
  std::vector<int32_t> query_offsets;
  std::vector<int32_t> context_lengths;
  std::vector<int64_t> row_starts;
  std::vector<SequenceId> ids;

  [[nodiscard]] int32_t tokens() const { return query_offsets.back(); }
  /// Borrows this step and the pool's table.
  [[nodiscard]] Batch batch(PageTable table) const;
};

struct SchedulerLimits {
  int32_t max_batch = 1;
  int32_t step_tokens = 1;
};

class Scheduler {
 public:
  /// `pool` has room for max_batch sequences and for the largest request. Both outlive the
  /// scheduler, as does what is `below`, if anything.
  Scheduler(std::span<const TraceRequest> trace, PagePool& pool, SchedulerLimits limits,
            TieredPages* below = nullptr)
      : trace_(trace), pool_(pool), limits_(limits), below_(below) {}

  [[nodiscard]] bool has_work() const {
    return next_ < trace_.size() || waiting_ != nullptr || !running_.empty();
  }
  [[nodiscard]] int64_t finished() const { return finished_; }

  /// The next step; it has at least one token. Errors: those of the pool
  Status next(Step& step);
  /// Says that the tokens of the step are in the cache.
  Status commit(const Step& step);
  /// Releases the requests that have no token left. Their `Running` die.
  Status retire();

 private:
  void give(Step& step, Running& sequence, int32_t tokens);
  Result<std::unique_ptr<Running>> admit(int64_t request);
  Status open(Running& sequence);
  Result<bool> reserve(Running& sequence);  ///< false: not now
  /// Whether there is room for all pages of the next request.
  [[nodiscard]] bool has_room() const;
  Status admit_while_possible(Step& step);

  std::span<const TraceRequest> trace_;
  PagePool& pool_;
  SchedulerLimits limits_;
  TieredPages* below_;
  std::vector<std::unique_ptr<Running>> running_;  // in order of arrival
  std::unique_ptr<Running> waiting_;               // admitted, without its pages
  size_t next_ = 0;
  int32_t budget_ = 0;
  int64_t steps_ = 0;
  int64_t finished_ = 0;
};

}  // namespace folio::cli
