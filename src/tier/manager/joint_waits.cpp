// SPDX-License-Identifier: Apache-2.0
/// tier/manager/joint_waits.cpp: in a pool of several groups, a load that wants pages which others
/// bring waits until these have ended, and begins then with what memory has by that.
#include <algorithm>
#include <map>
#include <new>
#include <utility>

#include "tier/manager/state.h"

namespace folio::inline v1::tier {

using pool::GroupBits;
using tier::JointPlan;
using tier::Load;
using tier::LoadingPage;
using tier::no_tier;

namespace {

using Coming = std::map<PageName, const Load*>;

/// Pages that loads with calls of their own bring: none waits for one that waits.
Coming pages_under_way(const std::list<Load>& loads, const Load& other, const auto& is_intact) {
  Coming coming;
  for (const Load& load : loads) {
    if (&load == &other || load.state != LoadState::loading || !load.prompt.empty() ||
        !is_intact(load))
      continue;
    for (const LoadingPage& page : load.pages)
      if (!page.is_given_up && (page.has_come || !page.has_ended)) coming[page.name] = &load;
  }
  return coming;
}

}  // namespace

bool CacheManager::State::is_on_its_way(const Load& planned) const {
  const Coming coming =
      pages_under_way(loads, planned, [this](const Load& load) { return is_intact_jointly(load); });
  const JointPlan& plan = planned.plan;
  bool asks = false;
  for (uint32_t g = 0; g < plan.num_groups() && !coming.empty(); ++g) {
    for (size_t i = 0; i < planned.target; ++i) {
      if (plan.place(g, i) < 0 || !plan.needs(g, i, planned.target)) continue;
      if (!coming.contains(plan.names(g)[i])) return false;
      asks = true;
    }
  }
  return asks;
}

/// Its pages are pinned meanwhile, as far as there are pins: nobody commits them.
bool CacheManager::State::wait_for_leaders(Load& load, std::span<const GroupBits> fill,
                                           std::span<const TokenId> prompt) {
  const Coming coming =
      pages_under_way(loads, load, [this](const Load& other) { return is_intact_jointly(other); });
  if (coming.empty()) return false;
  const JointPlan& plan = load.plan;
  std::vector<LoadingPage> pages;
  std::vector<const Load*> leaders;
  for (uint32_t g = 0; g < plan.num_groups(); ++g) {
    for (size_t i = 0; i < fill.size(); ++i) {
      if ((fill[i] >> g & 1) == 0 || !has_bytes(g)) continue;
      const auto at = coming.find(plan.names(g)[i]);
      const Load* const leader = at == coming.end() ? nullptr : at->second;
      if (leader != nullptr && std::ranges::count(leaders, leader) == 0) leaders.push_back(leader);
      pages.push_back({.name = plan.names(g)[i],
                       .page = page_at(load.id, entry_of(load, g, i), g),
                       .pin = {},
                       .tier = no_tier,
                       .group = g,
                       .position = i,
                       .is_shared = true,
                       .leader = leader});
    }
  }
  if (leaders.empty()) return false;
  const size_t known = (static_cast<size_t>(load.first_page) + load.target) * page_size() + 1;
  load.prompt.assign(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(known));
  for (LoadingPage& page : pages) {
    const IoAccess access = page.group == 0 ? IoAccess::fills : IoAccess::reads;
    const Result<IoPin> pin =
        pool.begin_io(load.id, entry_of(load, page.group, page.position), page.group, access);
    if (!pin) break;
    page.pin = *pin;
  }
  load.pages = std::move(pages);
  load.leaders = std::move(leaders);
  return true;
}

/// All that it has waited for have ended: it has what of that is in memory now, and asks tiers for
/// the rest.
void CacheManager::State::end_wait(Load& load) noexcept {
  if (!is_intact_jointly(load)) return finish_changed(load);
  for (LoadingPage& page : load.pages)
    if (page.pin != IoPin()) static_cast<void>(pool.end_io(std::exchange(page.pin, {})));
  try {
    const int32_t behind = load.first_page + static_cast<int32_t>(load.target);
    if (behind < pool.table().row_stride && page_at(load.id, behind) < pool.num_pages())
      fill_after_wait(load);  // the engine's room stays
    else if (!begin_anew(load))
      return;
  } catch (const std::bad_alloc&) {
    return give_up_jointly(load);
  }
  if (load.open == 0 && load.leaders.empty()) settle(load, false);
}

void CacheManager::State::fill_after_wait(Load& load) {
  std::vector<GroupBits> fill(load.target);
  for (const LoadingPage& page : load.pages)
    fill[page.position] |= static_cast<GroupBits>(1U << page.group);
  load.pages.clear();
  load.prompt.clear();
  static_cast<void>(fill_from_tiers(load, fill));
}

/// The sequence gives its room up and is admitted again, to what it was promised at most. False
/// where there is nothing to load any more: then the load has ended.
bool CacheManager::State::begin_anew(Load& load) {
  const std::vector<LoadingPage> awaited = std::exchange(load.pages, {});
  const std::vector<TokenId> prompt = std::exchange(load.prompt, {});
  const size_t promised = load.target;
  give_back_jointly(load);
  JointPlan plan = plan_behind(load.first_page);
  load.target = look_below_jointly(load.id, prompt, plan) ? plan.longest(promised) : 0;
  load.plan = std::move(plan);
  load.tokens.resize(load.target * page_size());
  if (load.target < promised) ++load.tries;
  TieredAdmission admission{.id = load.id, .cached_tokens = load.first_page * pool.page_size()};
  if (load.target == 0 || !open_joint_load(admission, prompt, load)) {
    if (load.state == LoadState::loading) finish_jointly(load, LoadState::cut_short);
    return false;
  }
  for (const LoadingPage& page : awaited) {
    if (page.leader == nullptr || page.position >= load.target ||
        std::ranges::count(load.pages, page.name, &LoadingPage::name) != 0 ||
        !load.plan.needs(page.group, page.position, load.target))
      continue;
    ++figures.loaded_pages;
    ++figures.shared_pages;
  }
  return true;
}

}  // namespace folio::inline v1::tier
