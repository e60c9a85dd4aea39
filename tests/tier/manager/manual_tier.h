// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/manual_tier.h: a tier in the caller's thread, whose pages end when and as the
/// test says.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "folio/tier/cache_manager.h"

namespace folio::test {

class ManualTier final : public Tier {
 public:
  struct Pending {
    TierCompletion completion;
    bool is_load = false, is_cancelled = false;
    PageName name;
    std::optional<PageName> parent;
    std::vector<Extent> extents;
  };
  using Bytes = std::vector<std::byte>;

  std::map<PageName, Bytes> pages;
  std::map<PageName, std::optional<PageName>> parents;  ///< as stores said
  std::deque<Pending> pending;
  std::deque<TierCompletion> ended;
  size_t room = 1 << 20;     ///< pages that may be pending
  bool is_closed = false;    ///< refuses all calls as io
  bool ends_at_once = true;  ///< or when the test calls `end`
  TierOutcome load_outcome = TierOutcome::done, store_outcome = TierOutcome::done;
  int32_t lies_by = 0;  ///< what `find` adds to the truth
  uint32_t landed_extents = 0;
  std::ptrdiff_t seen_by = 0;  ///< from an address of a device to where the tier sees its bytes
  int64_t finds = 0, finds_of_each = 0, load_calls = 0, stored = 0;
  std::set<PageName> hopes;  ///< that `find_each` says are there, too
  int64_t stored_again = 0;  ///< that were there: no bytes were read
  LoadOrder last_order = LoadOrder::pages;

  int32_t find(std::span<const PageName> names) noexcept override {
    ++finds;
    int32_t found = 0;
    for (const PageName& name : names) {
      if (!pages.contains(name)) break;
      ++found;
    }
    return found + lies_by;
  }
  void find_each(std::span<const PageName> names, std::span<uint8_t> there) noexcept override {
    ++finds_of_each;
    for (size_t i = 0; i < names.size(); ++i)
      there[i] = pages.contains(names[i]) || hopes.contains(names[i]) ? 1 : 0;
  }
  Result<TierTicket> load(std::span<const TierPage> wanted, int64_t,
                          LoadOrder order) noexcept override {
    ++load_calls;
    last_order = order;
    return enqueue(wanted, true);
  }
  Result<TierTicket> store(std::span<const TierPage> given) noexcept override {
    return enqueue(given, false);
  }
  uint32_t landed(TierTicket) const noexcept override { return landed_extents; }
  Status drop(std::span<const PageName> names) noexcept override {
    for (const PageName& name : names) pages.erase(name);
    return {};
  }
  void cancel(TierTicket ticket) noexcept override {
    for (Pending& p : pending)
      if (p.completion.ticket == ticket) p.is_cancelled = true;
  }
  size_t poll(std::span<TierCompletion> completions) noexcept override {
    while (ends_at_once && !pending.empty()) end();
    const size_t count = std::min(completions.size(), ended.size());
    std::copy_n(ended.begin(), count, completions.begin());
    ended.erase(ended.begin(), ended.begin() + static_cast<long>(count));
    return count;
  }
  TierFigures figures() const noexcept override { return {}; }
  Status last_fault() const noexcept override { return {}; }

  /// Ends page `i` of those that are pending.
  void end(size_t i = 0) {
    Pending page = pending[i];
    pending.erase(pending.begin() + static_cast<long>(i));
    TierOutcome& outcome = page.completion.outcome;
    outcome = page.is_load ? load_outcome : store_outcome;
    if (page.is_cancelled) outcome = TierOutcome::cancelled;
    if (page.is_load && outcome == TierOutcome::done) outcome = read(page);
    if (!page.is_load && outcome == TierOutcome::done) write(page);
    ended.push_back(page.completion);
  }

 private:
  Result<TierTicket> enqueue(std::span<const TierPage> given, bool is_load) {
    if (is_closed) return fail(Errc::io, "ManualTier: closed");
    if (given.size() > room - std::min(room, pending.size()))
      return fail(Errc::busy, "ManualTier: full");
    const TierTicket ticket{++tickets_};
    for (uint32_t i = 0; i < given.size(); ++i)
      pending.push_back(
          {.completion = {ticket, i},
           .is_load = is_load,
           .name = given[i].name,
           .parent = given[i].parent == nullptr ? std::nullopt : std::optional(*given[i].parent),
           .extents = {given[i].extents.begin(), given[i].extents.end()}});
    return ticket;
  }
  TierOutcome read(const Pending& page) {
    const auto at = pages.find(page.name);
    if (at == pages.end()) return TierOutcome::missing;
    const std::byte* from = at->second.data();
    for (const Extent& e : page.extents) {
      std::memcpy(e.data + seen_by, from, static_cast<size_t>(e.bytes));
      from += e.bytes;
    }
    return TierOutcome::done;
  }
  void write(const Pending& page) {
    parents[page.name] = page.parent;
    if (pages.contains(page.name)) {
      ++stored_again;
      return;
    }
    Bytes& bytes = pages[page.name];
    for (const Extent& e : page.extents)
      bytes.insert(bytes.end(), e.data + seen_by, e.data + seen_by + e.bytes);
    ++stored;
  }

  uint64_t tickets_ = 0;
};

/// A clock that stands still unless it is told.
struct ManualClock {
  int64_t us = 1;
  static int64_t read(void* context) noexcept { return static_cast<ManualClock*>(context)->us; }
  ManagerClock clock() { return {.now_us = read, .context = this}; }
  void advance_ms(int64_t ms) { us += ms * 1000; }
};

}  // namespace folio::test
