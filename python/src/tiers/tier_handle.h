// SPDX-License-Identifier: Apache-2.0
/// python/src/tiers/tier_handle.h: a tier, and the transfers that are under way there.
///
/// Locks: calls of the tier are made without the GIL, under the handle's mutex (without_gil.h).
/// Arrays are given back by who holds the GIL, behind the mutex.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "../without_gil.h"
#include "folio/tier/tier.h"
#include "of_process.h"
#include "page_arrays.h"

namespace folio::python {

/// Counts completions of all tiers, for who waits for some of them without the GIL. A process that
/// was forked counts anew: threads may have held the lock, or waited.
class Completions {
 public:
  static Completions& of_process();
  void note() noexcept;
  [[nodiscard]] uint64_t count();
  /// Until there are more than `seen`, or so long.
  void wait(uint64_t seen, std::chrono::milliseconds most);

 private:
  struct Signal;
  Completions();
  std::unique_ptr<Signal> signal_;
};

/// Milliseconds that a wait has: negative ones are endless. Ends early for Python's signals, whose
/// exceptions it throws.
class Patience {
 public:
  explicit Patience(int64_t timeout_ms);
  /// Waits for another completion than the first `seen`; false: the time is over.
  [[nodiscard]] bool wait(uint64_t seen) const;
  /// What is left, or so much of it that signals do not wait for long; 0: the time is over.
  [[nodiscard]] int64_t slice_ms() const;

 private:
  bool is_endless_;
  std::chrono::steady_clock::time_point end_;
};

/// Waits for a completion behind the first `seen`, so long at most. Returns whether there is one.
bool wait_for_completion(uint64_t seen, int64_t timeout_ms);

/// Pages of one call.
struct TransferState {
  tier::TierTicket ticket = {};
  std::vector<PageName> names = {};
  std::vector<int8_t> outcomes = {};  ///< TierOutcome, or -1
  size_t left = 0;                    ///< that have not ended
  bool is_load = false;
  std::vector<uint32_t> array_ends = {};
  nb::object keep = {};  ///< their memory, until all have ended
};
using TransferPtr = std::shared_ptr<TransferState>;

class TierHandle {
 public:
  /// What a tier's own threads touch: made before it, and goes after it.
  struct Signals {
    Signals() = default;
    Signals(const Signals&) = delete;
    Signals& operator=(const Signals&) = delete;
    ~Signals();
    int fd = -1;  ///< an eventfd
    bool is_noted = false;
  };
  using Make = Result<std::unique_ptr<tier::Tier>> (*)(const void* options,
                                                       const tier::TierOptions& common);

  /// `keep`, `observer_use`: what has to outlive the tier.
  TierHandle(std::unique_ptr<Signals> signals, std::unique_ptr<tier::Tier> made, nb::object keep,
             std::shared_ptr<const void> observer_use);
  TierHandle(const TierHandle&) = delete;
  TierHandle& operator=(const TierHandle&) = delete;
  ~TierHandle();

  static std::unique_ptr<Signals> make_signals();
  /// As TierOptions::on_completion, whose context is a Signals.
  static void note_completion(void* signals) noexcept;

  /// Calls `function(tier)` without the GIL, under the mutex. Throws Error for a closed tier.
  template <class Function>
  auto with_tier(Function&& function) {
    const WithoutGil free;
    const auto locked = lock();
    return function(open_tier());
  }

  struct Load {
    int64_t deadline_ms;
    tier::LoadOrder order;
  };
  /// A store, unless `load` is given.
  TransferPtr start(std::vector<PageName> names, PagesOfCall pages,
                    const std::vector<const PageName*>& parents, const Load* load);
  /// Takes what has ended from the tier.
  void collect();
  /// Those that have ended since the last call; fills up from the first call on, or `fileno`'s.
  std::vector<TransferPtr> take_ended();
  bool wait_for_any(int64_t timeout_ms);
  bool wait_for(const TransferPtr& transfer, int64_t timeout_ms);
  [[nodiscard]] bool has_ended(const TransferPtr& transfer);
  [[nodiscard]] std::vector<int8_t> outcomes(const TransferPtr& transfer);
  [[nodiscard]] int64_t landed(const TransferPtr& transfer);
  void cancel(const TransferPtr& transfer);
  int fileno();
  /// Waits for what is under way, so long at most, then cancels it.
  void close(int64_t timeout_ms);

  /// A CacheManager polls the tier from now on, and nobody else may. Throws Error where one does.
  /// `memory`: what its transfers touch.
  tier::Tier* lend_to_manager(nb::object memory);
  /// The manager is gone. Its memory stays while the tier has transfers that may touch it.
  void take_back() noexcept;
  /// An eventfd that is readable once pages have ended since `clear_signal`.
  [[nodiscard]] int signal() const { return signals_->fd; }
  void clear_signal() const noexcept;

 private:
  /// Throws Error in a process that was forked.
  [[nodiscard]] std::unique_lock<std::mutex> lock();
  [[nodiscard]] std::unique_lock<std::mutex> lock_with_gil();
  tier::Tier& open_tier() const;
  void expect_not_lent() const;

  OfProcess process_;
  std::mutex mutex_;
  nb::object keep_;
  std::shared_ptr<const void> observer_use_;
  std::vector<nb::object> lent_memory_;
  std::unique_ptr<Signals> signals_;
  std::unique_ptr<tier::Tier> tier_;
  bool is_lent_ = false;
  bool notes_ended_ = false;
  std::unordered_map<uint64_t, TransferPtr> under_way_;
  std::vector<TransferPtr> ended_;
};

/// "done", ...; "" for a page that has not ended.
const char* outcome_name(int8_t outcome);

}  // namespace folio::python
