// SPDX-License-Identifier: Apache-2.0
/// cli/replay/scheduler.h: continuous batching: which requests run, and how many tokens each gets
/// in a step.
///
/// Requests are admitted in the order of the trace; nothing overtakes. A step has a token budget:
/// first one token for each sequence that decodes, then chunks of prompts in order of arrival, then
/// new requests while budget is left, so that a request looks for its prefix as late as possible.
///
/// `Reserve::all`: a request reserves all its pages when it is admitted, so whoever runs can
/// finish; the one at the head of the queue keeps the pages it found and waits until the rest is
/// free. Nothing is preempted, nothing can lock: when the running ones are gone, every page that
/// the head does not hold is free or evictable.
///
/// `Reserve::step`: a step reserves what it computes and no more, so that windows give pages back
/// while a request runs. Where a running sequence finds no page, the youngest one gives up its
/// pages and runs again later, on what is still cached; then nobody is admitted until a sequence is
/// done. Where only one is left, it begins again without what it found; if that does not help, the
/// memory is too small for the request.
///
/// Over tiers (cli/tiers/tiers.h) a request is admitted where all its pages have room, so that what
/// is found below has it, too; by step, where its prompt's have room, or nobody else runs.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "folio/cache/batch.h"
#include "folio/pool/page_pool.h"
#include "load/trace.h"
#include "tiers/tiers.h"

namespace folio::cli {

/// A request that has been read.
struct Running {
  int64_t request = 0;  ///< index in the trace
  SequenceId id = {};
  std::vector<TokenId> tokens;  ///< prompt and fed-back outputs
  int32_t prompt = 0;
  int32_t first = 0;  ///< tokens that were found, in tiers, too
  TieredAdmit from;   ///< where, with tiers
  /// Of all its admissions, with tiers; what is computed is the rest of its prompt.
  TokensBySource sources;
  int32_t done = 0;  ///< tokens in the cache

  std::vector<uint32_t> begins;  ///< of each group: pages of its row in front of this are gone
  int32_t farthest = 0;          ///< tokens that were in the cache before it gave up its pages
  bool is_admitted = false;
  bool takes_hits = true;
  [[nodiscard]] int32_t left() const { return static_cast<int32_t>(tokens.size()) - done; }
  [[nodiscard]] bool decodes() const { return done >= prompt; }
};

struct StepEntry {
  Running* sequence = nullptr;
  int32_t new_tokens = 0;
};

/// A request that began to run in a step.
struct AdmittedSequence {
  int64_t request = 0;  ///< index in the trace
  SequenceId id = {};
  int32_t found = 0;     ///< tokens that were in the cache: in memory
  int32_t farthest = 0;  ///< tokens that it had before it gave up its pages; 0: it is new
};

/// One step: entry i is row i of the batch.
struct Step {
  int64_t number = 0;
  std::vector<StepEntry> entries;
  std::vector<AdmittedSequence> admissions;
  std::vector<int32_t> query_offsets;
  std::vector<int32_t> context_lengths;
  std::vector<SequenceId> ids;

  [[nodiscard]] int32_t tokens() const { return query_offsets.back(); }
  /// Borrows this step, the table of a group and its `rows`, one for each entry.
  [[nodiscard]] Batch batch(PageTable table, std::span<const int64_t> rows) const;
};

struct SchedulerLimits {
  int32_t max_batch = 1;
  int32_t step_tokens = 1;
};

enum class Reserve : uint8_t { all, step };

class Scheduler {
 public:
  /// `pool` has room for max_batch sequences, and for the largest request where all is reserved.
  /// `checkpoint`: tokens of a page of states, 0 without. Trace, pool and what is `below`, if
  /// anything, outlive the scheduler.
  Scheduler(std::span<const TraceRequest> trace, PagePool& pool, SchedulerLimits limits,
            TieredPages* below = nullptr, Reserve reserve = Reserve::all, int32_t checkpoint = 0);

  [[nodiscard]] bool has_work() const {
    return next_ < trace_.size() || !waiting_.empty() || !running_.empty();
  }
  [[nodiscard]] int64_t finished() const { return finished_; }
  [[nodiscard]] int64_t preemptions() const { return preemptions_; }
  /// Each token of a request is found or computed once; what is computed again is counted apart.
  [[nodiscard]] int64_t hit_tokens() const { return hit_tokens_; }
  /// Of these, in pages that were found for their first tokens only.
  [[nodiscard]] int64_t partial_tokens() const { return partial_tokens_; }
  [[nodiscard]] int64_t again_tokens() const { return again_tokens_; }
  /// Of one group: pages that sequences left behind while they ran.
  [[nodiscard]] int64_t given_back(uint32_t group) const { return given_back_[group]; }

  /// The next step, whose pages are reserved. It has at least one token, unless the only sequence
  /// gave up its pages. Errors: out_of_pages naming the request that the memory does not hold;
  /// those of the pool
  Status next(Step& step);
  /// Says that the tokens of the step are in the cache.
  Status commit(const Step& step);
  /// Releases the requests that have no token left. Their `Running` die.
  Status retire();

 private:
  using Owned = std::unique_ptr<Running>;

  [[nodiscard]] int32_t chunk(const Running& sequence) const;
  Status give(Running& sequence, int32_t tokens);
  void take_budget(Running& sequence, int32_t tokens);
  Status make_room(Running& wanting);
  Status give_up_pages(Running& sequence);
  Status preempt_youngest();
  [[nodiscard]] bool may_admit() const;
  /// Reads the next request where none waits. False: there is none, or no room.
  bool take_next();
  Status admit_while_possible();
  Status admit(Running& sequence);
  /// For a sequence that waits. False: not now
  Result<bool> reserve(Running& sequence);
  /// Whether there is room for all pages of the next request.
  [[nodiscard]] bool has_room() const;
  /// The same by step: for those of its prompt.
  [[nodiscard]] bool has_room_by_step() const;
  void count_hit(Running& sequence);
  void see_what_left(Running& sequence, bool counts);
  Status release(const Running& sequence);
  [[nodiscard]] Status does_not_hold(const Running& sequence) const;

  std::span<const TraceRequest> trace_;
  PagePool& pool_;
  SchedulerLimits limits_;
  TieredPages* below_;
  bool by_step_;
  int32_t checkpoint_;
  std::vector<Owned> running_;       // in order of arrival
  std::deque<Owned> waiting_;        // in order of arrival; the first may have been admitted
  std::vector<int64_t> given_back_;  // of each group
  Step* step_ = nullptr;             // that is chosen
  size_t next_ = 0;
  int32_t budget_ = 0;
  int64_t steps_ = 0, finished_ = 0, preemptions_ = 0;
  int64_t hit_tokens_ = 0, partial_tokens_ = 0, again_tokens_ = 0;
  bool admits_ = true;
};

}  // namespace folio::cli
