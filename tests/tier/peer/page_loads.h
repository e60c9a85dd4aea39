// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/page_loads.h: a page server whose pages are known, and a client that looks at
/// every byte that comes and counts every end.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "folio/tier/peer_tier.h"
#include "support/comes_true.h"
#include "support/random.h"
#include "tier/peer/pattern.h"
#include "tier/tier_helpers.h"

namespace folio::test {

inline constexpr uint32_t known_pages = 48;  ///< that the server has from the beginning
inline constexpr uint32_t stored_pages = 8;  ///< behind them: of clients
inline constexpr uint32_t all_pages = known_pages + stored_pages;
inline constexpr int64_t most_page_bytes = 40'333;

inline std::vector<int64_t> runs_of(uint32_t page) { return {1 + page * 7919 % 40'000, 333}; }

/// Filled once.
inline const std::vector<PageMemory>& filled_pages() {
  static const std::vector<PageMemory> pages = [] {
    std::vector<PageMemory> made;
    for (uint32_t page = 0; page < all_pages; ++page) {
      made.emplace_back(runs_of(page));
      for (const Extent& e : made.back().extents())
        fill_pattern({e.data, static_cast<size_t>(e.bytes)}, page);
    }
    return made;
  }();
  return pages;
}

inline PageServerOptions options_of_server() {
  return {.max_bytes = all_pages * most_page_bytes,
          .page_bytes = most_page_bytes,
          .lease_ms = no_deadline_ms};
}

inline void put_known_pages(PageServer& server) {
  for (uint32_t page = 0; page < known_pages; ++page)
    EXPECT_TRUE(server.put(name_of(page), filled_pages()[page].extents()).is_ok());
}

/// A tier over a page server. Pages lie in slots of one memory, with bytes around them that nobody
/// may touch.
class PageLoader {
 public:
  using Outcomes = std::array<int64_t, num_tier_outcomes>;
  /// Whether that memory is a region of the transport's, or bytes go by way of a copy.
  enum class Memory : uint8_t { registered, elsewhere };

  PageLoader(std::unique_ptr<Transport> transport, std::span<const std::byte> address,
             Memory memory, uint64_t seed)
      : rng_(seed), memory_(all_pages * slot_bytes, untouched) {
    const std::span<std::byte> spans[] = {memory_};
    PeerTierOptions options{.timeout_ms = no_deadline_ms};
    if (memory == Memory::registered) options.memory = spans;
    tier_ = make_peer_tier(std::move(transport), address, {.max_bytes = 1}, options).value();
  }
  [[nodiscard]] Tier& tier() { return *tier_; }
  [[nodiscard]] int64_t begun() const { return begun_; }
  [[nodiscard]] int64_t ended() const { return begun_ - std::ssize(pending_); }
  [[nodiscard]] bool has_stored() const { return has_stored_; }
  [[nodiscard]] int64_t wrong() const { return wrong_; }
  [[nodiscard]] size_t pending() const { return pending_.size(); }
  [[nodiscard]] const Outcomes& loads() const { return loads_; }
  [[nodiscard]] const Outcomes& stores() const { return stores_; }
  [[nodiscard]] int64_t done() const { return loads_[static_cast<size_t>(TierOutcome::done)]; }
  [[nodiscard]] bool finds_all() { return found() == static_cast<int32_t>(known_pages); }
  [[nodiscard]] bool finds_none() { return found() == 0; }

  /// Some of the first `among` pages, those that are loaded already left out.
  void load_some(uint32_t among = known_pages) {
    std::vector<TierPage> pages;
    std::vector<uint32_t> drawn;
    const auto wanted = static_cast<size_t>(rng_.between(1, 24));
    for (uint32_t i = 0; i < 2 * among && drawn.size() < wanted; ++i) {
      const auto page = static_cast<uint32_t>(rng_.between(0, among - 1));
      if (!loading_.insert(page).second) continue;
      const auto slot = slot_of(page);
      std::fill(slot.begin(), slot.end(), untouched);
      drawn.push_back(page);
    }
    if (drawn.empty()) return;
    std::vector<std::array<Extent, 2>> extents;
    for (const uint32_t page : drawn) extents.push_back(extents_of(page));
    for (size_t i = 0; i < drawn.size(); ++i) pages.push_back({name_of(drawn[i]), extents[i]});
    const LoadOrder order = rng_.chance(0.5) ? LoadOrder::pages : LoadOrder::extents;
    begin(tier_->load(pages, 0, order).value(), drawn, true);
  }
  /// Those that the server has not from the beginning.
  void store_some() {
    std::vector<TierPage> pages;
    std::vector<uint32_t> drawn;
    for (uint32_t page = known_pages; page < all_pages; ++page) {
      drawn.push_back(page);
      pages.push_back({name_of(page), filled_pages()[page].extents()});
    }
    begin(tier_->store(pages).value(), drawn, false);
    has_stored_ = true;
  }
  /// Takes what has ended. True: nothing is under way.
  bool look() {
    TierCompletion ends[16];
    const size_t count = tier_->poll(ends);
    for (const TierCompletion& end : std::span(ends).first(count)) take(end);
    return pending_.empty();
  }

  /// The tier's statistics tell of each page what has been seen here.
  void expect_all_counted() {
    const TierFigures figures = tier_->figures();
    int64_t ended = 0;
    for (size_t i = 0; i < loads_.size(); ++i) {
      EXPECT_EQ(figures.load_outcomes[i], loads_[i]) << i;
      EXPECT_EQ(figures.store_outcomes[i], stores_[i]) << i;
      ended += loads_[i] + stores_[i];
    }
    EXPECT_EQ(ended, begun_) << "each page ends once";
    EXPECT_EQ(figures.loaded_pages, done());
    EXPECT_EQ(figures.queued_pages, 0);
    EXPECT_EQ(figures.queued_bytes, 0);
  }

 private:
  static constexpr std::byte untouched{0xee};
  static constexpr int64_t gap = 61;
  static constexpr size_t slot_bytes = most_page_bytes + 3 * gap;
  /// Pages of a call that have not ended.
  using Key = std::pair<uint64_t, uint32_t>;
  struct Begun {
    uint32_t page = 0;
    bool is_load = false;
  };

  [[nodiscard]] int32_t found() {
    std::vector<PageName> names;
    for (uint32_t page = 0; page < known_pages; ++page) names.push_back(name_of(page));
    return tier_->find(names);
  }
  void begin(TierTicket ticket, std::span<const uint32_t> drawn, bool is_load) {
    for (uint32_t i = 0; i < drawn.size(); ++i) pending_[{ticket.value, i}] = {drawn[i], is_load};
    begun_ += std::ssize(drawn);
  }
  void take(const TierCompletion& end) {
    const auto found = pending_.find({end.ticket.value, end.page});
    ASSERT_NE(found, pending_.end()) << "it has ended before";
    const Begun begun = found->second;
    pending_.erase(found);
    ++(begun.is_load ? loads_ : stores_)[static_cast<size_t>(end.outcome)];
    if (!begun.is_load) return;
    loading_.erase(begun.page);
    wrong_ += is_right(begun.page, end.outcome) ? 0 : 1;
  }
  [[nodiscard]] std::span<std::byte> slot_of(uint32_t page) {
    return std::span(memory_).subspan(page * slot_bytes, slot_bytes);
  }
  [[nodiscard]] std::array<Extent, 2> extents_of(uint32_t page) {
    const std::vector<int64_t> runs = runs_of(page);
    std::byte* const at = slot_of(page).data() + gap;
    return {Extent{at, runs[0]}, Extent{at + runs[0] + gap, runs[1]}};
  }
  /// All bytes of a page that is done, and those around any.
  [[nodiscard]] bool is_right(uint32_t page, TierOutcome outcome) {
    const std::array<Extent, 2> extents = extents_of(page);
    const std::span<std::byte> slot = slot_of(page);
    const std::byte* at = slot.data();
    const auto is_gap = [&](const std::byte* end) {
      return std::all_of(at, end, [](std::byte b) { return b == untouched; });
    };
    for (size_t i = 0; i < extents.size(); ++i) {
      const auto& [data, bytes] = extents[i];
      if (!is_gap(data)) return false;
      if (outcome == TierOutcome::done &&
          !std::equal(data, data + bytes, filled_pages()[page].extents()[i].data))
        return false;
      at = data + bytes;
    }
    return is_gap(slot.data() + slot.size());
  }

  Rng rng_;
  std::vector<std::byte> memory_;
  std::unique_ptr<Tier> tier_;
  std::map<Key, Begun> pending_;
  std::set<uint32_t> loading_;
  Outcomes loads_ = {}, stores_ = {};
  int64_t begun_ = 0, wrong_ = 0;
  bool has_stored_ = false;
};

}  // namespace folio::test
