// SPDX-License-Identifier: Apache-2.0
/// tests/cli/tiers/tier_pace_test.cpp: what a replay finds does not depend on how far its tiers are
/// when it looks: tiers end pages a few at a time, or all at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "replay/replay.h"
#include "support/random.h"
#include "tier/manager/manual_tier.h"
#include "tiers/tier_media.h"

namespace folio::cli {
namespace {

/// Pages that a tier ends whenever somebody looks at it.
using Paces = std::array<int, num_tiers>;
constexpr int at_once = std::numeric_limits<int>::max();
Paces paces;  // of the next replay

class PacedTier final : public Tier {
 public:
  explicit PacedTier(int pages_a_look) : pages_a_look_(pages_a_look) { tier_.ends_at_once = false; }

  int32_t find(std::span<const PageName> names) noexcept override { return tier_.find(names); }
  Result<TierTicket> load(std::span<const TierPage> pages, int64_t deadline_ms,
                          LoadOrder order) noexcept override {
    return tier_.load(pages, deadline_ms, order);
  }
  Result<TierTicket> store(std::span<const TierPage> pages) noexcept override {
    return tier_.store(pages);
  }
  uint32_t landed(TierTicket ticket) const noexcept override { return tier_.landed(ticket); }
  Status drop(std::span<const PageName> names) noexcept override { return tier_.drop(names); }
  void cancel(TierTicket ticket) noexcept override { tier_.cancel(ticket); }
  size_t poll(std::span<TierCompletion> completions) noexcept override {
    work();
    return tier_.poll(completions);
  }
  TierFigures figures() const noexcept override {
    work();
    return figures_;
  }
  Status last_fault() const noexcept override { return tier_.last_fault(); }

 private:
  void work() const {
    for (int i = 0; i < pages_a_look_ && !tier_.pending.empty(); ++i) {
      const bool is_load = tier_.pending.front().is_load;
      tier_.end();
      const auto outcome = static_cast<size_t>(tier_.ended.back().outcome);
      ++(is_load ? figures_.load_outcomes : figures_.store_outcomes)[outcome];
    }
  }

  mutable test::ManualTier tier_;
  mutable TierFigures figures_;
  int pages_a_look_;
};

/// Some prefixes that requests share, and ends of their own.
std::vector<TraceRequest> random_requests(std::mt19937& rng) {
  std::vector<TraceRequest> trace;
  for (int i = 0; i < 20; ++i) {
    const auto blocks = static_cast<int32_t>(rng() % 4 + 1);
    TraceRequest request;
    request.line = i + 1;
    request.input_length = blocks * mooncake_tokens_per_block -
                           static_cast<int32_t>(rng() % mooncake_tokens_per_block);
    request.output_length = static_cast<int32_t>(rng() % 20);
    request.hash_ids = {static_cast<int32_t>(rng() % 2)};
    for (int32_t block = 1; block < blocks; ++block)
      request.hash_ids.push_back(4 * request.hash_ids.back() + static_cast<int32_t>(rng() % 2) + 2);
    trace.push_back(std::move(request));
  }
  return trace;
}

/// What a replay counts, as a row.
std::vector<int64_t> counts(const ReplayOptions& options, std::span<const TraceRequest> trace,
                            Paces of_tiers) {
  paces = of_tiers;
  const auto figures = replay_steps(options, trace);
  EXPECT_TRUE(figures.has_value()) << figures.error().message();
  if (!figures) return {};
  const TokensBySource& tokens = figures->tiers->tokens;
  std::vector<int64_t> row = {tokens.memory, tokens.computed, figures->pool.hit_tokens,
                              figures->pool.hit_pages, figures->pool.evicted_pages};
  for (size_t t = 0; t < num_tiers; ++t) {
    const OneTier& tier = figures->tiers->tiers[t];
    row.insert(row.end(), {tokens.tiers[t], tier.promoted_pages});
    for (const ReasonCounts* reasons : {&tier.load_outcomes, &tier.store_outcomes})
      for (const auto& [reason, pages] : *reasons) row.push_back(pages);
  }
  return row;
}

/// Pages that are cached as their stores end, not tail first, were evicted in another order.
TEST(TierPace, a_replay_finds_the_same_whenever_pages_end) {
  // not page by page: after each look the replay lets others have the core
  constexpr std::array<Paces, 4> others = {Paces{16, 16}, Paces{16, at_once}, Paces{at_once, 16},
                                           Paces{40, 24}};
  std::mt19937 rng(static_cast<uint32_t>(test::test_seed()));
  for (const StoreWhen store : {StoreWhen::write_back, StoreWhen::write_through}) {
    for (const bool promotes : {false, true}) {
      const auto trace = random_requests(rng);
      ReplayOptions options;
      options.model.sizes = find_model(options.model.name).value();
      options.compute = Compute::none;
      options.output.quiet = true;
      options.steps.max_batch = 4;
      options.cache.pages = 4 * mooncake_tokens_per_block / options.model.page_size + 20;
      options.tiers.host_bytes = 1;
      options.tiers.disk = "here";
      options.tiers.store = store;
      options.tiers.promotes = promotes;
      options.tiers.payload_bytes = options.model.page_size;
      const std::vector<int64_t> expected = counts(options, trace, {at_once, at_once});
      for (const Paces& other : others)
        EXPECT_EQ(counts(options, trace, other), expected)
            << name(store) << (promotes ? ", promoted" : "") << ", " << other[0] << " and "
            << other[1] << " pages a look";
    }
  }
}

}  // namespace

/// In the place of the tool's, both.
void choose_payloads(const TierChoice& choice, std::span<PageKind> kinds) {
  for (PageKind& page : kinds) page.payload_bytes = choice.payload_bytes;
}
Result<MadeTier> make_tier(TierKind kind, const TierChoice& choice, const TierTask&) {
  const bool is_chosen = kind == TierKind::host ? choice.host_bytes != 0
                                                : kind == TierKind::disk && !choice.disk.empty();
  if (!is_chosen) return MadeTier{};
  return MadeTier{std::make_unique<PacedTier>(paces[static_cast<size_t>(kind)]), 0, "test"};
}

}  // namespace folio::cli
