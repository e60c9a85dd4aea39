// SPDX-License-Identifier: Apache-2.0
/// tests/tier/held_medium.h: a medium that does what a test says, when the test says so.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "folio/tier/medium.h"

namespace folio::test {

class HeldMedium final : public tier::Medium {
 public:
  /// What tests hold while the tier owns the medium.
  struct Control {
    std::mutex mutex;
    std::condition_variable changed;
    int64_t allowed = 0;  ///< jobs that may still end
    int64_t begun = 0;
    TierOutcome outcome = TierOutcome::done;
    uint32_t batch = 1;
    bool in_order = false;
    std::vector<tier::Job*> running;  ///< of the run that began last

    void allow(int64_t jobs) {
      const std::lock_guard lock(mutex);
      allowed += jobs;
      changed.notify_all();
    }
    int64_t take_begun() {
      const std::lock_guard lock(mutex);
      return std::exchange(begun, 0);
    }
    void wait_for_begun(int64_t jobs) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return begun >= jobs; });
    }
  };

  explicit HeldMedium(Control& control) : control_(control) {}
  bool has(const PageName&) noexcept override { return true; }
  void run(std::span<tier::Job* const> jobs) noexcept override {
    std::unique_lock lock(control_.mutex);
    control_.begun += std::ssize(jobs);
    control_.running.assign(jobs.begin(), jobs.end());
    control_.changed.notify_all();
    control_.changed.wait(lock, [&] { return control_.allowed >= std::ssize(jobs); });
    control_.allowed -= std::ssize(jobs);
    for (tier::Job* const job : jobs) job->outcome = control_.outcome;
  }
  void drop(const PageName&) noexcept override {}
  uint32_t batch() const noexcept override { return control_.batch; }
  bool loads_in_order() const noexcept override { return control_.in_order; }
  void count(TierFigures&) const noexcept override {}
  Status last_fault() const noexcept override { return {}; }

 private:
  Control& control_;
};

}  // namespace folio::test
