// SPDX-License-Identifier: Apache-2.0
/// tier/device/staged_medium.h: a medium that touches bytes, for pages in a device's memory.
#pragma once

#include <memory>
#include <mutex>

#include "folio/tier/medium.h"
#include "tier/device/host_blocks.h"

namespace folio::inline v1::tier {

/// Each page is copied into a block on the host before it is stored, and out of it once it is
/// loaded: what the medium checks is what the device gets. So loads land page by page.
class StagedMedium final : public Medium {
 public:
  /// Neither is null.
  StagedMedium(std::unique_ptr<Medium> medium, std::shared_ptr<DeviceCopies> device) noexcept
      : blocks_(std::move(device)), medium_(std::move(medium)) {}

  bool has(const PageName& name) noexcept override { return medium_->has(name); }
  int32_t find(std::span<const PageName> names) noexcept override { return medium_->find(names); }
  void run(std::span<Job* const> jobs) noexcept override;
  void drop(const PageName& name) noexcept override { medium_->drop(name); }
  bool visit_names(const NameVisitor& visitor) override { return medium_->visit_names(visitor); }
  uint32_t batch() const noexcept override { return medium_->batch(); }
  void count(TierFigures& figures) const noexcept override { medium_->count(figures); }
  Status last_fault() const noexcept override;

 private:
  struct Staged;
  /// Whether it can be given to the medium.
  [[nodiscard]] bool stage(Staged& page) noexcept;
  void end(Staged& page) noexcept;
  void fail_page(Job& job, const Status& fault) noexcept;

  HostBlocks blocks_;
  const std::unique_ptr<Medium> medium_;
  mutable std::mutex mutex_;
  Status fault_;  ///< the last one of the device
};

}  // namespace folio::inline v1::tier
