// SPDX-License-Identifier: Apache-2.0
/// tier/manager/group_pages.h: the pages of each group of a pool: their bytes, and their layers.
#pragma once

#include <cstdint>
#include <vector>

#include "folio/tier/cache_manager.h"
#include "tier/manager/page_runs.h"

namespace folio::inline v1::tier {

struct GroupPages {
  PageRuns runs;
  std::vector<int32_t> layers;  ///< numbers in the model, ascending
  GroupOptions options = {};
  int32_t page_size = 0;          ///< tokens
  int32_t leading_page_size = 0;  ///< tokens
  uint32_t num_pages = 0;
  int32_t hit_interval = 0;  ///< GroupOfCache's

  /// Whether the page that ends with leading page `position`, where it is there, goes down whatever
  /// hits are likely: a state at a checkpoint, sinks, or what a hit of a multiple of `hit_interval`
  /// needs.
  [[nodiscard]] bool goes_down(int32_t position) const noexcept;
};

/// Of the options' pool, the leading group first. Errors, of `call`: invalid_argument naming the
/// option; throws std::bad_alloc
[[nodiscard]] Result<std::vector<GroupPages>> make_groups(const char* call,
                                                          const CacheManagerOptions& options);

}  // namespace folio::inline v1::tier
