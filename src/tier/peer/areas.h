// SPDX-License-Identifier: Apache-2.0
/// tier/peer/areas.h: memory that is registered with a transport, and where extents lie in it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "folio/cache/page_extents.h"
#include "folio/tier/transport.h"

namespace folio::inline v1::tier {

class Areas {
 public:
  /// Errors: those of `add_region`; throws bad_alloc, nothing registered then
  [[nodiscard]] Status add(Transport& transport, std::span<std::byte> memory) {
    areas_.reserve(areas_.size() + 1);
    const auto region = transport.add_region(memory);
    if (!region) return region.error();
    areas_.push_back({memory, *region});
    return {};
  }
  /// Waits until nobody touches the memory any more.
  void remove_all(Transport& transport) noexcept {
    for (const Area& area : areas_)
      while (transport.remove_region(area.region).code() == Errc::busy) {}
    areas_.clear();
  }
  /// Nothing for an extent that is not in one of them.
  [[nodiscard]] std::optional<RegionRun> run_of(const Extent& extent) const noexcept {
    const std::less_equal<const std::byte*> not_behind;
    for (const Area& area : areas_) {
      const std::byte* const first = area.memory.data();
      if (not_behind(first, extent.data) &&
          not_behind(extent.data + extent.bytes, first + area.memory.size()))
        return RegionRun{area.region, extent.data - first, extent.bytes};
    }
    return std::nullopt;
  }

 private:
  struct Area {
    std::span<std::byte> memory;
    RegionId region;
  };
  std::vector<Area> areas_;
};

}  // namespace folio::inline v1::tier
