// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/groups_random_test.cpp: hybrid models over small tiers, so that pages of all
/// groups go down and come back all the time, whatever the tiers do.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "folio/tier/disk_tier.h"
#include "folio/tier/host_tier.h"
#include "support/rounds.h"
#include "support/temporary_folder.h"
#include "tier/manager/group_engine.h"
#include "tier/manager/groups_rounds.h"
#include "tier/manager/slow_medium.h"
#include "tier/manager/unreliable_tier.h"
#include "tier/manager/wandering.h"
#include "tier/queued_tier.h"

namespace folio::test {
namespace {

struct Sums {
  int64_t loaded[3] = {}, lost = 0, unstored = 0, early_looks = 0, shared = 0;

  [[nodiscard]] bool has_loaded_from_all() const {
    return std::ranges::all_of(loaded, [](int64_t pages) { return pages > 0; });
  }
};

void one_round(const ModelShape& model, Rng& rng, const std::string& path, bool is_honest,
               Sums& sums) {
  const int64_t bytes = most_page_bytes(model);
  const auto host = make_host_tier({.max_bytes = 40 * host_record_bytes(bytes).value()}).value();
  const auto disk =
      make_disk_tier(path, {.max_bytes = 2 << 20}, {.segment_bytes = 1 << 20}).value();
  std::unique_ptr<tier::Medium> medium;
  if (is_honest)
    medium = std::make_unique<SlowMedium>();
  else
    medium = std::make_unique<UnreliableMedium>(rng.next());
  const auto third = tier::QueuedTier::create(
                         std::move(medium), {.max_queued_pages = 40, .threads = 2, .max_bytes = 1})
                         .value();
  std::vector<TierOfCache> tiers = {randomly(*host, rng), randomly(*disk, rng)};
  tiers.insert(tiers.begin() + rng.between(0, 2), randomly(*third, rng));
  for (TierOfCache& tier : tiers) tier.max_store_bytes = rng.between(4, 40) * bytes;
  GroupEngine engine(
      {.model = model,
       .pages = few_pages(model),
       .tiers = tiers,
       .max_io_pins = static_cast<uint32_t>(rng.between(8, 64)),
       .min_partial_tokens = rng.int_between(0, 2),
       .hit_interval = GroupEngine::page_size * rng.int_between(0, 4),
       .manager = {.load_deadline_ms = is_honest ? 0 : 20 * rng.between(0, 2),
                   .store_deadline_ms = is_honest ? 0 : 20 * rng.between(0, 2),
                   .min_load_pages = rng.chance(0.2) ? 2 : 1,
                   .load_order = rng.chance(0.5) ? LoadOrder::extents : LoadOrder::pages,
                   .spare_pages = rng.int_between(1, 2)}});
  for (int i = 0; i < 160; ++i) {
    call(engine, rng);
    ASSERT_NO_FATAL_FAILURE(engine.check(is_honest)) << "call " << i;
  }
  engine.finish();
  for (size_t t = 0; t < tiers.size(); ++t) {
    const TierCounters counters = engine.manager().counters(t).value();
    const size_t kind = tiers[t].tier == host.get() ? 0 : tiers[t].tier == disk.get() ? 1 : 2;
    sums.loaded[kind] += counters.loaded_pages;
    sums.lost += counters.lost_pages;
    expect_counted(counters);
  }
  sums.unstored += engine.manager().figures().unstored_pages;
  sums.early_looks += engine.early_looks();
  sums.shared += engine.manager().figures().shared_pages;
}

/// Each has what four rounds have written.
std::string directory(const TemporaryFolder& folder, int round) {
  return folder.path() + "/" + std::to_string(round / 4);
}

class CacheManagerGroups : public ::testing::TestWithParam<ModelShape> {};

TEST_P(CacheManagerGroups, serve_no_wrong_byte_while_pages_wander_between_tiers) {
  Rng rng(test_seed());
  const TemporaryFolder folder;
  Sums sums;
  const int rounds = share_of_rounds(40);
  const auto has_seen_all = [&] {
    return sums.has_loaded_from_all() && sums.early_looks > 0 && sums.shared > 0;
  };
  for (int round = 0; is_due(round, rounds, has_seen_all()); ++round)
    ASSERT_NO_FATAL_FAILURE(one_round(GetParam(), rng, directory(folder, round), true, sums))
        << "round " << round;
  EXPECT_TRUE(sums.has_loaded_from_all());
  EXPECT_GT(sums.early_looks, 0);
  EXPECT_GT(sums.shared, 0);
}

TEST_P(CacheManagerGroups, serve_no_wrong_byte_beside_a_tier_that_fails_and_lies) {
  Rng rng(test_seed());
  const TemporaryFolder folder;
  Sums sums;
  const int rounds = share_of_rounds(40);
  const auto has_seen_all = [&] {
    return sums.has_loaded_from_all() && sums.lost > 0 && sums.unstored > 0;
  };
  for (int round = 0; is_due(round, rounds, has_seen_all()); ++round)
    ASSERT_NO_FATAL_FAILURE(one_round(GetParam(), rng, directory(folder, round), false, sums))
        << "round " << round;
  EXPECT_TRUE(sums.has_loaded_from_all());
  EXPECT_GT(sums.lost, 0);
  EXPECT_GT(sums.unstored, 0);
}

INSTANTIATE_TEST_SUITE_P(Shapes, CacheManagerGroups, ::testing::ValuesIn(model_shapes()),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace folio::test
