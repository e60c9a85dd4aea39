// SPDX-License-Identifier: Apache-2.0
/// pool/eviction/retention.cpp: what sequences ask for, and the order of levels.
#include "pool/eviction/retention.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "pool/groups/groups.h"

namespace folio::inline v1::pool {
namespace {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace

// ---- What sequences ask for

KeepRanges::KeepRanges(std::span<const RetentionRange> given, const DecodeRetention& decode,
                       int32_t prompt, int64_t max_ms, int64_t ms_per_tick) noexcept {
  const auto keep = [&](int32_t level, int64_t ms) {
    if (level == policy_level) return Keep{};
    // of a long tick a part may have passed already
    const int64_t ticks = ceil_div(ms == 0 ? max_ms : ms, ms_per_tick) + (ms_per_tick > 1 ? 1 : 0);
    return Keep{static_cast<uint8_t>(level), static_cast<uint32_t>(ticks)};
  };
  for (const RetentionRange& r : given)
    ranges_[count_++] = {r.begin, r.end, keep(r.level, r.milliseconds)};
  if (decode.level != DecodeRetention::not_given)
    ranges_[count_++] = {prompt, std::numeric_limits<int32_t>::max(),
                         keep(decode.level, decode.milliseconds)};
  std::sort(ranges_, ranges_ + count_,
            [](const Range& a, const Range& b) { return a.keep > b.keep; });
}

const Keep* KeepRanges::of(int64_t begin, int64_t end) const noexcept {
  for (uint32_t i = 0; i < count_; ++i) {
    if (ranges_[i].begin < end && ranges_[i].end > begin) return &ranges_[i].keep;
  }
  return nullptr;
}

// ---- Time

Retention::Retention(PageRecord* records, PageLists* lists, PerPage<TimingWheel::Entry> entries,
                     const Memory& memory, Groups* groups, const PoolOptions& options) noexcept
    : records_(records),
      lists_(lists),
      of_sequences_(memory.of_sequences),
      groups_(groups),
      max_ms_(options.max_retention_ms),
      ms_per_tick_(ceil_div(options.max_retention_ms, TimingWheel::longest - 1)) {
  wheel_.attach(entries, memory.wheel_heads, options.num_pages);
  std::fill_n(memory.levels, num_levels - 1, PageLists::Head());
  lists->attach_levels(memory.levels);
  std::uninitialized_default_construct_n(of_sequences_, options.max_sequences);
}

void Retention::advance(int64_t now_ms, EvictionPolicy& policy) noexcept {
  if (!has_started_) start_ms_ = now_ms_ = now_ms;
  has_started_ = true;
  const auto ticks_until = [&](int64_t ms) {  // of the clock's whole range
    return (static_cast<uint64_t>(ms) - static_cast<uint64_t>(start_ms_)) /
           static_cast<uint64_t>(ms_per_tick_);
  };
  const uint64_t ticks = ticks_until(now_ms) - ticks_until(now_ms_);
  now_ms_ = now_ms;
  wheel_.advance(ticks, [&](uint32_t page) {
    set_level(page, policy_level);
    if (!is_cached(records_[page].list)) return;
    lists_->unlink(page);
    policy.add(page);
  });
}

// ---- Pages

Keep Retention::kept(uint32_t page) const noexcept {
  const uint8_t level = records_[page].level;
  return level == policy_level ? Keep{} : Keep{level, wheel_.remaining(page)};
}

void Retention::set_level(uint32_t page, uint8_t level) noexcept {
  if (std::exchange(records_[page].level, level) != level) groups_->follow(page);
}

void Retention::put(uint32_t page, const Keep& keep) noexcept {
  PageRecord& record = records_[page];
  if (record.level != policy_level) wheel_.remove(page);
  set_level(page, keep.level);
  if (keep.level != policy_level) wheel_.insert(page, keep.ticks);
}

void Retention::raise(uint32_t page, const Keep& keep) noexcept {
  PageRecord& record = records_[page];
  const bool is_first = !record.spoken_for;
  record.spoken_for = true;
  if (is_first ? keep != Keep{} : keep > kept(page)) put(page, keep);
}

void Retention::set(uint32_t page, const Keep& keep, EvictionPolicy& policy) noexcept {
  PageRecord& record = records_[page];
  record.spoken_for = true;
  const bool waits_anew = is_cached(record.list) && record.level != keep.level;
  put(page, keep);
  if (!waits_anew) return;
  lists_->unlink(page);
  if (keep.level == policy_level) return policy.add(page);
  add(page);
}

void Retention::add(uint32_t page) noexcept {
  lists_->push_back(level_list(records_[page].level), page);
}

uint32_t Retention::take(EvictionPolicy& policy) noexcept {
  const bool normal = lists_->count_in_queues() != 0;
  const uint32_t page = lists_->front_below(normal ? policy_level : pinned_level);
  return page != no_page ? page : policy.take();
}

void Retention::forget(uint32_t page) noexcept { put(page, {}); }

void Retention::hand_over(uint32_t page, uint32_t heir) noexcept {
  records_[heir].spoken_for = records_[page].spoken_for;
  if (records_[page].level == policy_level) return;
  set_level(heir, records_[page].level);
  records_[page].level = policy_level;
  wheel_.replace(page, heir);
}

const char* Retention::fault(uint32_t num_pages) const noexcept {
  uint32_t kept = 0, waiting = 0;
  for (uint32_t page = 0; page < num_pages; ++page) {
    const PageRecord& record = records_[page];
    if (record.level >= num_levels) return "a page has a level that is none";
    if (record.level == policy_level) continue;
    ++kept;
    if (!record.findable || !record.spoken_for) return "a page is kept that nobody asked to keep";
    if (!is_cached(record.list)) continue;
    if (record.list != level_list(record.level)) return "a page is in another level's list";
    if (record.level != pinned_level && !lists_->may_have(record.level))
      return "a level has pages and no bit";
  }
  const char* const fault = wheel_.fault(&waiting);
  if (fault != nullptr) return fault;
  return kept == waiting ? nullptr : "a kept page is not in the timing wheel, or another one is";
}

}  // namespace folio::inline v1::pool
