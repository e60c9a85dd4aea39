// SPDX-License-Identifier: Apache-2.0
/// tests/tier/record_bytes_test.cpp: what pages are said to take is what they take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "folio/tier/disk_directory.h"
#include "folio/tier/disk_tier.h"
#include "folio/tier/host_tier.h"
#include "folio/tier/redis_tier.h"
#include "support/temporary_folder.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;
constexpr int64_t mib = 1 << 20;
constexpr uint32_t num_sizes = 2 * 4096;  ///< each remainder of a block, with one block and two

/// Pages of 1, 2, ... bytes, each with its size for a name; all are stored.
void store_all_sizes(Tier& tier) {
  std::vector<std::byte> bytes(num_sizes, std::byte{1});
  for (uint32_t size = 1; size <= num_sizes; ++size) {
    const Extent extent{bytes.data(), size};
    const TierPage page{name_of(size), {&extent, 1}};
    ASSERT_TRUE(tier.store({&page, 1}));
  }
  for (const TierCompletion& end : wait_for(tier, num_sizes))
    ASSERT_EQ(end.outcome, TierOutcome::done);
}

TEST(RecordBytes, are_those_of_the_hosts_memory) {
  const auto tier = make_host_tier({.max_bytes = 256 * mib}).value();
  store_all_sizes(*tier);
  int64_t bytes = 0;
  for (int64_t size = 1; size <= num_sizes; ++size) bytes += host_record_bytes(size).value();
  EXPECT_EQ(tier->figures().bytes, bytes);
  for (uint32_t size = num_sizes; size > 0; --size) {
    const PageName name = name_of(size);
    ASSERT_TRUE(tier->drop({&name, 1}).is_ok());
    bytes -= host_record_bytes(size).value();
    ASSERT_EQ(tier->figures().bytes, bytes) << size;
  }
}

/// Records stand behind one another in the order in which one thread has stored them.
TEST(RecordBytes, are_those_of_a_directory) {
  const TemporaryFolder folder;
  store_all_sizes(*make_disk_tier(folder.path(), {.threads = 1, .max_bytes = 256 * mib},
                                  {.segment_bytes = 128 * mib})
                       .value());
  const DiskListing listing = list_disk_directory(folder.path()).value();
  ASSERT_EQ(listing.pages.size(), num_sizes);
  int64_t offset = 0;
  for (const DiskPage& page : listing.pages) {
    ASSERT_EQ(page.offset, offset) << page.bytes;
    offset += disk_record_bytes(page.bytes).value();
  }
  EXPECT_EQ(listing.segments.at(0).live_bytes, offset);
}

// ---- Tiers of n pages

/// Of n + 1 pages of a size, how many are there in the end.
int64_t kept(Tier& tier, int64_t size, int64_t n) {
  PageMemory page({size});
  for (uint32_t i = 0; i < n; ++i) EXPECT_EQ(store(tier, name_of(i), page), TierOutcome::done);
  EXPECT_EQ(tier.figures().pages, n) << size;
  EXPECT_EQ(store(tier, name_of(static_cast<uint32_t>(n)), page), TierOutcome::done);
  return tier.figures().pages;
}

/// Some on either side of where a page takes a block more.
constexpr int64_t sizes[] = {1, 100, 3895, 3896, 3897, 3904, 3968, 4096, 7991, 7992, 7993, 20'000};

TEST(RecordBytes, of_n_pages_are_a_host_tier_that_keeps_n) {
  for (const int64_t size : sizes)
    for (const int64_t n : {1, 2, 37}) {
      const auto tier = make_host_tier({.max_bytes = n * host_record_bytes(size).value()}).value();
      EXPECT_EQ(kept(*tier, size, n), n) << size;
    }
}

TEST(RecordBytes, of_n_pages_and_a_quarter_of_a_segment_are_a_disk_tier_that_keeps_n) {
  for (const int64_t size : sizes) {
    const int64_t record = disk_record_bytes(size).value();
    const int64_t segment = 256 * record;
    const int64_t n = 2 * 256 + 3 * 16;  // whole sixteenths
    const TemporaryFolder folder;
    const auto tier = make_disk_tier(folder.path(), {.max_bytes = n * record + segment / 4},
                                     {.segment_bytes = segment})
                          .value();
    EXPECT_LT(kept(*tier, size, n), n) << "a file goes for one page more: " << size;
  }
}

TEST(RecordBytes, are_refused_of_no_page) {
  for (const int64_t bytes : {int64_t{0}, int64_t{-1}, (int64_t{1} << 40) + 1, INT64_MIN}) {
    EXPECT_EQ(host_record_bytes(bytes).error().code(), Errc::invalid_argument);
    EXPECT_EQ(redis_record_bytes(bytes).error().code(), Errc::invalid_argument);
    EXPECT_THAT(disk_record_bytes(bytes).error().message(),
                HasSubstr("disk_record_bytes: page_bytes is " + std::to_string(bytes) +
                          ", expected 1 .. 1099511627776"));
  }
  EXPECT_EQ(disk_record_bytes(int64_t{1} << 40).value(), (int64_t{1} << 40) + 4096);
}

}  // namespace
}  // namespace folio::test
