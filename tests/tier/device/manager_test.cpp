// SPDX-License-Identifier: Apache-2.0
/// tests/tier/device/manager_test.cpp: a pool in a device's memory, whose pages go down to the
/// host and to a disk and come back.
#include <gtest/gtest.h>

#include <memory>

#include "folio/tier/host_tier.h"
#include "tier/device/unreachable_device.h"
#include "tier/disk/disk_fixture.h"
#include "tier/manager/pattern_engine.h"

namespace folio::test {
namespace {

constexpr int32_t num_pages = 12;

/// Prompts of one to five pages that share beginnings.
PatternEngine::Tokens random_prompt(Rng& rng) {
  PatternEngine::Tokens prompt;
  const int64_t tokens = rng.between(4, 5 * PatternEngine::page_size + 3);
  for (int64_t t = 0; t < tokens; ++t)
    prompt.push_back(t % PatternEngine::page_size == 2 ? rng.int_between(0, 1) : 7);
  return prompt;
}

void step(PatternEngine& engine, Rng& rng) {
  if (engine.living() < 4 && rng.chance(0.4)) {
    engine.admit(random_prompt(rng));
  } else if (engine.living() > 0) {
    const auto any = static_cast<size_t>(rng.next() % engine.living());
    if (rng.chance(0.6))
      engine.compute(any);
    else
      engine.release(any);
  }
  if (rng.chance(0.2)) engine.settle();
  engine.manager().poll();
}

TEST(CacheManagerOnDevice, serves_no_wrong_byte_while_pages_wander) {
  Rng rng(test_seed());
  const auto device =
      std::make_shared<UnreachableDevice>(int64_t{num_pages} * PatternEngine::page_bytes);
  const TemporaryFolder folder;
  const auto host =
      make_host_tier({.max_bytes = 16 * (PatternEngine::page_bytes + 128), .device = device})
          .value();
  const auto disk = make_disk_tier(folder.path(), {.max_bytes = 2 << 20, .device = device},
                                   {.segment_bytes = 1 << 20})
                        .value();
  {
    PatternEngine engine({.num_pages = num_pages,
                          .tiers = {{.tier = host.get(), .promotes = true}, {.tier = disk.get()}},
                          .manager = {.load_order = LoadOrder::extents},
                          .device = device->memory(),
                          .seen = device->seen()});
    for (int i = 0; i < 2000; ++i) {
      step(engine, rng);
      ASSERT_NO_FATAL_FAILURE(engine.check(true)) << "step " << i;
    }
    engine.finish();
    EXPECT_GT(engine.manager().counters(0).value().loaded_pages, 10);
    EXPECT_GT(engine.manager().counters(1).value().loaded_pages, 10);
  }
}

}  // namespace
}  // namespace folio::test
