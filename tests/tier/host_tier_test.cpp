// SPDX-License-Identifier: Apache-2.0
/// tests/tier/host_tier_test.cpp: pages in the host's memory.
#include "folio/tier/host_tier.h"

#include <gtest/gtest.h>

#include <memory>

#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

constexpr int64_t header = 128;

std::unique_ptr<Tier> make(int64_t max_bytes, Digest256 fingerprint = {}) {
  return make_host_tier({.max_bytes = max_bytes, .fingerprint = fingerprint}).value();
}

TEST(HostTier, gives_back_what_it_was_given) {
  const auto tier = make(1 << 20);
  PageMemory page({1, 4096, 77, 10'000}), back({1, 4096, 77, 10'000}), joined({14'174});
  page.fill(7);
  EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::missing);
  EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::done);
  EXPECT_EQ(back.memory(), page.memory());
  EXPECT_EQ(load(*tier, name_of(1), joined), TierOutcome::done) << "runs are the caller's business";
  EXPECT_EQ(load(*tier, name_of(2), back), TierOutcome::missing);
  EXPECT_EQ(tier->figures().bytes, 14'174 + header);
}

TEST(HostTier, takes_pages_of_another_size_or_model_for_corrupt) {
  const auto tier = make(1 << 20);
  PageMemory page({64}), longer({65});
  page.fill(7);
  EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  const std::vector<std::byte> before = longer.memory();
  EXPECT_EQ(load(*tier, name_of(1), longer), TierOutcome::corrupt);
  EXPECT_EQ(longer.memory(), before);
}

TEST(HostTier, keeps_its_bound_and_what_was_used_last) {
  const auto tier = make(3 * (100 + header));
  PageMemory page({100});
  for (uint32_t i = 0; i < 3; ++i) {
    page.fill(i);
    EXPECT_EQ(store(*tier, name_of(i), page), TierOutcome::done);
  }
  EXPECT_EQ(load(*tier, name_of(0), page), TierOutcome::done);
  EXPECT_EQ(store(*tier, name_of(3), page), TierOutcome::done);
  const PageName names[] = {name_of(0), name_of(3), name_of(2), name_of(1)};
  EXPECT_EQ(tier->find(names), 3) << "1 has gone";
  EXPECT_EQ(tier->figures().dropped_pages, 1);
  EXPECT_LE(tier->figures().bytes, 3 * (100 + header));
  PageMemory large({3 * (100 + header)});
  EXPECT_EQ(store(*tier, name_of(4), large), TierOutcome::full);
  EXPECT_EQ(tier->figures().pages, 3) << "nothing went for a page that cannot be kept";
}

TEST(HostTier, drops_what_it_is_told_to) {
  const auto tier = make(1 << 20);
  PageMemory page({100});
  EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  const PageName names[] = {name_of(2), name_of(1)};
  tier->drop(names).or_throw();
  EXPECT_EQ(load(*tier, name_of(1), page), TierOutcome::missing);
  EXPECT_EQ(tier->figures().bytes, 0);
}

}  // namespace
}  // namespace folio::test
