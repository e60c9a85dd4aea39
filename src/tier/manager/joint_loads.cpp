// SPDX-License-Identifier: Apache-2.0
/// tier/manager/joint_loads.cpp: in a pool of several groups: what of a prompt all groups can serve
/// from memory and tiers together, and how that comes to a sequence.
#include <algorithm>
#include <new>
#include <utility>

#include "tier/manager/state.h"

namespace folio::inline v1::tier {

using pool::GroupBits;
using tier::Call;
using tier::JointPlan;
using tier::Load;
using tier::LoadingPage;
using tier::LoadPlan;
using tier::no_tier;

// ---- Where pages are

/// Leading pages from memory and from tiers, and what other groups have beside them. False where
/// that is nothing. Names are computed as pages are found: a prompt of which nothing is known costs
/// one.
bool CacheManager::State::look_below_jointly(SequenceId id, std::span<const TokenId> prompt,
                                             JointPlan& plan) {
  const auto first = static_cast<size_t>(plan.first_page());
  const size_t whole = (prompt.size() - 1) / page_size();
  if (whole <= first) return false;
  std::vector<GroupBits> parts(whole - first);
  // of a sequence with part of a page memory does not tell: `begin_load` will find what it has
  const bool is_whole = pool.length(id).value() % pool.page_size() == 0;
  const Result<int32_t> in_memory = is_whole ? pool.find_parts(id, prompt, parts) : 0;
  if (!in_memory) return false;
  std::vector<PageName>& names = plan.names(0);
  size_t reach = has_bytes(0) ? static_cast<size_t>(*in_memory) : parts.size();
  std::vector<LoadPlan::Segment> segments;
  for (size_t chunk = reach + 1; add_names(id, prompt, first, chunk, names);
       chunk = std::min<size_t>(2 * chunk, 64)) {
    bool is_missing = false;
    while (!is_missing && reach < names.size()) {
      LoadPlan::Segment segment = ask(std::span(names).subspan(reach));
      segment.first = reach;
      reach += segment.count;
      is_missing = segment.count == 0;
      if (!is_missing) segments.push_back(segment);
    }
    if (is_missing) break;
  }
  reach = std::min(reach, names.size());
  figures.asked_pages += std::ssize(names) - std::min<int64_t>(*in_memory, std::ssize(names));
  if (reach == 0) return false;
  names.resize(reach);
  plan.resize(reach);
  for (size_t i = 0; i < reach; ++i) {
    if (!has_bytes(0)) plan.place(0, i) = JointPlan::here;
    for (size_t g = 0; g < plan.num_groups(); ++g)
      if ((parts[i] >> g & 1) != 0) plan.place(g, i) = JointPlan::here;
  }
  for (const LoadPlan::Segment& segment : segments)
    for (size_t i = segment.first; i < std::min(segment.first + segment.count, reach); ++i)
      plan.place(0, i) = static_cast<JointPlan::Place>(segment.tier);
  find_companions(plan);
  return true;
}

/// Of all groups at once, in one call of each tier.
void CacheManager::State::find_companions(JointPlan& plan) {
  struct Wanted {
    size_t group = 0, page = 0;
  };
  std::vector<Wanted> wanted;
  std::vector<PageName> names;
  for (uint32_t g = 1; g < plan.num_groups(); ++g) {
    std::vector<PageName>& of_group = plan.names(g);
    of_group.resize(plan.reach());
    if (!pool.companion_names(g, plan.names(0), of_group).is_ok()) continue;
    for (size_t i = 0; i < plan.reach(); ++i) {
      if (plan.place(g, i) != JointPlan::nowhere) continue;
      wanted.push_back({g, i});
      names.push_back(of_group[i]);
    }
  }
  const int64_t now = now_us();
  std::vector<uint8_t> there;
  for (size_t t = 0; t < tiers.size() && !wanted.empty(); ++t) {
    TierCounters& counters = tiers[t].counters;
    if (tiers[t].loads.is_resting(now)) continue;
    there.assign(names.size(), 0);
    tiers[t].of.tier->find_each(names, there);
    counters.looked_up_pages += std::ssize(names);
    size_t left = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (there[i] != 0) {
        plan.place(wanted[i].group, wanted[i].page) = static_cast<JointPlan::Place>(t);
        ++counters.found_pages;
        continue;
      }
      wanted[left] = wanted[i];
      names[left++] = names[i];
    }
    wanted.resize(left);
    names.resize(left);
  }
}

