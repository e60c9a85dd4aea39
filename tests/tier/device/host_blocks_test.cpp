// SPDX-License-Identifier: Apache-2.0
/// tests/tier/device/host_blocks_test.cpp: blocks of slabs, and when slabs come and go.
#include "tier/device/host_blocks.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "support/random.h"
#include "tier/device/unreachable_device.h"

namespace folio::test {
namespace {

using tier::HostBlock;
using tier::HostBlocks;

constexpr int64_t quarter = HostBlocks::slab_bytes / 4;

struct HostBlocksTest : ::testing::Test {
  std::shared_ptr<UnreachableDevice> device = std::make_shared<UnreachableDevice>(4096);
  HostBlocks blocks{device};
};

TEST_F(HostBlocksTest, cut_a_slab_and_keep_one_that_is_empty) {
  std::vector<HostBlock> taken;
  for (int i = 0; i < 5; ++i) taken.push_back(blocks.take(quarter).value());
  EXPECT_EQ(device->allocations(), 2) << "four blocks a slab";
  taken.erase(taken.begin());
  EXPECT_EQ(device->allocations(), 2) << "both have room";
  taken.pop_back();
  EXPECT_EQ(device->allocations(), 1) << "the other one has room";
  taken.clear();
  EXPECT_EQ(device->allocations(), 1) << "kept for the next page";
  taken.push_back(blocks.take(quarter).value());
  EXPECT_EQ(device->allocations(), 1);
}

TEST_F(HostBlocksTest, take_a_slab_for_a_page_that_is_larger) {
  const HostBlock block = blocks.take(HostBlocks::slab_bytes + 1).value();
  EXPECT_NE(block.data(), nullptr);
  EXPECT_EQ(device->allocations(), 1);
}

TEST_F(HostBlocksTest, say_that_there_is_no_memory) {
  device->has_no_memory = true;
  EXPECT_EQ(blocks.take(1).error().code(), Errc::out_of_memory);
}

TEST_F(HostBlocksTest, never_give_a_byte_twice) {
  Rng rng(5);
  struct Taken {
    HostBlock block;
    int64_t bytes;
    std::byte mark;
  };
  std::vector<Taken> taken;
  const int64_t sizes[] = {1, 64, 65, quarter, quarter + 1, 3 * quarter};
  for (int i = 0; i < 2000; ++i) {
    if (taken.size() < 12 && rng.chance(0.55)) {
      const int64_t bytes = sizes[rng.between(0, 5)];
      taken.push_back({blocks.take(bytes).value(), bytes, static_cast<std::byte>(i)});
      taken.back().block.data()[0] = taken.back().block.data()[bytes - 1] = taken.back().mark;
    } else if (!taken.empty()) {
      const auto any = static_cast<size_t>(rng.between(0, std::ssize(taken) - 1));
      ASSERT_EQ(taken[any].block.data()[0], taken[any].mark);
      ASSERT_EQ(taken[any].block.data()[taken[any].bytes - 1], taken[any].mark);
      std::swap(taken[any], taken.back());
      taken.pop_back();
    }
  }
  taken.clear();
  EXPECT_EQ(device->allocations(), 5) << "one of each size of blocks, of 64 bytes or a multiple";
}

TEST(HostBlocks, have_plain_memory_without_a_device) {
  HostBlocks blocks(nullptr);
  HostBlock block = blocks.take(100).value();
  std::vector<std::byte> from(100, std::byte{7}), to(100);
  const Extent halves[] = {{from.data() + 40, 60}, {from.data(), 40}}, whole{to.data(), 100};
  ASSERT_TRUE(blocks.gather(halves, block.data()).is_ok());
  ASSERT_TRUE(blocks.scatter(block.data(), {&whole, 1}).is_ok());
  EXPECT_EQ(to, from);
}

}  // namespace
}  // namespace folio::test
