// SPDX-License-Identifier: Apache-2.0
/// cli/hybrid_scheduler.h: continuous batching over a pool with groups, where a step reserves what
/// it computes and no more, so that windows give pages back while a request runs.
///
/// As in scheduler.h a step has a token budget: one token for each sequence that decodes, then
/// chunks of prompts, then new requests in the order of the trace. Where a running sequence finds
/// no page, the youngest one gives up its pages and runs again later, on what is still cached; then
/// nobody is admitted until a sequence is done. Where only one is left, it begins again without
/// what it found; if that does not help, the memory is too small for the request.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "folio/pool/page_pool.h"
#include "scheduler.h"
#include "trace.h"

namespace folio::cli {

struct HybridRunning : Running {
  std::vector<uint32_t> begins;  ///< of each group: pages of its row in front of this are gone
  int32_t farthest = 0;          ///< tokens that were in the cache before it gave up its pages
  bool is_admitted = false;
  bool takes_hits = true;
};

/// A request that began to run in this step.
struct HybridAdmission {
  int64_t request = 0;  ///< index in the trace
  SequenceId id = {};
  int32_t found = 0;     ///< tokens that were in the cache
  int32_t farthest = 0;  ///< tokens that it had before it gave up its pages; 0: it is new
};

class HybridScheduler {
 public:
  struct Entry {
    HybridRunning* sequence;
    int32_t tokens;
  };

  /// `checkpoint`: tokens of a page of states, 0 without. The others as in Scheduler.
  HybridScheduler(std::span<const TraceRequest> trace, PagePool& pool, SchedulerLimits limits,
                  int32_t checkpoint);

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

  /// Chooses the next step, which has at least one token, and reserves its pages. Errors:
  /// out_of_pages naming the request that the memory does not hold; those of the pool
  Status next();
  [[nodiscard]] std::span<const SequenceId> ids() const { return ids_; }
  [[nodiscard]] std::span<const Entry> entries() const { return entries_; }
  [[nodiscard]] std::span<const HybridAdmission> admissions() const { return admissions_; }
  [[nodiscard]] int64_t tokens() const;
  /// Says that the tokens of the step are in the cache, and releases what is done.
  Status commit();

 private:
  using Owned = std::unique_ptr<HybridRunning>;

  [[nodiscard]] int32_t chunk(const HybridRunning& sequence) const;
  Status give(HybridRunning& sequence, int32_t tokens);
  Status make_room(HybridRunning& wanting);
  Status give_up_pages(HybridRunning& sequence);
  Status preempt_youngest();
  Status admit_while_possible();
  Status admit(HybridRunning& sequence);
  void count_hit(HybridRunning& sequence);
  void see_what_left(HybridRunning& sequence, bool counts);
  [[nodiscard]] Status does_not_hold(const HybridRunning& sequence) const;

  std::span<const TraceRequest> trace_;
  PagePool& pool_;
  SchedulerLimits limits_;
  int32_t checkpoint_;
  std::vector<Owned> running_;  // in order of arrival
  std::deque<Owned> waiting_;   // in order of arrival; the first may have been admitted
  std::vector<Entry> entries_;
  std::vector<HybridAdmission> admissions_;
  std::vector<SequenceId> ids_;
  std::vector<int64_t> given_back_;  // of each group
  size_t next_ = 0;
  int32_t budget_ = 0;
  int64_t finished_ = 0, preemptions_ = 0;
  int64_t hit_tokens_ = 0, partial_tokens_ = 0, again_tokens_ = 0;
  bool admits_ = true;
};

}  // namespace folio::cli
