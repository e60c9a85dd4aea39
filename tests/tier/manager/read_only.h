// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/read_only.h: prompts in a tier that can be read, and, some day, not written.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "tier/manager/pattern_engine.h"

namespace folio::test {

/// A manager that would store each new page. A single fault makes it leave the tier alone.
class ReadOnlyRounds {
 public:
  static constexpr int num_prompts = 12;
  static constexpr int32_t tokens = 32;  ///< of eight full pages

  explicit ReadOnlyRounds(Tier& tier)
      : engine_(
            {.num_pages = 24,
             .tiers = {{.tier = &tier, .policy = StorePolicy::write_through, .faults_to_rest = 1}},
             .manager = {.load_deadline_ms = 0, .store_deadline_ms = 0}}) {}

  /// All are in the tier.
  void store_all() {
    for (int p = 0; p < num_prompts; ++p) EXPECT_EQ(serve(1000 * p), 0);
    EXPECT_EQ(counters().stored_pages, 8 * num_prompts);
  }
  /// All come from the tier, although new ones are to be stored between them.
  TierCounters expect_all_loaded(int new_prompts = 1) {
    TokenId fresh = 1'000'000;
    for (int p = 0; p < num_prompts; ++p) {
      for (int i = 0; i < new_prompts; ++i) serve(fresh += 1000);
      EXPECT_EQ(serve(1000 * p), tokens) << "prompt " << p;
    }
    const TierCounters all = counters();
    EXPECT_EQ(all.load_rests, TierRests());
    engine_.finish();
    return all;
  }
  [[nodiscard]] TierCounters counters() { return engine_.manager().counters(0).value(); }

 private:
  /// Tokens of the prompt that came from the tier; memory has none.
  int32_t serve(TokenId first) {
    engine_.pool().clear().or_throw();
    EXPECT_NE(engine_.admit(count_from(first, tokens + 1)), nullptr);
    engine_.settle();
    const int32_t loaded = engine_.length(0);
    EXPECT_TRUE(engine_.compute(0));
    engine_.check();
    engine_.release(0);
    engine_.settle();
    return loaded;
  }

  PatternEngine engine_;
};

inline int64_t ended_as(const TierCounters& counters, TierOutcome outcome) {
  return counters.store_outcomes[static_cast<size_t>(outcome)];
}

}  // namespace folio::test
