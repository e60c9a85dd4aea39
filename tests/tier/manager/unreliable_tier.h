// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/unreliable_tier.h: a medium that loses, damages, delays, refuses and lies at
/// random. What it says is done is right, as a tier's checksums make sure.
#pragma once

#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "folio/tier/medium.h"
#include "support/random.h"
#include "tier/payload.h"

namespace folio::test {

class UnreliableMedium final : public tier::Medium {
 public:
  explicit UnreliableMedium(uint64_t seed) : rng_(seed) {}

  bool has(const PageName& name) noexcept override {
    const std::lock_guard lock(mutex_);
    return (pages_.contains(name) || rng_.chance(0.05)) && !rng_.chance(0.02);
  }
  void run(std::span<tier::Job* const> jobs) noexcept override {
    for (tier::Job* const job : jobs) run_one(*job);
  }
  void drop(const PageName& name) noexcept override {
    const std::lock_guard lock(mutex_);
    pages_.erase(name);
  }
  bool loads_in_order() const noexcept override { return true; }
  uint32_t batch() const noexcept override { return 3; }
  void count(TierFigures&) const noexcept override {}
  Status last_fault() const noexcept override { return {}; }

 private:
  using Bytes = std::vector<std::byte>;
  enum class Fate : uint8_t { good, failed, torn, damaged, forgotten, full, slow };

  struct Lot {
    Fate fate;
    int64_t delay_us;
  };
  Lot draw() {
    const std::lock_guard lock(mutex_);
    if (bad_calls_ == 0 && rng_.chance(0.02)) bad_calls_ = rng_.between(3, 12);  // for a while
    if (bad_calls_ > 0) {
      --bad_calls_;
      return {Fate::failed, 0};
    }
    const auto fate = rng_.chance(0.75) ? Fate::good : static_cast<Fate>(rng_.between(1, 6));
    return {fate, fate == Fate::slow ? rng_.between(500, 3000) : rng_.between(0, 40)};
  }

  void run_one(tier::Job& job) noexcept {
    const Lot lot = draw();
    std::this_thread::sleep_for(std::chrono::microseconds(lot.delay_us));
    job.outcome = job.kind == tier::Job::Kind::store ? store(job, lot.fate) : load(job, lot.fate);
  }

  TierOutcome store(const tier::Job& job, Fate fate) {
    if (fate == Fate::failed || fate == Fate::torn) return TierOutcome::failed;
    if (fate == Fate::full) return TierOutcome::full;
    Bytes bytes;
    for (const Extent& e : job.extents) bytes.insert(bytes.end(), e.data, e.data + e.bytes);
    if (fate == Fate::forgotten) return TierOutcome::done;
    const std::lock_guard lock(mutex_);
    pages_[job.name] = std::move(bytes);
    return TierOutcome::done;
  }

  TierOutcome load(tier::Job& job, Fate fate) {
    Bytes bytes;
    {
      const std::lock_guard lock(mutex_);
      const auto at = pages_.find(job.name);
      if (at == pages_.end()) return TierOutcome::missing;
      bytes = at->second;
      if (fate == Fate::forgotten || fate == Fate::damaged) pages_.erase(at);
    }
    if (fate == Fate::failed || fate == Fate::full) return TierOutcome::failed;
    if (fate == Fate::forgotten) return TierOutcome::missing;
    const std::byte* from = bytes.data();
    for (size_t i = 0; i < job.extents.size(); ++i) {
      const Extent& e = job.extents[i];
      std::memcpy(e.data, from, static_cast<size_t>(e.bytes));
      if (fate == Fate::damaged) e.data[e.bytes / 2] ^= std::byte{0x10};
      from += e.bytes;
      job.landed.store(static_cast<uint32_t>(i) + 1, std::memory_order_release);
      if (fate == Fate::torn && i == job.extents.size() / 2) return TierOutcome::failed;
    }
    return fate == Fate::damaged ? TierOutcome::corrupt : TierOutcome::done;
  }

  std::mutex mutex_;
  Rng rng_;
  std::map<PageName, Bytes> pages_;
  int64_t bad_calls_ = 0;
};

}  // namespace folio::test
