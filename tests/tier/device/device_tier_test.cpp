// SPDX-License-Identifier: Apache-2.0
/// tests/tier/device/device_tier_test.cpp: tiers of pages in a device's memory, which they never
/// touch: a host tier, and one that has each page copied to the host first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "folio/tier/host_tier.h"
#include "tier/device/unreachable_device.h"
#include "tier/disk/disk_fixture.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t device_bytes = 1 << 20, page_bytes = 5 * 4096 + 7;

enum class Kind { host, disk };

class DeviceTier : public ::testing::TestWithParam<Kind> {
 protected:
  std::unique_ptr<Tier> make(int64_t max_bytes = 8 << 20) {
    const TierOptions options{.max_bytes = max_bytes, .device = device_};
    if (GetParam() == Kind::host) return make_host_tier(options).value();
    return make_disk_tier(folder_.path(), options, {.segment_bytes = 1 << 20}).value();
  }
  /// A page in five runs, the last one longer, in the order of their addresses or not.
  [[nodiscard]] std::vector<Extent> page_at(int64_t offset) const {
    auto* const at = static_cast<std::byte*>(device_->memory().data) + offset;
    return {{at + 3 * 4096, 4096},
            {at, 4096},
            {at + 4096, 4096},
            {at + 2 * 4096, 4096},
            {at + 4 * 4096, 4096 + 7}};
  }
  [[nodiscard]] std::span<std::byte> seen(int64_t offset) const {
    auto* const at = static_cast<std::byte*>(device_->seen().data) + offset;
    return {at, static_cast<size_t>(page_bytes)};
  }
  [[nodiscard]] std::vector<std::byte> fill(int64_t offset) {
    for (std::byte& b : seen(offset)) b = static_cast<std::byte>(rng_.between(0, 255));
    return {seen(offset).begin(), seen(offset).end()};
  }
  static TierOutcome end_of(Tier& tier) { return wait_for(tier, 1).front().outcome; }
  TierOutcome store(Tier& tier, uint32_t name, int64_t offset) {
    const std::vector<Extent> extents = page_at(offset);
    const TierPage pages[] = {{name_of(name), extents}};
    tier.store(pages).value();
    return end_of(tier);
  }
  TierOutcome load(Tier& tier, uint32_t name, int64_t offset, LoadOrder order = LoadOrder::pages) {
    const std::vector<Extent> extents = page_at(offset);
    const TierPage pages[] = {{name_of(name), extents}};
    tier.load(pages, 0, order).value();
    return end_of(tier);
  }

  TemporaryFolder folder_;
  Rng rng_{17};
  std::shared_ptr<UnreachableDevice> device_ = std::make_shared<UnreachableDevice>(device_bytes);
};