// ---- To the sequence

int32_t CacheManager::State::entry_of(const Load& load, uint32_t group,
                                      size_t position) const noexcept {
  const int64_t page = load.first_page + static_cast<int64_t>(position);
  const auto size = static_cast<int64_t>(page_size());
  return static_cast<int32_t>(((page + 1) * size - 1) / groups[group].page_size);
}

JointPlan CacheManager::State::plan_behind(int32_t first_page) const {
  std::vector<GroupOptions> rules;
  rules.reserve(groups.size());
  for (const tier::GroupPages& group : groups) rules.push_back(group.options);
  return {rules, pool.page_size(), first_page};
}

bool CacheManager::State::start_joint_load(TieredAdmission& admission,
                                           std::span<const TokenId> prompt, bool is_prefetch) {
  const auto first =
      static_cast<int32_t>(static_cast<size_t>(admission.cached_tokens) / page_size());
  std::list<Load> begun(1);
  Load& load = begun.front();
  load.id = admission.id;
  load.first_page = first;
  load.is_prefetch = is_prefetch;
  load.plan = plan_behind(first);
  if (!look_below_jointly(load.id, prompt, load.plan)) return false;
  // where leading pages end, others may branch, too
  const size_t reach = static_cast<size_t>(first) + load.plan.reach();
  static_cast<void>(pool.expect_branch(load.id, static_cast<int32_t>(reach * page_size())));
  load.target = load.plan.longest(load.plan.reach());
  figures.found_pages += load.plan.count_below(load.target);
  if (load.target == 0) return false;
  if (is_prefetch && is_on_its_way(load)) {
    admission.loading_tokens = static_cast<int32_t>(load.target * page_size());
    return false;
  }
  load.deadline_us = deadline(now_us(), options.load_deadline_ms);
  const auto tokens =
      prompt.subspan(static_cast<size_t>(first) * page_size(), load.target * page_size());
  load.tokens.assign(tokens.begin(), tokens.end());
  sweep_states();
  if (!is_prefetch) states[load.id] = LoadState::none;
  if (!open_joint_load(admission, prompt, load)) return false;
  if (!is_prefetch) states[load.id] = LoadState::loading;
  admission.loading_tokens = static_cast<int32_t>(load.target * page_size());
  loads.splice(loads.end(), begun);
  if (load.open == 0 && load.leaders.empty()) settle(load, false);
  return true;
}

/// The room, and calls of tiers. False where there is none, or none of them takes a page.
bool CacheManager::State::open_joint_load(TieredAdmission& admission,
                                          std::span<const TokenId> prompt, Load& load) {
  const JointPlan& plan = load.plan;
  const auto refuse_all = [&](LoadRefusal refusal) {
    for (uint32_t g = 0; g < plan.num_groups(); ++g)
      for (size_t i = 0; i < load.target; ++i)
        if (plan.place(g, i) >= 0 && plan.needs(g, i, load.target))
          ++tiers[static_cast<size_t>(plan.place(g, i))]
                .counters.not_loaded[static_cast<size_t>(refusal)];
    return false;
  };
  if (load.target < static_cast<size_t>(options.min_load_pages))
    return refuse_all(LoadRefusal::few_pages);
  std::vector<GroupBits> fill(load.target);
  const int32_t whole = load.first_page * pool.page_size();
  if (admission.cached_tokens != whole) {  // a hit within a page gives way
    if (!pool.trim(load.id, whole, CutItems::kept).is_ok()) return refuse_all(LoadRefusal::no_room);
    admission.cached_tokens = whole;
  }
  if (whole != 0) {
    const Result<SequenceId> kept = pool.fork(load.id, whole);
    if (!kept) return refuse_all(LoadRefusal::no_room);
    load.kept = *kept;
  }
  const auto length = static_cast<int32_t>(load.target * page_size()) + whole;
  if (!pool.begin_load(load.id, prompt, length, fill).is_ok()) {
    release_kept(load);
    return refuse_all(LoadRefusal::no_room);
  }
  try {
    if (!wait_for_leaders(load, fill, prompt)) static_cast<void>(fill_from_tiers(load, fill));
  } catch (const std::bad_alloc&) {
    give_up_jointly(load);
    return false;
  }
  return true;
}

