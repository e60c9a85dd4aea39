// SPDX-License-Identifier: Apache-2.0
/// tests/tier/unreliable_tier.h: a medium that loses, damages, delays and refuses at random.
#pragma once

#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "support/random.h"
#include "tier/medium.h"
#include "tier/payload.h"

namespace folio::test {

class UnreliableMedium final : public tier::Medium {
 public:
  explicit UnreliableMedium(uint64_t seed) : rng_(seed) {}

  bool has(const PageName& name) noexcept override {
    const std::lock_guard lock(mutex_);
    return pages_.contains(name) || rng_.chance(0.05);  // it may say what is not
  }
  void run(std::span<tier::Job* const> jobs) noexcept override {
    for (tier::Job* const job : jobs) run_one(*job);
  }
  void drop(const PageName& name) noexcept override {
    const std::lock_guard lock(mutex_);
    pages_.erase(name);
  }
  void count(TierFigures&) const noexcept override {}
  Status last_fault() const noexcept override { return {}; }

 private:
  using Bytes = std::vector<std::byte>;

  void run_one(tier::Job& job) noexcept {
    std::unique_lock lock(mutex_);
    const int64_t fate = rng_.between(0, 9), delay_us = rng_.between(0, 300);
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    lock.lock();
    job.outcome = TierOutcome::failed;
    if (fate == 0) return;
    if (job.kind == tier::Job::Kind::store) {
      Bytes bytes;
      for (const Extent& e : job.extents) bytes.insert(bytes.end(), e.data, e.data + e.bytes);
      pages_[job.name] = std::move(bytes);
      job.outcome = TierOutcome::done;
      return;
    }
    job.outcome = TierOutcome::missing;
    const auto at = pages_.find(job.name);
    if (at == pages_.end()) return;
    const std::byte* from = at->second.data();
    for (const Extent& e : job.extents) {
      std::memcpy(e.data, from, static_cast<size_t>(e.bytes));
      from += e.bytes;
    }
    job.outcome = fate == 1 ? TierOutcome::corrupt : TierOutcome::done;
    if (fate == 1)
      std::memset(job.extents[0].data, 0xee, static_cast<size_t>(job.extents[0].bytes));
  }

  std::mutex mutex_;
  Rng rng_;
  std::map<PageName, Bytes> pages_;
};

}  // namespace folio::test