TEST_P(DeviceTier, gives_the_device_back_what_it_took_from_there) {
  const auto tier = make();
  const std::vector<std::byte> page = fill(0);
  EXPECT_EQ(store(*tier, 1, 0), TierOutcome::done);
  for (const LoadOrder order : {LoadOrder::pages, LoadOrder::extents}) {
    static_cast<void>(fill(100'000));
    EXPECT_EQ(load(*tier, 1, 100'000, order), TierOutcome::done);
    EXPECT_TRUE(std::ranges::equal(seen(100'000), page));
  }
  EXPECT_TRUE(std::ranges::equal(seen(0), page)) << "a store writes nothing";
  EXPECT_EQ(load(*tier, 2, 0), TierOutcome::missing);
  EXPECT_TRUE(std::ranges::equal(seen(0), page)) << "nor does what is missing";
}

TEST_P(DeviceTier, moves_many_pages_at_once) {
  const auto tier = make();
  constexpr uint32_t count = 20;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::vector<Extent>> extents;
  std::vector<TierPage> pages;
  for (uint32_t i = 0; i < count; ++i) {
    bytes.push_back(fill(i * int64_t{50'000}));
    extents.push_back(page_at(i * int64_t{50'000}));
  }
  for (uint32_t i = 0; i < count; ++i) pages.push_back({name_of(i), extents[i]});
  for (const LoadOrder order : {LoadOrder::pages, LoadOrder::extents}) {
    tier->store(pages).value();
    for (const TierCompletion& c : wait_for(*tier, count)) EXPECT_EQ(c.outcome, TierOutcome::done);
    for (uint32_t i = 0; i < count; ++i) static_cast<void>(fill(i * int64_t{50'000}));
    tier->load(pages, 0, order).value();
    for (const TierCompletion& c : wait_for(*tier, count)) EXPECT_EQ(c.outcome, TierOutcome::done);
    for (uint32_t i = 0; i < count; ++i)
      EXPECT_TRUE(std::ranges::equal(seen(i * int64_t{50'000}), bytes[i])) << "page " << i;
  }
}

TEST_P(DeviceTier, says_that_copies_failed_and_goes_on) {
  const auto tier = make();
  const std::vector<std::byte> page = fill(0);
  device_->failing_copies = 1;
  EXPECT_EQ(store(*tier, 1, 0), TierOutcome::failed);
  EXPECT_THAT(std::string(tier->last_fault().message()), HasSubstr("the bus is broken"));
  EXPECT_EQ(load(*tier, 1, 100'000), TierOutcome::missing) << "nothing is there of it";
  EXPECT_EQ(store(*tier, 1, 0), TierOutcome::done);
  for (const LoadOrder order : {LoadOrder::pages, LoadOrder::extents}) {
    device_->failing_copies = 1;
    EXPECT_EQ(load(*tier, 1, 100'000, order), TierOutcome::failed);
  }
  EXPECT_EQ(load(*tier, 1, 100'000), TierOutcome::done);
  EXPECT_TRUE(std::ranges::equal(seen(100'000), page));
  EXPECT_EQ(tier->figures().load_outcomes[static_cast<size_t>(TierOutcome::failed)], 2);
}

TEST_P(DeviceTier, fails_no_page_but_those_whose_copy_failed) {
  const auto tier = make();
  const int64_t offsets[] = {0, 100'000};
  const std::vector<std::byte> bytes[] = {fill(offsets[0]), fill(offsets[1])};
  const Extent run = {page_at(100'000)[1].data, page_bytes};
  const std::vector<Extent> runs = page_at(0);
  const TierPage pages[] = {{name_of(1), runs}, {name_of(2), {&run, 1}}};
  tier->store(pages).value();
  for (const TierCompletion& c : wait_for(*tier, 2)) EXPECT_EQ(c.outcome, TierOutcome::done);
  for (const int64_t offset : offsets) static_cast<void>(fill(offset));
  device_->copies = 0;
  device_->good_copies = 1;  // of all pages' first extents, or of the first page
  device_->failing_copies = 1;
  tier->load(pages, 0, LoadOrder::extents).value();
  int done = 0;
  for (const TierCompletion& c : wait_for(*tier, 2)) {
    if (c.outcome != TierOutcome::done) {
      EXPECT_EQ(c.outcome, TierOutcome::failed);
      continue;
    }
    ++done;
    EXPECT_TRUE(std::ranges::equal(seen(offsets[c.page]), bytes[c.page]));
  }
  EXPECT_EQ(done, 1);
  EXPECT_EQ(device_->copies, 2) << "nothing behind what failed";
}

TEST_P(DeviceTier, misses_where_the_host_has_no_memory_for_copies) {
  const auto tier = make();
  device_->has_no_memory = true;
  const TierOutcome outcome = store(*tier, 1, 0);
  EXPECT_EQ(outcome, GetParam() == Kind::host ? TierOutcome::full : TierOutcome::failed);
  device_->has_no_memory = false;
  EXPECT_EQ(store(*tier, 1, 0), TierOutcome::done);
}

TEST_P(DeviceTier, takes_memory_of_the_device_alone) {
  const auto tier = make();
  std::vector<std::byte> elsewhere(64);
  const Extent run{elsewhere.data(), 64};
  const TierPage pages[] = {{name_of(1), {&run, 1}}};
  tier->store(pages).value();
  EXPECT_EQ(end_of(*tier), TierOutcome::failed);
  EXPECT_THAT(std::string(tier->last_fault().message()), HasSubstr("not the device's"));
}

TEST_P(DeviceTier, gives_back_all_memory_in_the_end) {
  {
    const auto tier = make();
    for (uint32_t i = 0; i < 5; ++i)
      EXPECT_EQ(store(*tier, i, i * int64_t{50'000}), TierOutcome::done);
    EXPECT_GT(device_->allocations(), 0);
  }
  EXPECT_EQ(device_->allocations(), 0);
}

INSTANTIATE_TEST_SUITE_P(Tiers, DeviceTier, ::testing::Values(Kind::host, Kind::disk),
                         [](const auto& p) { return p.param == Kind::host ? "host" : "disk"; });

}  // namespace
}  // namespace folio::test
