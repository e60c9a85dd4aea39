// SPDX-License-Identifier: Apache-2.0
/// tests/tier/disk/disk_full_test.cpp: devices with less room than the tier may take: its oldest
/// pages go.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tier/disk/disk_fixture.h"
#include "tier/disk/faulty_file_io.h"

namespace folio::test {
namespace {

class DiskFull : public DiskFixture {
 protected:
  static constexpr int64_t page_bytes = 30'000;  // 32 KiB there
  static constexpr uint32_t num_pages = 400;     // 12.5 MiB

  std::unique_ptr<Tier> open_faulty() {
    return open_over(std::make_unique<FaultyFileIo>(faults_), 64 * mib, 60'000);
  }
  /// A device of so many bytes, of which others have what the tier has not.
  void limit(int64_t bytes) {
    faults_.has_room = [this, bytes](int64_t more) { return bytes_of_segments() + more <= bytes; };
  }
  static TierOutcome put(Tier& tier, uint32_t i) {
    PageMemory page({page_bytes});
    page.fill(i);
    return store(tier, name_of(i), page);
  }
  /// Each page is right or not there.
  static std::vector<uint32_t> there(Tier& tier) {
    std::vector<uint32_t> all;
    PageMemory page({page_bytes}), back({page_bytes});
    for (uint32_t i = 0; i < num_pages; ++i) {
      const PageName name = name_of(i);
      const bool is_found = tier.find({&name, 1}) == 1;
      const TierOutcome outcome = load(tier, name, back);
      EXPECT_EQ(outcome, is_found ? TierOutcome::done : TierOutcome::missing) << i;
      if (outcome != TierOutcome::done) continue;
      page.fill(i);
      EXPECT_EQ(back.memory(), page.memory()) << i;
      all.push_back(i);
    }
    return all;
  }
  /// No store failed, the last pages are there, as many as the device has room for but for a file
  /// and what a file keeps ready; also when the tier is opened again.
  void expect_the_last_ones(Tier& tier, int64_t device_bytes) {
    const std::vector<uint32_t> all = there(tier);
    ASSERT_FALSE(all.empty());
    EXPECT_EQ(all.back(), num_pages - 1);
    EXPECT_EQ(all.back() - all.front() + 1, all.size()) << "the oldest have gone";
    EXPECT_GE(std::ssize(all) * 32 * 1024, device_bytes - mib - mib / 4);
    EXPECT_EQ(tier.figures().pages, std::ssize(all));
    EXPECT_EQ(tier.figures().bytes, bytes_of_segments());
  }
  Faults faults_{test_seed()};
};

TEST_F(DiskFull, give_up_their_oldest_pages_where_files_cannot_grow) {
  limit(5 * mib);
  const auto tier = open_faulty();
  for (uint32_t i = 0; i < num_pages; ++i) ASSERT_EQ(put(*tier, i), TierOutcome::done) << i;
  expect_the_last_ones(*tier, 5 * mib);
  EXPECT_TRUE(tier->last_fault().is_ok());
}

/// As on file systems that cannot promise room.
TEST_F(DiskFull, give_up_their_oldest_pages_where_they_cannot_be_written) {
  limit(5 * mib);
  faults_.promises_room = false;
  const auto tier = open_faulty();
  for (uint32_t i = 0; i < num_pages; ++i) ASSERT_EQ(put(*tier, i), TierOutcome::done) << i;
  const std::vector<uint32_t> all = there(*tier);
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.back(), num_pages - 1);
  EXPECT_GE(std::ssize(all) * 32 * 1024, 3 * mib);
}

TEST_F(DiskFull, that_are_smaller_than_a_file_begin_it_again) {
  limit(mib / 2);
  const auto tier = open_faulty();
  for (uint32_t i = 0; i < num_pages; ++i) ASSERT_EQ(put(*tier, i), TierOutcome::done) << i;
  EXPECT_FALSE(there(*tier).empty());
  EXPECT_LE(bytes_of_segments(), mib / 2);
}

TEST_F(DiskFull, that_others_leave_are_used_again) {
  const auto tier = open_faulty();
  for (uint32_t i = 0; i < num_pages; ++i) {
    limit(i < num_pages / 2 ? 3 * mib : 5 * mib);
    ASSERT_EQ(put(*tier, i), TierOutcome::done);
  }
  expect_the_last_ones(*tier, 5 * mib);
}

/// Batches of several threads, over two files: whoever makes room holds none of what is to go.
TEST_F(DiskFull, are_shared_by_threads_without_waiting_for_each_other) {
  limit(2 * mib);
  const TierOptions options{.threads = 4, .max_bytes = 64 * mib};
  auto medium = tier::DiskMedium::open(path_, options, {.segment_bytes = mib},
                                       std::make_unique<FaultyFileIo>(faults_), 60'000);
  const auto tier = tier::QueuedTier::create(std::move(medium).value(), options).value();
  std::vector<PageMemory> pages;
  std::vector<TierPage> stores;
  for (uint32_t i = 0; i < num_pages; ++i) pages.emplace_back(std::vector{page_bytes}).fill(i);
  for (uint32_t i = 0; i < num_pages; ++i) stores.push_back({name_of(i), pages[i].extents()});
  ASSERT_TRUE(tier->store(stores));
  for (const TierCompletion& end : wait_for(*tier, num_pages))
    EXPECT_EQ(end.outcome, TierOutcome::done);
  EXPECT_GE(std::ssize(there(*tier)), 16);
}

/// Another one each time, gone with it; none where this process may not mount.
class SmallDevice {
 public:
  SmallDevice(const std::string& path, int64_t bytes) : path_(path) {
    fs::create_directory(path);
    const std::string options = "size=" + std::to_string(bytes);
    is_there_ = mount("tmpfs", path.c_str(), "tmpfs", 0, options.c_str()) == 0;
  }
  SmallDevice(const SmallDevice&) = delete;
  SmallDevice& operator=(const SmallDevice&) = delete;
  ~SmallDevice() {
    if (is_there_) umount2(path_.c_str(), MNT_DETACH);
  }
  [[nodiscard]] bool is_there() const { return is_there_; }

 private:
  std::string path_;
  bool is_there_;
};

TEST_F(DiskFull, of_the_system_give_up_their_oldest_pages) {
  const SmallDevice device(path_ + "/device", 6 * mib);
  if (!device.is_there()) GTEST_SKIP() << "no tmpfs may be mounted here: " << std::strerror(errno);
  const std::string path = path_ + "/device/tier";
  const auto open = [&] {
    return make_disk_tier(path, {.max_bytes = 64 * mib}, {.segment_bytes = mib}).value();
  };
  std::vector<uint32_t> before;
  {
    const auto tier = open();
    for (uint32_t i = 0; i < num_pages; ++i) ASSERT_EQ(put(*tier, i), TierOutcome::done) << i;
    before = there(*tier);
    EXPECT_GE(std::ssize(before) * 32 * 1024, 4 * mib);
    EXPECT_EQ(before.back(), num_pages - 1);
  }
  {
    const auto tier = open();
    EXPECT_EQ(there(*tier), before);
  }
  write_content(path_ + "/device/others", std::string(6 * mib, 'x'));  // as much as there is
  const auto tier = open();
  EXPECT_EQ(there(*tier), before) << "it is read all the same";
  for (uint32_t i = 0; i < num_pages; ++i) ASSERT_EQ(put(*tier, i), TierOutcome::done) << i;
  EXPECT_EQ(there(*tier).back(), num_pages - 1);
}

TEST_F(DiskFull, of_the_system_serve_as_before_when_files_are_too_large_for_them) {
  const SmallDevice device(path_ + "/device", 6 * mib);
  if (!device.is_there()) GTEST_SKIP() << "no tmpfs may be mounted here: " << std::strerror(errno);
  const auto tier = make_disk_tier(path_ + "/device/tier", {.max_bytes = 1024 * mib}).value();
  for (uint32_t i = 0; i < num_pages; ++i) ASSERT_EQ(put(*tier, i), TierOutcome::done) << i;
  EXPECT_FALSE(there(*tier).empty());
}

}  // namespace
}  // namespace folio::test
