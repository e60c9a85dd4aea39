// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/borrower.h: an engine that loads prompts from another one's pool, which has
/// computed them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "folio/tier/peer_tier.h"
#include "support/comes_true.h"
#include "tier/manager/pattern_engine.h"

namespace folio::test {

inline constexpr int32_t lent_prompts = 4, pages_of_prompt = 24;
inline constexpr uint32_t pages_of_prompts = lent_prompts * pages_of_prompt;

inline PatternEngine::Tokens lent_prompt(int32_t i) {
  return count_from(1000 * (i + 1), pages_of_prompt * PatternEngine::page_size + 1);
}

class Borrower {
 public:
  Borrower(std::unique_ptr<Transport> transport, std::span<const std::byte> address)
      : tier_(make_peer_tier(std::move(transport), address, {.max_bytes = 1},
                             {.timeout_ms = no_deadline_ms})
                  .value()),
        engine_({.num_pages = 2 * pages_of_prompts,
                 .tiers = {{.tier = tier_.get(), .policy = StorePolicy::none}},
                 .max_io_pins = 2 * pages_of_prompts,
                 .manager = {.load_deadline_ms = 0}}) {}
  /// All prompts' pages.
  [[nodiscard]] bool finds_all() {
    for (const std::vector<PageName>& names : names_of_prompts())
      if (tier_->find(names) != pages_of_prompt) return false;
    return true;
  }
  /// Of prompts that have been released.
  void begin() {
    for (int32_t i = 0; i < lent_prompts; ++i) {
      const TieredAdmission* const admission = engine_.admit(lent_prompt(i));
      ASSERT_NE(admission, nullptr);
      begun_ += admission->loading_tokens / PatternEngine::page_size;
    }
  }
  /// False: nothing is on its way.
  [[nodiscard]] bool is_loading() {
    engine_.manager().poll();
    for (size_t i = 0; i < engine_.living(); ++i)
      if (engine_.load_state(i) == LoadState::loading) return true;
    return false;
  }
  /// What has not come is computed; all bytes are right then. The pool is empty behind that.
  void finish() {
    for (size_t i = 0; i < engine_.living(); ++i) EXPECT_TRUE(engine_.compute(i));
    engine_.check();
    engine_.finish();
  }
  /// Pages that were to come.
  [[nodiscard]] int64_t begun() const { return begun_; }
  [[nodiscard]] int64_t lost() { return engine_.manager().counters(0).value().lost_pages; }
  /// Each of them has come or is lost, to the manager as to the tier.
  void expect_all_counted() {
    const TierCounters counters = engine_.manager().counters(0).value();
    const TierFigures figures = tier_->figures();
    EXPECT_EQ(counters.loaded_pages + counters.lost_pages, begun_);
    EXPECT_EQ(counters.loading_pages, 0);
    EXPECT_EQ(figures.queued_pages, 0);
    int64_t ended = 0;
    for (size_t i = 0; i < num_tier_outcomes; ++i) {
      EXPECT_EQ(figures.load_outcomes[i], counters.load_outcomes[i]) << i;
      ended += figures.load_outcomes[i];
    }
    EXPECT_EQ(ended, begun_);
    EXPECT_EQ(figures.load_outcomes[static_cast<size_t>(TierOutcome::corrupt)], 0);
  }

 private:
  static const std::vector<std::vector<PageName>>& names_of_prompts() {
    static const std::vector<std::vector<PageName>> all = [] {
      std::vector<std::vector<PageName>> names(lent_prompts);
      PatternEngine engine({.num_pages = 2 * pages_of_prompts});
      for (int32_t i = 0; i < lent_prompts; ++i) {
        EXPECT_NE(engine.admit(lent_prompt(i)), nullptr);
        EXPECT_TRUE(engine.compute(0));
        for (int32_t page = 0; page < pages_of_prompt; ++page)
          names[static_cast<size_t>(i)].push_back(engine.pool().name(engine.id(0), page).value());
        engine.release(0);
      }
      return names;
    }();
    return all;
  }

  std::unique_ptr<Tier> tier_;
  PatternEngine engine_;
  int64_t begun_ = 0;
};

}  // namespace folio::test
