// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/slow_medium.h: a medium without faults that fills extent by extent, with a
/// while between them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "folio/tier/medium.h"

namespace folio::test {

class SlowMedium final : public tier::Medium {
 public:
  bool has(const PageName& name) noexcept override {
    const std::lock_guard lock(mutex_);
    return pages_.contains(name);
  }
  void run(std::span<tier::Job* const> jobs) noexcept override {
    if (jobs.front()->kind == tier::Job::Kind::store) {
      for (tier::Job* const job : jobs) store(*job);
      return;
    }
    std::vector<Bytes> all;
    size_t most = 0;
    for (tier::Job* const job : jobs) {
      all.push_back(bytes_of_page(*job));
      most = std::max(most, job->extents.size());
    }
    for (uint32_t e = 0; e < most; ++e) {
      for (size_t i = 0; i < jobs.size(); ++i) fill(*jobs[i], all[i], e);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  void drop(const PageName& name) noexcept override {
    const std::lock_guard lock(mutex_);
    pages_.erase(name);
  }
  bool loads_in_order() const noexcept override { return true; }
  void count(TierFigures&) const noexcept override {}
  Status last_fault() const noexcept override { return {}; }

 private:
  using Bytes = std::vector<std::byte>;

  void store(tier::Job& job) {
    Bytes bytes;
    for (const Extent& e : job.extents) bytes.insert(bytes.end(), e.data, e.data + e.bytes);
    const std::lock_guard lock(mutex_);
    pages_[job.name] = std::move(bytes);
    job.outcome = TierOutcome::done;
  }
  Bytes bytes_of_page(tier::Job& job) {
    const std::lock_guard lock(mutex_);
    const auto at = pages_.find(job.name);
    job.outcome = at == pages_.end() ? TierOutcome::missing : TierOutcome::done;
    return at == pages_.end() ? Bytes() : at->second;
  }
  /// All extents of a page are equally long.
  static void fill(tier::Job& job, const Bytes& bytes, uint32_t e) {
    if (bytes.empty() || e >= job.extents.size()) return;
    const Extent& extent = job.extents[e];
    std::memcpy(extent.data, bytes.data() + e * extent.bytes, static_cast<size_t>(extent.bytes));
    job.landed.store(e + 1, std::memory_order_release);
  }

  std::mutex mutex_;
  std::map<PageName, Bytes> pages_;
};

}  // namespace folio::test
