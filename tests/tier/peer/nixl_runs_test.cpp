// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/nixl_runs_test.cpp: runs as bytes and back.
#include "tier/peer/nixl/nixl_runs.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tier/peer/transport_helpers.h"

namespace folio::test {
namespace {

std::vector<std::byte> encoded(const std::vector<RegionRun>& runs) {
  std::vector<std::byte> bytes;
  tier::put_runs(runs, &bytes);
  return bytes;
}

TEST(NixlRuns, come_back_as_they_were) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  std::vector<RegionRun> runs = {{RegionId{1}, 0, 1},
                                 {RegionId{0xffffffffU}, most, most},
                                 {RegionId{}, std::numeric_limits<int64_t>::min(), -1},
                                 {RegionId{7}, 4096, 0}};
  Rng rng(test_seed());
  for (int i = 0; i < 1000; ++i)
    runs.push_back({RegionId{static_cast<uint32_t>(rng.between(1, 3))}, rng.between(0, most / 2),
                    rng.chance(0.5) ? 16'384 : rng.between(1, most / 2)});
  std::vector<std::byte> bytes = encoded(runs);
  tier::put_runs({}, &bytes);
  std::span<const std::byte> rest = bytes;
  EXPECT_EQ(tier::take_runs(&rest).value(), runs);
  EXPECT_TRUE(tier::take_runs(&rest).value().empty());
  EXPECT_TRUE(rest.empty());
  EXPECT_FALSE(tier::take_runs(&rest));
}

TEST(NixlRuns, take_few_bytes_for_pages) {
  std::vector<RegionRun> runs;
  for (int64_t i = 0; i < 4096; ++i)
    runs.push_back({RegionId{1}, i * 2049 % 4096 * 16'384, 16'384});
  EXPECT_LT(encoded(runs).size(), runs.size() * 6);
}

TEST(NixlRuns, refuse_what_is_cut_or_claims_too_much) {
  const std::vector<RegionRun> runs = {{RegionId{300}, 1000, 5000}, {RegionId{2}, 10, 70'000}};
  const std::vector<std::byte> bytes = encoded(runs);
  for (size_t size = 0; size < bytes.size(); ++size) {
    std::span<const std::byte> cut = std::span(bytes).first(size);
    EXPECT_FALSE(tier::take_runs(&cut)) << size;
  }
  const std::vector<std::byte> many(9, std::byte{0xff});
  std::span<const std::byte> rest = many;
  EXPECT_FALSE(tier::take_runs(&rest));
  Rng rng(test_seed());
  for (int i = 0; i < 10'000; ++i) {  // any bytes: an answer, and no more runs than they can be
    std::vector<std::byte> random(static_cast<size_t>(rng.between(0, 40)));
    fill(random, rng);
    std::span<const std::byte> left = random;
    if (const auto taken = tier::take_runs(&left)) {
      EXPECT_LE(taken->size(), random.size());
    }
  }
}

}  // namespace
}  // namespace folio::test
