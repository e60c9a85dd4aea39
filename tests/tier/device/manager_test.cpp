// SPDX-License-Identifier: Apache-2.0
/// tests/tier/device/manager_test.cpp: a pool in a device's memory, whose pages go down to the
/// host and to a disk and come back.
#include <gtest/gtest.h>

#include <memory>

#include "folio/tier/host_tier.h"
#include "tier/device/unreachable_device.h"
#include "tier/disk/disk_fixture.h"
#include "tier/manager/wandering.h"

namespace folio::test {
namespace {

constexpr int32_t num_pages = 12;

TEST(CacheManagerOnDevice, serves_no_wrong_byte_while_pages_wander) {
  Rng rng(seed_of_run());
  const auto device =
      std::make_shared<UnreachableDevice>(int64_t{num_pages} * PatternEngine::page_bytes);
  const TemporaryFolder folder;
  const auto host =
      make_host_tier({.max_bytes = 16 * (PatternEngine::page_bytes + 128), .device = device})
          .value();
  const auto disk = make_disk_tier(folder.path(), {.max_bytes = 2 << 20, .device = device},
                                   {.segment_bytes = 1 << 20})
                        .value();
  PatternEngine engine({.num_pages = num_pages,
                        .tiers = {{.tier = host.get(), .promotes = true}, {.tier = disk.get()}},
                        .manager = {.load_order = LoadOrder::extents, .device = device},
                        .device = device->memory(),
                        .seen = device->seen()});
  wander(engine, rng, 2000, true);
  if (HasFatalFailure()) return;
  engine.finish();
  EXPECT_GT(engine.manager().counters(0).value().loaded_pages, 10);
  EXPECT_GT(engine.manager().counters(1).value().loaded_pages, 10);
}

}  // namespace
}  // namespace folio::test
