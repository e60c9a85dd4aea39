// SPDX-License-Identifier: Apache-2.0
/// tests/tier/disk/disk_limits_test.cpp: limits of the process, which makes no more of them than
/// pages that are not stored.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <vector>

#include "folio/tier/disk_directory.h"
#include "support/resource_limit.h"
#include "support/sanitized.h"
#include "tier/disk/disk_fixture.h"
#include "tier/disk/plain_file_io.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

/// What the process does with SIGXFSZ is its own: here, it counts. Nothing of a tier changes that,
/// or is counted.
class FileSize : public DiskFixture {
 protected:
  void SetUp() override {
    count = 0;
    struct sigaction counting {};
    counting.sa_handler = [](int) { count = count + 1; };
    ASSERT_EQ(sigaction(SIGXFSZ, &counting, &before_), 0);
  }
  void TearDown() override {
    EXPECT_EQ(count, 0);
    std::raise(SIGXFSZ);
    EXPECT_EQ(count, 1) << "this thread takes it as before";
    ASSERT_EQ(sigaction(SIGXFSZ, &before_, nullptr), 0);
  }
  static volatile std::sig_atomic_t count;

  static void store_many(Tier& tier) {
    std::vector<PageMemory> pages;
    std::vector<TierPage> stores;
    for (uint32_t i = 0; i < 40; ++i) pages.emplace_back(std::vector<int64_t>{60'000}).fill(i);
    for (uint32_t i = 0; i < 40; ++i) stores.push_back({name_of(i), pages[i].extents()});
    ASSERT_TRUE(tier.store(stores));
    int64_t done = 0;
    for (const TierCompletion& end : wait_for(tier, stores.size())) {
      EXPECT_TRUE(end.outcome == TierOutcome::done || end.outcome == TierOutcome::failed);
      if (end.outcome == TierOutcome::done) ++done;
    }
    EXPECT_LT(done, 40);
    EXPECT_THAT(tier.last_fault().message(), HasSubstr("File too large"));
    PageMemory back({60'000});
    for (uint32_t i = 0; i < 40; ++i)
      if (load(tier, name_of(i), back) == TierOutcome::done) {
        EXPECT_EQ(back.memory(), pages[i].memory());
        --done;
      }
    EXPECT_EQ(done, 0) << "what is stored is there, and nothing else";
  }

 private:
  struct sigaction before_ {};
};
volatile std::sig_atomic_t FileSize::count = 0;

TEST_F(FileSize, that_is_limited_fails_stores) {
  const auto tier = open().value();
  const ResourceLimit limit(RLIMIT_FSIZE, mib / 2);
  store_many(*tier);
}

/// Room is not asked for before: the writes themselves go too far.
TEST_F(FileSize, that_is_limited_fails_writes) {
  class NoRoom : public tier::PlainFileIo {
    int allocate(int, int64_t, int64_t) noexcept override { return 0; }
  };
  const auto tier = open_over(std::make_unique<NoRoom>(), 64 * mib, 60'000);
  const ResourceLimit limit(RLIMIT_FSIZE, mib / 2);
  store_many(*tier);
}

TEST_F(FileSize, that_is_limited_fails_writes_by_io_uring) {
  class NoRoom : public tier::FileIo {
   public:
    explicit NoRoom(std::unique_ptr<tier::FileIo> io) : io_(std::move(io)) {}
    void run(std::span<tier::FileOp> ops, const tier::IoMemory& memory,
             tier::FileWork& work) noexcept override {
      io_->run(ops, memory, work);
    }
    int allocate(int, int64_t, int64_t) noexcept override { return 0; }

   private:
    std::unique_ptr<tier::FileIo> io_;
  };
  auto io = tier::make_uring_file_io(8, 60'000);
  if (io == nullptr) GTEST_SKIP() << "no io_uring here";
  const auto tier = open_over(std::make_unique<NoRoom>(std::move(io)), 64 * mib, 60'000);
  const ResourceLimit limit(RLIMIT_FSIZE, mib / 2);
  store_many(*tier);
}

/// Files that the calling thread writes.
TEST_F(FileSize, that_is_limited_makes_no_directory) {
  {
    for (const rlim_t most : {rlim_t{0}, rlim_t{10}}) {
      const ResourceLimit limit(RLIMIT_FSIZE, most);
      const auto tier = open();
      ASSERT_FALSE(tier);
      EXPECT_THAT(tier.error().message(), HasSubstr("/format: File too large"));
    }
    EXPECT_EQ(std::distance(fs::directory_iterator(path_), {}), 1) << "the lock";
  }
  EXPECT_TRUE(open()) << "nothing of it is left";
}

TEST_F(FileSize, that_is_limited_compacts_nothing) {
  {
    const auto tier = open().value();
    PageMemory page({60'000});
    for (uint32_t i = 0; i < 40; ++i) ASSERT_EQ(store(*tier, name_of(i), page), TierOutcome::done);
    const PageName gone = name_of(3);
    ASSERT_TRUE(tier->drop({&gone, 1}).is_ok());
  }
  {
    const ResourceLimit limit(RLIMIT_FSIZE, 4096);
    const auto compacted = compact_disk_directory(path_, mib);
    ASSERT_FALSE(compacted);
    EXPECT_THAT(compacted.error().message(), HasSubstr("File too large"));
  }
  EXPECT_EQ(check_disk_directory(path_).value().pages, 39);
}

/// A drop's mark is a write, too.
TEST_F(FileSize, that_is_limited_drops_pages) {
  const auto tier = open().value();
  PageMemory page({60'000});
  for (uint32_t i = 0; i < 10; ++i) ASSERT_EQ(store(*tier, name_of(i), page), TierOutcome::done);
  const ResourceLimit limit(RLIMIT_FSIZE, 4096);
  const PageName gone = name_of(9);
  ASSERT_TRUE(tier->drop({&gone, 1}).is_ok());
  while (tier->last_fault().is_ok()) usleep(1000);
  EXPECT_THAT(tier->last_fault().message(), HasSubstr("cannot mark a dropped page"));
}

/// Rings of io_uring are made when a thread first has work.
TEST_F(DiskFixture, files_that_are_open_serve_on_where_no_more_are_to_be_had) {
  if (is_sanitized)
    GTEST_SKIP() << "UndefinedBehaviorSanitizer looks at objects through a pipe, two files more";
  const TierOptions options{.threads = 4, .max_bytes = 64 * mib};
  const auto tier = make_disk_tier(path_, options, {.segment_bytes = mib}).value();
  PageMemory page({60'000});
  page.fill(1);
  for (uint32_t i = 0; i < 10; ++i) ASSERT_EQ(store(*tier, name_of(i), page), TierOutcome::done);
  const NoMoreFiles limit;
  for (int turn = 0; turn < 20; ++turn) {
    std::vector<PageMemory> back;
    std::vector<TierPage> loads;
    for (uint32_t i = 0; i < 200; ++i) back.emplace_back(std::vector<int64_t>{60'000});
    for (uint32_t i = 0; i < 200; ++i) loads.push_back({name_of(i % 10), back[i].extents()});
    ASSERT_TRUE(tier->load(loads, 0));
    for (const TierCompletion& end : wait_for(*tier, loads.size()))
      ASSERT_EQ(end.outcome, TierOutcome::done);
  }
}

}  // namespace
}  // namespace folio::test
