// SPDX-License-Identifier: Apache-2.0
/// tier/manager/loads.cpp: what tiers have of a prompt, on its way to a sequence.
#include <algorithm>
#include <new>
#include <utility>

#include "tier/manager/state.h"

namespace folio::inline v1 {

using tier::Call;
using tier::CallId;
using tier::Load;
using tier::LoadingPage;
using tier::LoadPlan;
using tier::Prompt;

// ---- What tiers have

bool CacheManager::State::add_names(SequenceId id, const Prompt& prompt, size_t first_page,
                                    size_t count, std::vector<PageName>& names) {
  const size_t before = names.size();
  PageName parent;
  if (!names.empty()) {
    parent = names.back();
  } else if (first_page != 0) {
    const Result<PageName> last = pool.name(id, static_cast<int32_t>(first_page) - 1);
    if (!last) return false;
    parent = *last;
  }
  std::vector<ContentSpan> spans;
  size_t p = first_page + before;
  for (const size_t end = p + count; p < end && (p + 1) * page_size() < prompt.tokens.size(); ++p) {
    const auto first = static_cast<int32_t>(p * page_size()), last = first + pool.page_size();
    spans.clear();
    for (const ContentSpan& span : prompt.options.spans)
      if (span.offset < last && span.offset + span.length > first)
        spans.push_back({span.offset - first, span.length, span.hash});
    const PageContent content{.parent = p == 0 ? nullptr : &parent,
                              .tokens = prompt.tokens.subspan(p * page_size(), page_size()),
                              .spans = spans,
                              .salt = prompt.options.salt,
                              .adapter = prompt.options.adapter};
    PageName name;
    if (!options.name.function(options.name.context, content, &name).is_ok()) break;
    names.push_back(name);
    parent = name;
  }
  return names.size() != before;
}

/// The first tier that has the first of these names, and how many it has.
LoadPlan::Segment CacheManager::State::ask(std::span<const PageName> names) noexcept {
  const auto count = static_cast<int64_t>(names.size());
  const int64_t now = now_us();
  for (size_t t = 0; t < tiers.size(); ++t) {
    TierCounters& counters = tiers[t].counters;
    if (tiers[t].back_off.is_resting(now)) {
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

/// Names are computed as tiers have them: one of nothing costs one name.
LoadPlan CacheManager::State::look_below(SequenceId id, const Prompt& prompt, size_t first_page) {
  LoadPlan plan;
  for (size_t chunk = 1; add_names(id, prompt, first_page, chunk, plan.names);
       chunk = std::min<size_t>(2 * chunk, 64)) {
    while (plan.found < plan.names.size()) {
      LoadPlan::Segment segment = ask(std::span(plan.names).subspan(plan.found));
      if (segment.count == 0) return plan;
      segment.first = plan.found;
      plan.found += segment.count;
      if (!plan.segments.empty() && plan.segments.back().tier == segment.tier)
        plan.segments.back().count += segment.count;
      else
        plan.segments.push_back(segment);
    }
  }
  return plan;
}

// ---- Begin

void CacheManager::State::refuse(const LoadPlan& plan, LoadRefusal refusal) noexcept {
  for (const LoadPlan::Segment& segment : plan.segments)
    tiers[segment.tier].counters.not_loaded[static_cast<size_t>(refusal)] +=
        static_cast<int64_t>(segment.count);
}

/// A hit within a page gives way, but not before it is sure that there is room.
bool CacheManager::State::make_room(TieredAdmission& admission, size_t pages) noexcept {
  const int32_t partial = admission.cached_tokens % pool.page_size();
  const auto tokens = static_cast<int32_t>(pages * page_size());
  if (!pool.reserve(admission.id, tokens - partial).is_ok()) return false;
  if (partial == 0) return true;
  const int32_t whole = admission.cached_tokens - partial;
  if (!pool.trim(admission.id, whole).is_ok()) return false;
  admission.cached_tokens = whole;
  return pool.reserve(admission.id, tokens).is_ok();
}

bool CacheManager::State::start_load(TieredAdmission& admission, const Prompt& prompt,
                                     bool is_prefetch) {
  const size_t first_page = static_cast<size_t>(admission.cached_tokens) / page_size();
  const LoadPlan plan = look_below(admission.id, prompt, first_page);
  figures.asked_pages += std::ssize(plan.names);
  figures.found_pages += static_cast<int64_t>(plan.found);
  if (plan.found == 0) return false;
  if (plan.found < static_cast<size_t>(options.min_load_pages)) {
    refuse(plan, LoadRefusal::few_pages);
    return false;
  }
  std::list<Load> begun(1);
  Load& load = begun.front();
  load.id = admission.id;
  load.first_page = static_cast<int32_t>(first_page);
  load.is_prefetch = is_prefetch;
  load.deadline_us = deadline(now_us(), options.load_deadline_ms);
  load.pages.reserve(plan.found);
  load.calls.reserve(plan.segments.size());
  const auto tokens = prompt.tokens.subspan(first_page * page_size(), plan.found * page_size());
  load.tokens.assign(tokens.begin(), tokens.end());
  sweep_states();
  if (!is_prefetch) states[load.id] = LoadState::none;
  if (!make_room(admission, plan.found)) {
    refuse(plan, LoadRefusal::no_room);
    return false;
  }
  for (const LoadPlan::Segment& segment : plan.segments)
    if (hand_over(load, plan, segment) != segment.count) break;
  if (load.pages.empty()) {
    static_cast<void>(pool.trim(load.id, admission.cached_tokens));
    return false;
  }
  load.end = load.open = load.pages.size();
  load.tokens.resize(load.pages.size() * page_size());
  admission.loading_tokens = static_cast<int32_t>(load.tokens.size());
  if (!is_prefetch) states[load.id] = LoadState::loading;
  loads.splice(loads.end(), begun);
  return true;
}

void CacheManager::State::unpin_from(Load& load, size_t first) noexcept {
  for (size_t p = first; p < load.pages.size(); ++p)
    static_cast<void>(pool.end_io(load.pages[p].pin));
  load.pages.resize(first);
}

size_t CacheManager::State::pin_pages(Load& load, const LoadPlan& plan,
                                      const LoadPlan::Segment& segment) {
  const size_t first = load.pages.size();
  for (size_t i = 0; i < segment.count; ++i) {
    const auto entry = load.first_page + static_cast<int32_t>(load.pages.size());
    const Result<IoPin> pin = pool.begin_io(load.id, entry);
    if (!pin) break;
    load.pages.push_back(
        {.name = plan.names[segment.first + i], .pin = *pin, .tier = segment.tier});
  }
  return load.pages.size() - first;
}

/// Of a segment's pages, as many leading ones as there are pins and the tier's queue has room for.
size_t CacheManager::State::hand_over(Load& load, const LoadPlan& plan,
                                      const LoadPlan::Segment& segment) noexcept {
  tier::Below& below = tiers[segment.tier];
  const size_t first = load.pages.size();
  size_t count = 0;
  LoadRefusal refusal = LoadRefusal::no_pin;
  try {
    tier::Calls one;
    Call& call = one[{}];
    count = pin_pages(load, plan, segment);
    std::vector<std::vector<Extent>> extents(count);
    std::vector<TierPage> pages(count);
    for (size_t i = 0; i < count; ++i) {
      extents[i] = runs.of(pool.page_of(load.pages[first + i].pin).value());
      pages[i] = {load.pages[first + i].name, extents[i]};
    }
    for (; count != 0; count /= 2) {
      const Result<TierTicket> ticket = below.of.tier->load(
          std::span(pages).first(count), options.load_deadline_ms, options.load_order);
      if (ticket) {
        call = {.load = &load, .first = first, .count = count, .open = count, .began_us = now_us()};
        auto node = one.extract(one.begin());
        node.key() = {segment.tier, ticket->value};
        load.calls.push_back(node.key());
        calls.insert(std::move(node));
        break;
      }
      refusal = ticket.error().code() == Errc::busy ? LoadRefusal::busy : LoadRefusal::failed;
      if (refusal == LoadRefusal::busy) continue;
      judge(segment.tier, call, true);
      count = 0;
      break;
    }
  } catch (const std::bad_alloc&) {
    refusal = LoadRefusal::failed;
    count = 0;
  }
  unpin_from(load, first + count);
  below.counters.loading_pages += static_cast<int64_t>(count);
  below.counters.not_loaded[static_cast<size_t>(refusal)] +=
      static_cast<int64_t>(segment.count - count);
  if (count != 0) ++figures.loads;
  return count;
}

// ---- End

void CacheManager::State::end_loaded(Load& load, size_t page, TierOutcome outcome) noexcept {
  LoadingPage& loading = load.pages[page];
  TierCounters& counters = tiers[loading.tier].counters;
  loading.has_ended = true;
  loading.has_come = outcome == TierOutcome::done;
  --load.open;
  --counters.loading_pages;
  ++counters.load_outcomes[static_cast<size_t>(outcome)];
  if (!loading.has_come) load.end = std::min(load.end, page);
}

void CacheManager::State::commit_what_came(Load& load) noexcept {
  if (load.state != LoadState::loading) return;
  size_t came = load.committed;
  while (came < load.end && load.pages[came].has_come) ++came;
  const auto tokens =
      std::span(load.tokens)
          .subspan(load.committed * page_size(), (came - load.committed) * page_size());
  if (!tokens.empty()) {
    if (!pool.commit(load.id, tokens).is_ok()) return finish(load, LoadState::cut_short);
    for (; load.committed < came; ++load.committed) {
      const LoadingPage& page = load.pages[load.committed];
      TierCounters& counters = tiers[page.tier].counters;
      tiers[page.tier].seen.add(
          page_at(load.id, load.first_page + static_cast<int32_t>(load.committed)), page.name);
      ++figures.loaded_pages;
      ++counters.loaded_pages;
      counters.loaded_tokens += pool.page_size();
      counters.loaded_bytes += runs.page_bytes();
      promote(load, load.committed);
    }
  }
  if (load.committed == load.pages.size())
    finish(load, LoadState::loaded);
  else if (load.committed == load.end)
    finish(load, LoadState::cut_short);
}

/// What has not come by now is computed: the room for it is given back, and what the tier still
/// writes to is held by pins.
void CacheManager::State::finish(Load& load, LoadState state) noexcept {
  load.state = state;
  if (const auto at = states.find(load.id); at != states.end()) at->second = state;
  for (size_t p = load.committed; p < load.pages.size(); ++p)
    ++tiers[load.pages[p].tier].counters.lost_pages;
  figures.lost_pages += static_cast<int64_t>(load.pages.size() - load.committed);
  if (state == LoadState::cut_short) {
    if (const Result<int32_t> length = pool.length(load.id); length)
      static_cast<void>(pool.trim(load.id, *length));
    for (const CallId& call : load.calls)
      if (calls.contains(call)) tiers[call.tier].of.tier->cancel({call.ticket});
  }
  if (!load.is_prefetch) return;
  depart(load.id);
  static_cast<void>(pool.release(load.id));
}

void CacheManager::State::end_late_loads(int64_t now) noexcept {
  for (Load& load : loads) {
    if (load.state != LoadState::loading || load.deadline_us > now) continue;
    for (const CallId& id : load.calls)
      if (const auto at = calls.find(id); at != calls.end()) judge(id.tier, at->second, true);
    finish(load, LoadState::cut_short);
  }
}

int32_t CacheManager::State::layers_ready(const Load& load) const noexcept {
  if (load.state == LoadState::loaded) return runs.num_layers();
  if (load.state != LoadState::loading || load.end != load.pages.size()) return 0;
  int32_t layers = runs.num_layers();
  for (const CallId& id : load.calls)
    if (calls.contains(id))
      layers = std::min(layers, runs.layers_of(tiers[id.tier].of.tier->landed({id.ticket})));
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

}  // namespace folio::inline v1
