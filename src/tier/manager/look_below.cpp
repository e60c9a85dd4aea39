// SPDX-License-Identifier: Apache-2.0
/// tier/manager/look_below.cpp: what tiers have of a prompt, or loads have on its way.
#include <algorithm>

#include "tier/manager/state.h"

namespace folio::inline v1::tier {

using tier::Load;
using tier::LoadPlan;

/// `count` more at most, of pages that end before the prompt does. What the names depend on, the
/// pool knows.
bool CacheManager::State::add_names(SequenceId id, std::span<const TokenId> prompt,
                                    size_t first_page, size_t count, std::vector<PageName>& names) {
  const size_t before = names.size(), end = (prompt.size() - 1) / page_size();
  count = std::min(count, end - std::min(end, first_page + before));
  if (count == 0) return false;
  names.resize(before + count);
  const auto tokens = prompt.subspan(first_page * page_size(), names.size() * page_size());
  const Status named = pool.names_of(id, static_cast<int32_t>(first_page), tokens, names, before);
  if (!named.is_ok()) names.resize(before);
  return named.is_ok();
}

/// The first tier that has the first of these names, and how many it has.
LoadPlan::Segment CacheManager::State::ask(std::span<const PageName> names) noexcept {
  const auto count = static_cast<int64_t>(names.size());
  const int64_t now = now_us();
  for (size_t t = 0; t < tiers.size(); ++t) {
    TierCounters& counters = tiers[t].counters;
    if (tiers[t].loads.is_resting(now)) {
      counters.not_loaded[static_cast<size_t>(LoadRefusal::resting)] += count;
      continue;
    }
    const int64_t found = std::clamp(int64_t{tiers[t].of.tier->find(names)}, int64_t{0}, count);
    counters.looked_up_pages += std::min(found + 1, count);
    counters.found_pages += found;
    if (found != 0) return {.tier = t, .count = static_cast<size_t>(found)};
  }
  return {};
}

/// A load that brings the pages of these names, the first of which is a sequence's page `position`,
/// and how many of them.
LoadPlan::Segment CacheManager::State::find_leader(std::span<const PageName> names,
                                                   size_t position) noexcept {
  for (Load& load : loads) {
    const auto first_page = static_cast<size_t>(load.first_page);
    if (load.state != LoadState::loading || position < first_page + load.committed) continue;
    if (!is_intact(load)) continue;
    const auto brings = [&](size_t i) {
      const size_t page = position - first_page + i;
      return page < load.end && !load.pages[page].is_shared && load.pages[page].name == names[i];
    };
    size_t count = 0;
    while (count < names.size() && brings(count)) ++count;
    if (count != 0) return {.count = count, .leader = &load};
  }
  return {};
}

/// Names are computed as tiers have them: one of nothing costs one name.
LoadPlan CacheManager::State::look_below(SequenceId id, std::span<const TokenId> prompt,
                                         size_t first_page) {
  LoadPlan plan;
  for (size_t chunk = 1; add_names(id, prompt, first_page, chunk, plan.names);
       chunk = std::min<size_t>(2 * chunk, 64)) {
    while (plan.found < plan.names.size()) {
      const auto names = std::span(plan.names).subspan(plan.found);
      LoadPlan::Segment segment;
      if (plan.segments.empty() || plan.segments.back().leader != nullptr)
        segment = find_leader(names, first_page + plan.found);
      if (segment.count == 0) segment = ask(names);
      if (segment.count == 0) return plan;
      segment.first = plan.found;
      plan.found += segment.count;
      LoadPlan::Segment* const last = plan.segments.empty() ? nullptr : &plan.segments.back();
      if (last != nullptr && last->tier == segment.tier && last->leader == segment.leader)
        last->count += segment.count;
      else
        plan.segments.push_back(segment);
    }
  }
  return plan;
}

}  // namespace folio::inline v1::tier
