// SPDX-License-Identifier: Apache-2.0
/// tier/manager/joint_load_ends.cpp: loads of several groups are committed whole, or become shorter
/// ones where pages are lost.
#include <algorithm>
#include <new>
#include <utility>

#include "tier/manager/state.h"

namespace folio::inline v1::tier {

using pool::GroupBits;
using tier::CallId;
using tier::JointPlan;
using tier::Load;
using tier::LoadingPage;

namespace {

/// Each asks tiers once more; the last one takes what is there.
constexpr int32_t most_tries = 4;

bool is_awaited(const LoadingPage& page) { return !page.is_given_up && !page.has_come; }

bool is_under_way(const LoadingPage& page) { return !page.is_given_up && !page.has_ended; }

}  // namespace

bool CacheManager::State::is_intact_jointly(const Load& load) const noexcept {
  const Result<int32_t> length = pool.length(load.id), loading = pool.load_length(load.id);
  const int32_t before = load.first_page * pool.page_size();
  return length && *length == before &&
         *loading == before + static_cast<int32_t>(load.target * page_size()) &&
         std::ranges::all_of(load.pages, [&](const LoadingPage& page) {
           return page.is_given_up || page_at(load.id, entry_of(load, page.group, page.position),
                                              page.group) == page.page;
         });
}

void CacheManager::State::settle(Load& load, bool is_late) noexcept {
  if (load.state != LoadState::loading) return;
  if (!is_intact_jointly(load)) return finish_changed(load);
  try {
    while (std::ranges::any_of(load.pages, is_awaited)) {
      if (!shorten(load, is_late)) return give_up_jointly(load);
      if (!is_late && std::ranges::any_of(load.pages, is_under_way)) return;
    }
  } catch (const std::bad_alloc&) {
    return give_up_jointly(load);
  }
  if (!commit_joint_load(load)) return give_up_jointly(load);
  finish_jointly(load, load.tries == 0 ? LoadState::loaded : LoadState::cut_short, true);
}

/// The load becomes one of the longest hit without what is lost. False where there is none.
bool CacheManager::State::shorten(Load& load, bool is_late) {
  JointPlan& plan = load.plan;
  for (LoadingPage& page : load.pages) {
    if (page.is_given_up) continue;
    plan.place(page.group, page.position) = page.has_come ? JointPlan::here : JointPlan::nowhere;
  }
  bool only_here = is_late || load.tries >= most_tries;
  std::vector<GroupBits> fill;
  for (;; only_here = true) {
    const size_t pages = plan.longest(load.target - 1, only_here);
    if (pages == 0) return false;
    fill.resize(pages);
    const auto length =
        static_cast<int32_t>((static_cast<size_t>(load.first_page) + pages) * page_size());
    if (pool.shorten_load(load.id, length, fill).is_ok()) {
      load.target = pages;
      break;
    }
    if (only_here) return false;  // there is no room for other pages
  }
  ++load.tries;
  load.tokens.resize(load.target * page_size());
  for (LoadingPage& page : load.pages) {
    if (page.is_given_up || plan.needs(page.group, page.position, load.target)) continue;
    page.is_given_up = true;
    plan.place(page.group, page.position) =
        page.tier == no_tier || (page.has_ended && !page.has_come)
            ? JointPlan::nowhere
            : static_cast<JointPlan::Place>(page.tier);
    if ((page.has_ended || page.is_shared) && page.pin != IoPin())
      static_cast<void>(pool.end_io(std::exchange(page.pin, {})));
  }
  static_cast<void>(fill_from_tiers(load, fill));
  return true;
}

/// Names and rows are as they were when it began.
bool CacheManager::State::commit_joint_load(Load& load) noexcept {
  try {
    std::vector<PageName> names(load.target);
    if (!pool.names_of(load.id, load.first_page, load.tokens, names).is_ok() ||
        !std::equal(names.begin(), names.end(), load.plan.names(0).begin()))
      return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
  for (LoadingPage& page : load.pages)
    if (!page.is_given_up) static_cast<void>(pool.end_io(std::exchange(page.pin, {})));
  if (!pool.commit_load(load.id, load.tokens).is_ok()) return false;
  name_pages(load.id);
  for (size_t p = 0; p < load.pages.size(); ++p) {
    const LoadingPage& page = load.pages[p];
    if (page.is_given_up) continue;
    TierCounters& counters = tiers[page.tier].counters;
    tiers[page.tier].seen[page.group].add(page.page, page.name);
    ++figures.loaded_pages;
    ++counters.loaded_pages;
    counters.loaded_tokens += page.group == 0 ? pool.page_size() : 0;
    counters.loaded_bytes += runs(page.group).page_bytes();
    promote(load, p);
  }
  return true;
}

/// Once.
void CacheManager::State::release_kept(Load& load) noexcept {
  if (const std::optional<SequenceId> kept = std::exchange(load.kept, std::nullopt))
    static_cast<void>(pool.release(*kept));
}

/// The sequence has what it had before, and the items of its prompt. What other groups need for
/// that is held by `kept`.
void CacheManager::State::give_back_jointly(Load& load) noexcept {
  static_cast<void>(pool.trim(load.id, load.first_page * pool.page_size(), CutItems::kept));
  release_kept(load);
}

void CacheManager::State::give_up_jointly(Load& load) noexcept {
  give_back_jointly(load);
  finish_jointly(load, LoadState::cut_short);
}

/// The engine has changed the row by the pool itself.
void CacheManager::State::finish_changed(Load& load) noexcept {
  const int64_t before = figures.lost_pages;
  finish_jointly(load, LoadState::cut_short);
  figures.changed_pages += figures.lost_pages - before;
}

void CacheManager::State::finish_jointly(Load& load, LoadState state, bool is_committed) noexcept {
  load.state = state;
  if (const auto at = states.find(load.id); at != states.end()) at->second = state;
  release_kept(load);
  for (LoadingPage& page : load.pages) {
    if (!is_committed || page.is_given_up || !page.has_come) {
      if (page.tier != no_tier) ++tiers[page.tier].counters.lost_pages;
      ++figures.lost_pages;
    }
    // what a tier still writes to is held until it has ended
    if ((page.has_ended || page.is_shared) && page.pin != IoPin())
      static_cast<void>(pool.end_io(std::exchange(page.pin, {})));
    page.is_given_up = true;
  }
  for (const CallId& call : load.calls)
    if (calls.contains(call)) tiers[call.tier].of.tier->cancel({call.ticket});
  for (Load& other : loads) std::erase(other.leaders, &load);
  end_prefetch(load);
}

/// Layers of the model that have come in all groups, the pages of each being one call's extents.
int32_t CacheManager::State::joint_layers_ready(const Load& load) const noexcept {
  if (load.state == LoadState::loaded) return num_layers;
  if (load.state != LoadState::loading || !load.prompt.empty() || !is_intact_jointly(load))
    return 0;
  int32_t layers = num_layers;
  for (const CallId& id : load.calls) {
    const auto at = calls.find(id);
    if (at == calls.end()) continue;
    const uint32_t landed = tiers[id.tier].of.tier->landed({id.ticket});
    for (size_t p = at->second.first; p < at->second.first + at->second.count; ++p) {
      const tier::GroupPages& group = groups[load.pages[p].group];
      const auto come = static_cast<size_t>(group.runs.layers_of(landed));
      if (come < group.layers.size()) layers = std::min(layers, group.layers[come]);
    }
  }
  const bool is_whole = std::ranges::none_of(load.pages, [](const LoadingPage& page) {
    return !page.is_given_up && page.has_ended && !page.has_come;
  });
  return is_whole ? layers : 0;
}

}  // namespace folio::inline v1::tier
