// SPDX-License-Identifier: Apache-2.0
/// tier/medium.h: what lies below a tier's queue: where pages are kept, by calls that block.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "folio/tier/tier.h"

namespace folio::inline v1::tier {

/// One page to load or to store. It stays where it is.
struct Job {
  enum class Kind : uint8_t { load, store };
  Kind kind = Kind::load;
  PageName name;
  std::optional<PageName> parent = {};  ///< of the page that it continues, if it is known
  std::vector<Extent> extents;
  LoadOrder order = LoadOrder::pages;
  /// Leading extents that a load has filled: the medium says so with `release` once their bytes are
  /// in place, checked or not, and need not. It never goes down.
  std::atomic<uint32_t> landed = 0;
  TierOutcome outcome = TierOutcome::failed;
};

inline void tell(const TierObserver& observer, TierChange change, const PageName& name) noexcept {
  if (observer.function != nullptr) observer.function(observer.context, change, {&name, 1});
}

/// Called by several threads at once. Nothing throws: what cannot be done ends as failed.
class Medium {
 public:
  virtual ~Medium() = default;
  /// Without I/O.
  [[nodiscard]] virtual bool has(const PageName& name) noexcept = 0;
  /// How many of these, from the first on, it has; without I/O.
  [[nodiscard]] virtual int32_t find(std::span<const PageName> names) noexcept {
    size_t found = 0;
    while (found < names.size() && has(names[found])) ++found;
    return static_cast<int32_t>(found);
  }
  /// Does all of these, of one kind, and says how each ended.
  virtual void run(std::span<Job* const> jobs) noexcept = 0;
  virtual void drop(const PageName& name) noexcept = 0;
  /// Jobs that are best done together.
  [[nodiscard]] virtual uint32_t batch() const noexcept { return 1; }
  /// Whether it fills extents in LoadOrder::extents. `run` is then given all pages of such a load,
  /// `most_in_order` at once, and no others beside them, whatever `batch` says.
  [[nodiscard]] virtual bool loads_in_order() const noexcept { return false; }
  /// Whether it takes extents in the memory of TierOptions::device itself.
  [[nodiscard]] virtual bool reaches_device() const noexcept { return false; }
  static constexpr uint32_t most_in_order = 4096;
  /// `pages`, `bytes` and `dropped_pages`.
  virtual void count(TierFigures& figures) const noexcept = 0;
  [[nodiscard]] virtual Status last_fault() const noexcept = 0;
};

}  // namespace folio::inline v1::tier
