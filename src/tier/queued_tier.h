// SPDX-License-Identifier: Apache-2.0
/// tier/queued_tier.h: a tier over a medium whose calls block: a bounded queue and threads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "folio/tier/medium.h"
#include "folio/tier/tier.h"

namespace folio::inline v1::tier {

/// Pages are numbered in the order in which they come; a call's ticket is the number of its first
/// one. A page is *waiting*, then *running*, then *ended* until it is polled; room in the queue
/// comes back when it is, so that what is not polled is bounded as well.
class QueuedTier final : public Tier {
 public:
  /// Errors: invalid_argument for options out of range, out_of_memory. `medium` is not null.
  [[nodiscard]] static Result<std::unique_ptr<Tier>> create(std::unique_ptr<Medium> medium,
                                                            const TierOptions& options) noexcept;
  ~QueuedTier() override;

  int32_t find(std::span<const PageName> names) noexcept override;
  void find_each(std::span<const PageName> names, std::span<uint8_t> there) noexcept override;
  Result<TierTicket> load(std::span<const TierPage> pages, int64_t deadline_ms,
                          LoadOrder order) noexcept override;
  uint32_t landed(TierTicket ticket) const noexcept override;
  Result<TierTicket> store(std::span<const TierPage> pages) noexcept override;
  Status drop(std::span<const PageName> names) noexcept override;
  Status visit_names(NameVisitor visitor) noexcept override;
  void cancel(TierTicket ticket) noexcept override;
  size_t poll(std::span<TierCompletion> completions) noexcept override;
  TierFigures figures() const noexcept override;
  Status last_fault() const noexcept override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Ended {
    TierCompletion completion;
    int64_t bytes = 0;
  };
  /// What the pages of a call have in common. The queue asks no job what it is: a medium may have
  /// changed it.
  struct Call {
    Job::Kind kind = Job::Kind::load;
    LoadOrder order = LoadOrder::pages;
    uint32_t extents = 0;  ///< of the page that has most
    uint32_t landed = 0;   ///< as told
    bool is_void = false;  ///< a page has ended other than done, or will
  };
  struct Page {
    Job job;
    std::shared_ptr<Call> call;
    uint32_t extents = 0;
    std::list<Ended> end;  ///< one, made beforehand: ending takes no memory
    Clock::time_point deadline = Clock::time_point::max();
    bool cancelled = false;
  };
  using Pages = std::map<uint64_t, Page>;

  QueuedTier(std::unique_ptr<Medium> medium, const TierOptions& options)
      : medium_(std::move(medium)), options_(options) {}

  [[nodiscard]] Result<TierTicket> enqueue(const char* call, Job::Kind kind,
                                           std::span<const TierPage> pages, int64_t deadline_ms,
                                           LoadOrder order) noexcept;
  void work() noexcept;
  /// Pages that a thread has at once.
  [[nodiscard]] uint32_t most_taken() const noexcept;
  /// The first pages that wait, of one kind, or of one load in order, begin to run.
  void take(std::vector<Pages::iterator>& taken) noexcept;
  // The queue is locked.
  [[nodiscard]] Pages::iterator first_waiting() noexcept { return pages_.lower_bound(begun_); }
  /// Returns the page behind it.
  Pages::iterator end(Pages::iterator page, TierOutcome outcome) noexcept;
  /// Those that wait and whose deadline has passed.
  void end_late() noexcept;
  void announce() const noexcept;

  const std::unique_ptr<Medium> medium_;
  const TierOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  Pages pages_;         ///< that have not ended
  uint64_t begun_ = 1;  ///< pages with lower numbers run, the others wait
  std::set<std::pair<Clock::time_point, uint64_t>> deadlines_;  ///< of pages that wait
  std::list<Ended> ended_;
  uint64_t next_ = 1;
  TierFigures figures_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace folio::inline v1::tier
