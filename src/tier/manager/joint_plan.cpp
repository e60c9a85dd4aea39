// SPDX-License-Identifier: Apache-2.0
/// tier/manager/joint_plan.cpp: the rule of joint hits, as the pool has it for memory alone.
#include "tier/manager/joint_plan.h"

#include <algorithm>

namespace folio::inline v1::tier {

bool JointPlan::needs(size_t group, size_t page, size_t pages) const {
  if (page >= pages) return false;
  const int64_t position = first_page_ + static_cast<int64_t>(page);
  return position >= first_needed(group, pages) || position < sink_pages(group);
}

size_t JointPlan::longest(size_t at_most, bool only_here) const {
  struct Run {
    int64_t since = 0;  ///< all pages from here to the last one looked at are there
    int64_t sinks = 0;  ///< the same of the first ones
  };
  // What lies before was found in memory: it is whole as far as any hit behind it needs.
  std::vector<Run> runs(num_groups(), {.since = 0, .sinks = first_page_});
  size_t longest = 0;
  for (size_t i = 0; i < std::min(at_most, reach()); ++i) {
    const int64_t position = first_page_ + static_cast<int64_t>(i);
    bool serves = true;
    for (size_t g = 0; g < num_groups(); ++g) {
      const Place place = places_[g][i];
      const bool is_there = place == here || (place != nowhere && !only_here);
      Run& run = runs[g];
      if (!is_there) run.since = position + 1;
      if (is_there && run.sinks == position) ++run.sinks;
      serves = serves && run.since <= first_needed(g, i + 1) &&
               run.sinks >= std::min(sink_pages(g), position + 1);
    }
    if (serves) longest = i + 1;
  }
  return longest;
}

}  // namespace folio::inline v1::tier
