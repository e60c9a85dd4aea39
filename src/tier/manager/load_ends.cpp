// SPDX-License-Identifier: Apache-2.0
/// tier/manager/load_ends.cpp: pages that have come, those that have not, and loads that share
/// pages.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

#include "tier/manager/state.h"
#include "tier/payload.h"

namespace folio::inline v1::tier {

using tier::CallId;
using tier::Load;
using tier::LoadingPage;

// ---- The row

/// Whether the sequence's row is as the load left it: the engine may have called the pool. As all
/// pages of the load are pinned to be filled, nobody else commits them or gets them; and a sequence
/// gives up its room all at once, so that the next page tells of those behind it.
bool CacheManager::State::is_intact(const Load& load) const noexcept {
  const int32_t next = load.first_page + static_cast<int32_t>(load.committed);
  const Result<int32_t> length = pool.length(load.id);
  return length && *length == next * pool.page_size() &&
         (load.committed == load.pages.size() ||
          page_at(load.id, next) == load.pages[load.committed].page);
}

/// Whether the load's pages from the next one to `end` are its sequence's, and the pool says that
/// they will have the names under which they were loaded.
bool CacheManager::State::agrees(const Load& load, size_t end) noexcept {
  if (!is_intact(load)) return false;
  const auto pages = std::span(load.pages).first(end).subspan(load.committed);
  const auto tokens = std::span(load.tokens).first(end * page_size());
  try {
    std::vector<PageName> names(pages.size());
    const auto next = load.first_page + static_cast<int32_t>(load.committed);
    const Status named =
        pool.names_of(load.id, next, tokens.subspan(load.committed * page_size()), names);
    return named.is_ok() && std::ranges::equal(names, pages, {}, {}, &LoadingPage::name);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

/// What the engine has made of the sequence is no load any more, though nobody has polled since.
void CacheManager::State::end_if_changed(SequenceId id) noexcept {
  Load* const load = load_of(id);
  if (load == nullptr) return;
  if (!load->is_joint() && !is_intact(*load)) finish(*load, LoadState::cut_short);
  if (load->is_joint() && !is_intact_jointly(*load)) finish_changed(*load);
}

// ---- Pages that have come

void CacheManager::State::end_loaded(Load& load, size_t page, TierOutcome outcome) noexcept {
  LoadingPage& loading = load.pages[page];
  TierCounters& counters = tiers[loading.tier].counters;
  loading.has_ended = true;
  loading.has_come = outcome == TierOutcome::done;
  --load.open;
  --counters.loading_pages;
  ++counters.load_outcomes[static_cast<size_t>(outcome)];
  if (!loading.has_come) load.end = std::min(load.end, page);
  if (load.state != LoadState::loading || loading.is_given_up)
    static_cast<void>(pool.end_io(std::exchange(loading.pin, {})));
}

/// The load's pages from the next one to `end`, which hold what they are to hold.
bool CacheManager::State::commit_pages(Load& load, size_t end, Merge merge) noexcept {
  if (!agrees(load, end)) return false;
  for (size_t p = load.committed; p < end; ++p) static_cast<void>(pool.end_io(load.pages[p].pin));
  const auto tokens = std::span(load.tokens).first(end * page_size());
  const bool is_committed =
      pool.commit(load.id, tokens.subspan(load.committed * page_size()), merge).is_ok();
  if (is_committed) name_pages(load.id);
  return is_committed;
}

void CacheManager::State::commit_what_came(Load& load) noexcept {
  if (load.state != LoadState::loading) return;
  if (load.is_joint()) {
    const bool is_intact = is_intact_jointly(load), waits = !load.prompt.empty();
    if (waits && is_intact && load.leaders.empty())
      end_wait(load);
    else if (!is_intact || (load.open == 0 && !waits))
      settle(load, false);
    return;
  }
  size_t came = load.committed;
  while (came < load.end && load.pages[came].has_come) ++came;
  if (came == load.committed) {
    if (!is_intact(load)) return finish(load, LoadState::cut_short);
  } else {
    if (!commit_pages(load, came, Merge::refused)) return finish(load, LoadState::cut_short);
    for (; load.committed < came; ++load.committed) {
      const LoadingPage& page = load.pages[load.committed];
      TierCounters& counters = tiers[page.tier].counters;
      tiers[page.tier].seen[0].add(page.page, page.name);
      ++figures.loaded_pages;
      ++counters.loaded_pages;
      counters.loaded_tokens += pool.page_size();
      counters.loaded_bytes += runs().page_bytes();
      promote(load, load.committed);
    }
    tell_followers(load);
  }
  if (load.committed == load.pages.size())
    finish(load, LoadState::loaded);
  else if (load.committed == load.end)
    finish(load, LoadState::cut_short);
}

// ---- Loads that share pages

/// The next page of the load is one that its leader has committed; as it has committed another one
/// just now, its row is as it was. Says nothing where the page cannot be had.
bool CacheManager::State::share_page(Load& load, const Load& leader) noexcept {
  LoadingPage& page = load.pages[load.committed];
  const int32_t position = load.first_page + static_cast<int32_t>(load.committed);
  if (!is_intact(load)) return false;
  try {
    const std::vector<Extent> there = runs().of(page_at(leader.id, position)),
                              here = runs().of(page.page);
    if (options.device != nullptr && !copy_on_device(there, here).is_ok()) return false;
    if (!commit_pages(load, load.committed + 1, Merge::allowed)) return false;
    if (options.device == nullptr &&
        page_at(load.id, position) == page.page)  // a step holds the sequence
      for (size_t i = 0; i < here.size(); ++i)
        std::memcpy(here[i].data, there[i].data, static_cast<size_t>(here[i].bytes));
  } catch (const std::bad_alloc&) {
    return false;
  }
  ++load.committed;
  page.has_ended = page.has_come = true;
  ++figures.loaded_pages;
  ++figures.shared_pages;
  if (const uint32_t at = page_at(load.id, position); at < hits.size()) ++hits[at];
  return true;
}

/// By way of the host. It may fail, so it comes before the commit, needed or not.
Status CacheManager::State::copy_on_device(std::span<const Extent> from,
                                           std::span<const Extent> to) noexcept {
  Result<tier::HostBlock> block = blocks.take(tier::bytes_of(from));
  if (!block) return block.error();
  if (Status s = blocks.gather(from, block->data()); !s.is_ok()) return s;
  return blocks.scatter(block->data(), to);
}

/// Loads that wait for what the leader has committed go on: all get its pages before one of them,
/// which others may follow, goes on with its own.
void CacheManager::State::tell_followers(const Load& leader) noexcept {
  const auto follows = [&](const Load& load) {
    return load.state == LoadState::loading && std::ranges::count(load.leaders, &leader) != 0;
  };
  const size_t end = static_cast<size_t>(leader.first_page) + leader.committed;
  for (Load& load : loads) {
    if (!follows(load)) continue;
    const auto is_next = [&] {
      return load.committed < load.end && load.pages[load.committed].leader == &leader &&
             static_cast<size_t>(load.first_page) + load.committed < end;
    };
    while (is_next() && share_page(load, leader)) continue;
    if (is_next()) finish(load, LoadState::cut_short);
  }
  for (Load& load : loads)
    if (follows(load)) commit_what_came(load);
}

/// What the leader has not brought is lost to those who wait for it.
void CacheManager::State::leave_followers(const Load& leader) noexcept {
  for (Load& load : loads) {
    if (std::erase(load.leaders, &leader) == 0 || load.state != LoadState::loading) continue;
    const auto begin = load.pages.begin();
    const auto lost =
        std::find_if(begin + static_cast<std::ptrdiff_t>(load.committed), load.pages.end(),
                     [&](const LoadingPage& page) { return page.leader == &leader; });
    if (lost == load.pages.end()) continue;
    load.end = std::min(load.end, static_cast<size_t>(lost - begin));
    commit_what_came(load);
  }
}

// ---- End

/// What has not come by now is computed: the room for it is given back, unless the engine has done
/// so, and what the tier still writes to is held by pins.
void CacheManager::State::finish(Load& load, LoadState state) noexcept {
  load.state = state;
  if (const auto at = states.find(load.id); at != states.end()) at->second = state;
  for (size_t p = load.committed; p < load.pages.size(); ++p)
    if (!load.pages[p].is_shared) ++tiers[load.pages[p].tier].counters.lost_pages;
  const auto lost = static_cast<int64_t>(load.pages.size() - load.committed);
  figures.lost_pages += lost;
  if (state == LoadState::cut_short) {
    if (is_intact(load))
      give_room_back(load);
    else
      figures.changed_pages += lost;
    for (size_t p = load.committed; p < load.pages.size(); ++p)  // no tier writes to these
      if (load.pages[p].is_shared || load.pages[p].has_ended)
        static_cast<void>(pool.end_io(load.pages[p].pin));
    for (const CallId& call : load.calls)
      if (calls.contains(call)) tiers[call.tier].of.tier->cancel({call.ticket});
  }
  leave_followers(load);
  end_prefetch(load);
}

void CacheManager::State::end_prefetch(Load& load) noexcept {
  if (!load.is_prefetch) return;
  depart(load.id);
  static_cast<void>(pool.release(load.id));
}

void CacheManager::State::end_now(Load& load) noexcept {
  if (load.is_joint()) return settle(load, true);
  commit_what_came(load);
  if (load.state == LoadState::loading) finish(load, LoadState::cut_short);
}

void CacheManager::State::end_late_loads(int64_t now) noexcept {
  for (Load& load : loads) {
    if (load.state != LoadState::loading || load.deadline_us > now) continue;
    for (const CallId& id : load.calls)
      if (const auto at = calls.find(id); at != calls.end())
        judge(id.tier, at->second, RestReason::late);
    if (load.is_joint())
      settle(load, true);
    else
      finish(load, LoadState::cut_short);
  }
}

int32_t CacheManager::State::layers_ready(const Load& load) const noexcept {
  if (load.is_joint()) return joint_layers_ready(load);
  if (load.state == LoadState::loaded) return runs().num_layers();
  if (load.state != LoadState::loading || load.end != load.pages.size() || !is_intact(load))
    return 0;
  if (load.committed != load.pages.size() && load.pages[load.committed].is_shared) return 0;
  int32_t layers = runs().num_layers();
  for (const CallId& id : load.calls)
    if (calls.contains(id))
      layers = std::min(layers, runs().layers_of(tiers[id.tier].of.tier->landed({id.ticket})));
  return layers;
}

Load* CacheManager::State::load_of(SequenceId id) noexcept {
  const auto at = std::find_if(loads.begin(), loads.end(), [&](const Load& load) {
    return load.id == id && load.state == LoadState::loading && !load.is_prefetch;
  });
  return at == loads.end() ? nullptr : &*at;
}

/// Forgets sequences that the engine has released without us.
void CacheManager::State::sweep_states() noexcept {
  if (states.size() < next_sweep) return;
  std::erase_if(states, [&](const auto& entry) { return !pool.length(entry.first); });
  next_sweep = 2 * states.size() + 64;
}

}  // namespace folio::inline v1::tier
