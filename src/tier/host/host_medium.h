// SPDX-License-Identifier: Apache-2.0
/// tier/host/host_medium.h: pages in the host's memory: each in memory of its own, or all in an
/// arena, where they can be held.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "folio/tier/medium.h"
#include "tier/device/host_blocks.h"
#include "tier/host/page_arena.h"
#include "tier/host/stored_pages.h"

namespace folio::inline v1::tier {

class HostMedium final : public Medium {
 public:
  /// `arena`, of which `max_bytes` is enough for all pages; null: pages have memory of their own.
  explicit HostMedium(const TierOptions& options, std::unique_ptr<PageArena> arena = nullptr);
  ~HostMedium() override;

  bool has(const PageName& name) noexcept override;
  bool loads_in_order() const noexcept override { return true; }
  bool reaches_device() const noexcept override { return true; }
  void run(std::span<Job* const> jobs) noexcept override;
  void drop(const PageName& name) noexcept override;
  bool visit_names(const NameVisitor& visitor) override;
  void count(TierFigures& figures) const noexcept override;
  Status last_fault() const noexcept override;

  // ---- Of a medium that has an arena: holds.cpp

  [[nodiscard]] const PageArena& arena() const noexcept { return *arena_; }
  /// As HostTier::hold, of as many names as pages.
  [[nodiscard]] Status hold(std::span<const PageName> names, std::span<int32_t> pages) noexcept;
  void give_back(std::span<const int32_t> pages) noexcept;

 private:
  using Page = StoredPages::Page;
  struct Copying {
    Job* job;
    Page page;
    std::byte* from;  ///< of the next extent
  };
  struct Held {
    Page page;
    int64_t holds = 0;
  };

  Page use(const PageName& name) noexcept;
  std::pair<TierOutcome, Page> begin_load(const Job& job);
  TierOutcome load(const Job& job) noexcept;
  void fill(std::span<Copying> pages, uint32_t e, std::vector<DeviceCopy>& copies);
  void load_in_order(std::span<Job* const> jobs) noexcept;
  [[nodiscard]] HostBlock take(int64_t bytes, const std::optional<PageName>& parent) noexcept;
  TierOutcome store(const Job& job) noexcept;
  TierOutcome failed(const Status& fault) noexcept;
  [[nodiscard]] bool is_sound(const Stored& page) const noexcept;
  // Locked.
  [[nodiscard]] int32_t hold_one(const PageName& name);
  void give_back_one(int32_t page) noexcept;

  const TierOptions options_;
  const int64_t most_page_bytes_;
  HostBlocks blocks_;
  const std::unique_ptr<PageArena> arena_;
  mutable std::mutex mutex_;
  Status fault_;
  StoredPages pages_;
  std::unordered_map<int32_t, Held> held_;  ///< by their places in the arena
};

/// Pages in memory of their own, `max_bytes` of it; null: there is no memory for it.
[[nodiscard]] std::unique_ptr<Medium> make_host_medium(const TierOptions& options) noexcept;

/// Pages of `page_bytes` and less in an arena. Errors, of make_host_tier: invalid_argument for
/// options or a size out of range, and for a device; out_of_memory
[[nodiscard]] Result<std::unique_ptr<HostMedium>> make_arena_medium(const TierOptions& options,
                                                                    int64_t page_bytes) noexcept;

}  // namespace folio::inline v1::tier
