// SPDX-License-Identifier: Apache-2.0
/// tier/guarded_medium.h: a medium of which nothing is trusted: what it says is brought into range,
/// what it throws is a fault.
#pragma once

#include <algorithm>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

#include "folio/tier/medium.h"

namespace folio::inline v1::tier {

class GuardedMedium final : public Medium {
 public:
  /// `medium` is not null.
  explicit GuardedMedium(std::unique_ptr<Medium> medium) noexcept
      : medium_(std::move(medium)),
        batch_(std::clamp(guard("batch", 1U, [&] { return medium_->batch(); }), 1U, most_in_batch)),
        loads_in_order_(guard("loads_in_order", false, [&] { return medium_->loads_in_order(); })),
        reaches_device_(guard("reaches_device", false, [&] { return medium_->reaches_device(); })) {
  }

  bool has(const PageName& name) noexcept override {
    return guard("has", false, [&] { return medium_->has(name); });
  }
  int32_t find(std::span<const PageName> names) noexcept override {
    constexpr size_t countless = std::numeric_limits<int32_t>::max();
    const auto most = static_cast<int32_t>(std::min(names.size(), countless));
    return std::clamp(guard("find", 0, [&] { return medium_->find(names); }), 0, most);
  }
  void run(std::span<Job* const> jobs) noexcept override {
    const Job::Kind kind = jobs.front()->kind;
    const bool has_returned = guard("run", false, [&] { return medium_->run(jobs), true; });
    for (Job* const job : jobs)
      if (!has_returned || !can_end(kind, job->outcome)) job->outcome = TierOutcome::failed;
  }
  void drop(const PageName& name) noexcept override {
    guard("drop", false, [&] { return medium_->drop(name), true; });
  }
  bool visit_names(const NameVisitor& visitor) noexcept override {
    return guard("visit_names", false, [&] { return medium_->visit_names(visitor); });
  }
  uint32_t batch() const noexcept override { return batch_; }
  bool loads_in_order() const noexcept override { return loads_in_order_; }
  bool reaches_device() const noexcept override { return reaches_device_; }
  void count(TierFigures& figures) const noexcept override {
    TierFigures said;
    guard("count", false, [&] { return medium_->count(said), true; });
    figures.pages = std::max<int64_t>(said.pages, 0);
    figures.bytes = std::max<int64_t>(said.bytes, 0);
    figures.dropped_pages = std::max<int64_t>(said.dropped_pages, 0);
  }
  /// What it threw last, if it ever did.
  Status last_fault() const noexcept override {
    Status said = guard("last_fault", Status(), [&] { return medium_->last_fault(); });
    const std::lock_guard lock(mutex_);
    return thrown_.is_ok() ? said : thrown_;
  }

 private:
  [[nodiscard]] static bool can_end(Job::Kind kind, TierOutcome outcome) noexcept {
    switch (outcome) {
      case TierOutcome::done:
      case TierOutcome::failed: return true;
      case TierOutcome::missing:
      case TierOutcome::corrupt: return kind == Job::Kind::load;
      case TierOutcome::full: return kind == Job::Kind::store;
      case TierOutcome::late:
      case TierOutcome::cancelled: return false;  // the queue's to say
    }
    return false;
  }

  /// What the call returns, or `otherwise` if it throws.
  template <class T, class Call>
  T guard(const char* name, T otherwise, const Call& call) const noexcept {
    try {
      return call();
    } catch (const std::exception& e) {
      note(fail(Errc::io, "Medium::{} threw: {}", name, e.what()));
    } catch (...) {
      note(fail(Errc::io, "Medium::{} threw what is no std::exception", name));
    }
    return otherwise;
  }
  void note(Status fault) const noexcept {
    const std::lock_guard lock(mutex_);
    thrown_ = std::move(fault);
  }

  mutable std::mutex mutex_;
  mutable Status thrown_;
  const std::unique_ptr<Medium> medium_;
  const uint32_t batch_;
  const bool loads_in_order_, reaches_device_;
};

}  // namespace folio::inline v1::tier
