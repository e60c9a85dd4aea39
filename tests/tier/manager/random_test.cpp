// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/random_test.cpp: a small pool over small tiers, so that pages go down and
/// come back all the time, whatever the tiers do.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "folio/tier/disk_tier.h"
#include "folio/tier/host_tier.h"
#include "support/temporary_folder.h"
#include "tier/manager/slow_medium.h"
#include "tier/manager/unreliable_tier.h"
#include "tier/manager/wandering.h"
#include "tier/queued_tier.h"

namespace folio::test {
namespace {

struct Sums {
  int64_t loaded[3] = {}, lost = 0, shared = 0, unstored = 0, rests = 0, early_looks = 0;
};

/// A pool of 12 pages over 16 pages of the host's memory, a directory, and a medium that does
/// everything wrong, or one that is slow.
void one_round(Rng& rng, const std::string& path, bool is_honest, Sums& sums) {
  const auto host =
      make_host_tier({.max_bytes = 16 * host_record_bytes(PatternEngine::page_bytes).value()})
          .value();
  const auto disk =
      make_disk_tier(path, {.max_bytes = 2 << 20}, {.segment_bytes = 1 << 20}).value();
  std::unique_ptr<tier::Medium> medium;
  if (is_honest)
    medium = std::make_unique<SlowMedium>();
  else
    medium = std::make_unique<UnreliableMedium>(rng.next());
  const auto third = tier::QueuedTier::create(std::move(medium),
                                              {.max_queued_pages = 6, .threads = 2, .max_bytes = 1})
                         .value();
  std::vector<TierOfCache> tiers = {randomly(*host, rng), randomly(*disk, rng)};
  tiers.insert(tiers.begin() + rng.between(0, 2), randomly(*third, rng));
  PatternEngine engine(
      {.num_pages = 12,
       .tiers = tiers,
       .max_io_pins = static_cast<uint32_t>(rng.between(4, 16)),
       .min_partial_tokens = rng.int_between(0, 2),
       .manager = {.load_deadline_ms = is_honest ? 0 : 20 * rng.between(0, 2),
                   .store_deadline_ms = is_honest ? 0 : 20 * rng.between(0, 2),
                   .min_load_pages = rng.chance(0.2) ? 2 : 1,
                   .load_order = rng.chance(0.5) ? LoadOrder::extents : LoadOrder::pages,
                   .spare_pages = rng.int_between(1, 2)}});
  wander(engine, rng, 160, is_honest);
  if (::testing::Test::HasFatalFailure()) return;
  engine.finish();
  for (size_t t = 0; t < tiers.size(); ++t) {
    const TierCounters counters = engine.manager().counters(t).value();
    const size_t kind = tiers[t].tier == host.get() ? 0 : tiers[t].tier == disk.get() ? 1 : 2;
    sums.loaded[kind] += counters.loaded_pages;
    sums.lost += counters.lost_pages;
    for (const TierRests& rests : {counters.load_rests, counters.store_rests})
      for (const int64_t begun : rests.begun) sums.rests += begun;
    ASSERT_EQ(counters.loading_pages, 0);
    ASSERT_EQ(counters.storing_pages + counters.waiting_pages, 0);
    ASSERT_EQ(counters.store_bytes, 0);
  }
  sums.unstored += engine.manager().figures().unstored_pages;
  sums.shared += engine.manager().figures().shared_pages;
  sums.early_looks += engine.early_looks();
}

TEST(CacheManagerRandom, serves_no_wrong_byte_while_pages_wander_between_tiers) {
  Rng rng(test_seed());
  const TemporaryFolder folder;
  Sums sums;
  for (int round = 0; round < 50; ++round)
    ASSERT_NO_FATAL_FAILURE(one_round(rng, folder.path(), true, sums)) << "round " << round;
  for (const int64_t loaded : sums.loaded) EXPECT_GT(loaded, 0);
  EXPECT_GT(sums.shared, 0);
  EXPECT_GT(sums.early_looks, 0);
}

TEST(CacheManagerRandom, serves_no_wrong_byte_beside_a_tier_that_fails_and_lies) {
  Rng rng(test_seed());
  const TemporaryFolder folder;
  Sums sums;
  for (int round = 0; round < 200; ++round)
    ASSERT_NO_FATAL_FAILURE(one_round(rng, folder.path(), false, sums)) << "round " << round;
  for (const int64_t loaded : sums.loaded) EXPECT_GT(loaded, 10);
  EXPECT_GT(sums.lost, 10);
  EXPECT_GT(sums.unstored, 10);
  EXPECT_GT(sums.rests, 0);
}

}  // namespace
}  // namespace folio::test
