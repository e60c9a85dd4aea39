// SPDX-License-Identifier: Apache-2.0
/// tests/tier/tier_helpers.h: pages with a pattern, and calls that wait for their end.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "folio/tier/tier.h"
#include "support/random.h"

namespace folio::test {

inline PageName name_of(uint32_t number) {
  PageName name;
  for (size_t i = 0; i < 4; ++i) name.bytes[i] = static_cast<uint8_t>(number >> (8 * i));
  return name;
}

/// Runs that lie apart in memory of their own.
class PageMemory {
 public:
  explicit PageMemory(std::vector<int64_t> runs) {
    int64_t bytes = 0;
    for (const int64_t run : runs) bytes += run + gap;
    memory_.assign(static_cast<size_t>(bytes), std::byte{0xee});
    std::byte* at = memory_.data();
    for (const int64_t run : runs) {
      extents_.push_back({at, run});
      at += run + gap;
    }
  }
  [[nodiscard]] std::span<const Extent> extents() const { return extents_; }
  [[nodiscard]] const std::vector<std::byte>& memory() const { return memory_; }
  void fill(uint64_t seed) {
    Rng rng(seed);
    for (const Extent& e : extents_)
      for (int64_t i = 0; i < e.bytes; ++i) e.data[i] = static_cast<std::byte>(rng.between(0, 255));
  }

 private:
  static constexpr int64_t gap = 3;
  std::vector<std::byte> memory_;
  std::vector<Extent> extents_;
};

/// Notes what a tier tells.
class ChangeLog {
 public:
  using Changes = std::vector<std::pair<TierChange, PageName>>;
  [[nodiscard]] TierObserver observer() {
    return {.function =
                [](void* self, TierChange change, std::span<const PageName> names) noexcept {
                  auto& log = *static_cast<ChangeLog*>(self);
                  const std::lock_guard lock(log.mutex_);
                  for (const PageName& name : names) log.changes_.emplace_back(change, name);
                },
            .context = this};
  }
  [[nodiscard]] Changes all() {
    const std::lock_guard lock(mutex_);
    return changes_;
  }

 private:
  std::mutex mutex_;
  Changes changes_;
};

/// Polls until so many pages have ended.
inline std::vector<TierCompletion> wait_for(Tier& tier, size_t count) {
  std::vector<TierCompletion> all;
  while (all.size() < count) {
    TierCompletion some[16];
    const size_t got = tier.poll(some);
    all.insert(all.end(), some, some + got);
    if (got == 0) std::this_thread::yield();
  }
  return all;
}

inline TierOutcome store(Tier& tier, const PageName& name, const PageMemory& page) {
  const TierPage pages[] = {{name, page.extents()}};
  tier.store(pages).value();
  return wait_for(tier, 1).front().outcome;
}

/// The page continues that of `parent`.
inline TierOutcome store(Tier& tier, const PageName& name, const PageMemory& page,
                         const PageName& parent) {
  const TierPage pages[] = {{name, page.extents(), &parent}};
  tier.store(pages).value();
  return wait_for(tier, 1).front().outcome;
}

inline TierOutcome load(Tier& tier, const PageName& name, const PageMemory& page,
                        LoadOrder order = LoadOrder::pages) {
  const TierPage pages[] = {{name, page.extents()}};
  tier.load(pages, 0, order).value();
  return wait_for(tier, 1).front().outcome;
}

}  // namespace folio::test
