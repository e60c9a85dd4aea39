// SPDX-License-Identifier: Apache-2.0
/// tier/manager/loads.cpp: what tiers have of a prompt, on its way to a sequence.
#include <algorithm>
#include <new>
#include <utility>

#include "tier/manager/state.h"

namespace folio::inline v1::tier {

using tier::Call;
using tier::Load;
using tier::LoadingPage;
using tier::LoadPlan;

void CacheManager::State::refuse(const LoadPlan& plan, LoadRefusal refusal) noexcept {
  for (const LoadPlan::Segment& segment : plan.segments)
    if (segment.leader == nullptr)
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
  if (!pool.trim(admission.id, whole, CutItems::kept).is_ok()) return false;
  admission.cached_tokens = whole;
  return pool.reserve(admission.id, tokens).is_ok();
}

/// The sequence keeps what has been committed, and its items.
void CacheManager::State::give_room_back(const Load& load) noexcept {
  if (const Result<int32_t> length = pool.length(load.id); length)
    static_cast<void>(pool.trim(load.id, *length, CutItems::kept));
}

bool CacheManager::State::start_load(TieredAdmission& admission, std::span<const TokenId> prompt,
                                     bool is_prefetch) {
  if (is_joint()) return start_joint_load(admission, prompt, is_prefetch);
  const size_t first_page = static_cast<size_t>(admission.cached_tokens) / page_size();
  const LoadPlan plan = look_below(admission.id, prompt, first_page);
  figures.asked_pages += std::ssize(plan.names);
  figures.found_pages += static_cast<int64_t>(plan.found);
  if (plan.found == 0) return false;
  if (plan.found < static_cast<size_t>(options.min_load_pages)) {
    refuse(plan, LoadRefusal::few_pages);
    return false;
  }
  if (is_prefetch && plan.segments.back().leader != nullptr) {  // all of it is on its way
    admission.loading_tokens = static_cast<int32_t>(plan.found * page_size());
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
  load.leaders.reserve(plan.segments.size());
  const auto tokens = prompt.subspan(first_page * page_size(), plan.found * page_size());
  load.tokens.assign(tokens.begin(), tokens.end());
  sweep_states();
  if (!is_prefetch) states[load.id] = LoadState::none;
  if (!make_room(admission, plan.found)) {
    refuse(plan, LoadRefusal::no_room);
    return false;
  }
  for (const LoadPlan::Segment& segment : plan.segments) {
    if (segment.leader != nullptr) load.leaders.push_back(segment.leader);
    const size_t begun_pages =
        segment.leader != nullptr ? pin_pages(load, plan, segment) : hand_over(load, plan, segment);
    if (begun_pages != segment.count) break;
  }
  if (load.pages.empty()) {
    give_room_back(load);
    return false;
  }
  load.end = load.pages.size();
  load.open = static_cast<size_t>(std::ranges::count(load.pages, false, &LoadingPage::is_shared));
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

/// As many leading ones of a segment's pages as there are pins: nobody else commits them, or gets
/// them, before the load gives them up.
size_t CacheManager::State::pin_pages(Load& load, const LoadPlan& plan,
                                      const LoadPlan::Segment& segment) {
  const size_t first = load.pages.size();
  for (size_t i = 0; i < segment.count; ++i) {
    const auto entry = load.first_page + static_cast<int32_t>(load.pages.size());
    const Result<IoPin> pin = pool.begin_io(load.id, entry, 0, IoAccess::fills);
    if (!pin) break;
    load.pages.push_back({.name = plan.names[segment.first + i],
                          .page = page_at(load.id, entry),
                          .pin = *pin,
                          .tier = segment.tier,
                          .is_shared = segment.leader != nullptr,
                          .leader = segment.leader});
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
    call.load = &load;
    count = pin_pages(load, plan, segment);
    std::vector<std::vector<Extent>> extents(count);
    std::vector<TierPage> pages(count);
    for (size_t i = 0; i < count; ++i) {
      extents[i] = runs().of(load.pages[first + i].page);
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
      judge(segment.tier, call, RestReason::refused);
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

}  // namespace folio::inline v1::tier
