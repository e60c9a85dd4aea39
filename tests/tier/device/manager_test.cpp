// SPDX-License-Identifier: Apache-2.0
/// tests/tier/device/manager_test.cpp: a pool in a device's memory, whose pages go down to the
/// host and to a disk and come back.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "folio/tier/disk_tier.h"
#include "folio/tier/host_tier.h"
#include "support/temporary_folder.h"
#include "tier/device/unreachable_device.h"
#include "tier/manager/wandering.h"

namespace folio::test {
namespace {

constexpr int32_t num_pages = 12;

/// A pool of a device's memory over the host's, over a disk.
struct CacheManagerOnDevice : ::testing::Test {
  const std::shared_ptr<UnreachableDevice> device =
      std::make_shared<UnreachableDevice>(int64_t{num_pages} * PatternEngine::page_bytes);
  const TemporaryFolder folder;
  const std::unique_ptr<Tier> host =
      make_host_tier({.max_bytes = 16 * host_record_bytes(PatternEngine::page_bytes).value(),
                      .device = device})
          .value();
  const std::unique_ptr<Tier> disk =
      make_disk_tier(folder.path(), {.max_bytes = 2 << 20, .device = device},
                     {.segment_bytes = 1 << 20})
          .value();
  PatternEngine engine{
      {.num_pages = num_pages,
       .tiers = {{.tier = host.get(), .promotes = true, .first_rest_ms = 1, .longest_rest_ms = 2},
                 {.tier = disk.get(), .first_rest_ms = 1, .longest_rest_ms = 2}},
       .manager = {.load_order = LoadOrder::extents, .device = device},
       .device = device->memory(),
       .seen = device->seen()}};
  Rng rng{test_seed()};

  [[nodiscard]] TierCounters counters(size_t tier) {
    return engine.manager().counters(tier).value();
  }
};

TEST_F(CacheManagerOnDevice, serves_no_wrong_byte_while_pages_wander) {
  wander(engine, rng, 2000, true);
  if (HasFatalFailure()) return;
  engine.finish();
  EXPECT_GT(counters(0).loaded_pages, 10);
  EXPECT_GT(counters(1).loaded_pages, 10);
}

TEST_F(CacheManagerOnDevice, serves_no_wrong_byte_while_copies_fail) {
  std::optional<StepTicket> step;  // of a sequence that gets copies, if it shares pages
  for (int i = 0; i < 3000; ++i) {
    if (step && rng.chance(0.3)) {
      engine.pool().end_step(*step).or_throw();
      step.reset();
    } else if (!step && engine.living() != 0 && rng.chance(0.3)) {
      const SequenceId id = engine.id(engine.living() - 1);
      step = engine.pool().begin_step({&id, 1}).value();
    }
    if (rng.chance(0.1)) {
      device->good_copies = rng.int_between(0, 3);
      device->failing_copies = rng.int_between(1, 3);
    }
    if (rng.chance(0.1))  // the second one often waits for the first one's load
      for (const auto& prompt : std::vector(2, random_prompt(rng))) engine.admit(prompt);
    wander(engine, rng, 1, true);
    ASSERT_FALSE(HasFatalFailure()) << "call " << i;
  }
  if (step) engine.pool().end_step(*step).or_throw();
  device->failing_copies = 0;
  engine.finish();
  constexpr auto failed = static_cast<size_t>(TierOutcome::failed);
  for (const size_t tier : {0U, 1U}) {
    EXPECT_GT(counters(tier).loaded_pages, 10);
    EXPECT_GT(counters(tier).load_outcomes[failed], 0);
  }
  EXPECT_GT(engine.manager().figures().shared_pages, 0);
}

}  // namespace
}  // namespace folio::test