size_t CacheManager::State::fill_from_tiers(Load& load, std::span<const GroupBits> fill) {
  const JointPlan& plan = load.plan;
  const size_t begin = load.pages.size();
  load.pages.reserve(begin + fill.size() * plan.num_groups());
  load.calls.reserve(load.calls.size() + tiers.size());
  size_t handed = 0;
  for (size_t t = 0; t < tiers.size(); ++t) {
    const size_t first = load.pages.size();
    for (uint32_t g = 0; g < plan.num_groups(); ++g) {
      for (size_t i = 0; i < fill.size(); ++i) {
        if ((fill[i] >> g & 1) == 0 || plan.place(g, i) != static_cast<JointPlan::Place>(t))
          continue;
        load.pages.push_back({.name = plan.names(g)[i],
                              .page = page_at(load.id, entry_of(load, g, i), g),
                              .pin = {},
                              .tier = t,
                              .group = g,
                              .position = i,
                              .leader = nullptr});
      }
    }
    if (load.pages.size() != first) handed += hand_over_joint(load, t, first);
  }
  for (uint32_t g = 0; g < plan.num_groups(); ++g) {
    for (size_t i = 0; i < fill.size(); ++i) {
      if ((fill[i] >> g & 1) == 0 || plan.place(g, i) >= 0 || !has_bytes(g)) continue;
      // memory had it, and has it no more
      load.pages.push_back({.name = plan.names(g)[i],
                            .page = page_at(load.id, entry_of(load, g, i), g),
                            .pin = {},
                            .tier = no_tier,
                            .group = g,
                            .position = i,
                            .has_ended = true,
                            .leader = nullptr});
    }
  }
  return handed;
}

/// Of the load's pages from `first` on, which one tier has, as many leading ones as there are pins
/// and its queue has room for. The others are lost at once.
size_t CacheManager::State::hand_over_joint(Load& load, size_t t, size_t first) noexcept {
  tier::Below& below = tiers[t];
  const auto pages = std::span(load.pages).subspan(first);
  LoadRefusal refusal = LoadRefusal::no_pin;
  size_t pinned = 0, count = 0;
  for (; pinned < pages.size(); ++pinned) {
    LoadingPage& page = pages[pinned];
    const IoAccess access = page.group == 0 ? IoAccess::fills : IoAccess::reads;
    const Result<IoPin> pin =
        pool.begin_io(load.id, entry_of(load, page.group, page.position), page.group, access);
    if (!pin) break;
    page.pin = *pin;
  }
  try {
    tier::Calls one;
    Call& call = one[{}];
    call.load = &load;
    std::vector<std::vector<Extent>> extents(pinned);
    std::vector<TierPage> asked(pinned);
    for (size_t i = 0; i < pinned; ++i) {
      extents[i] = runs(pages[i].group).of(pages[i].page);
      asked[i] = {pages[i].name, extents[i]};
    }
    for (count = pinned; count != 0; count /= 2) {
      const Result<TierTicket> ticket = below.of.tier->load(
          std::span(asked).first(count), options.load_deadline_ms, options.load_order);
      if (ticket) {
        call = {.load = &load, .first = first, .count = count, .open = count, .began_us = now_us()};
        auto node = one.extract(one.begin());
        node.key() = {t, ticket->value};
        load.calls.push_back(node.key());
        calls.insert(std::move(node));
        break;
      }
      refusal = ticket.error().code() == Errc::busy ? LoadRefusal::busy : LoadRefusal::failed;
      if (refusal == LoadRefusal::busy) continue;
      judge(t, call, RestReason::refused);
      count = 0;
      break;
    }
  } catch (const std::bad_alloc&) {
    refusal = LoadRefusal::failed;
    count = 0;
  }
  for (size_t i = count; i < pages.size(); ++i) {
    if (i < pinned) static_cast<void>(pool.end_io(pages[i].pin));
    pages[i].pin = {};
    pages[i].has_ended = true;
    pages[i].tier = no_tier;  // its load has not begun
  }
  load.open += count;
  below.counters.loading_pages += static_cast<int64_t>(count);
  below.counters.not_loaded[static_cast<size_t>(refusal)] +=
      static_cast<int64_t>(pages.size() - count);
  if (count != 0) ++figures.loads;
  return count;
}

}  // namespace folio::inline v1::tier
