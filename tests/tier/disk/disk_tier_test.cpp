// SPDX-License-Identifier: Apache-2.0
/// tests/tier/disk_tier_test.cpp: pages in a directory, and what becomes of them there.
#include "folio/tier/disk_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>

#include "support/random.h"
#include "tier/disk/disk_medium.h"
#include "tier/queued_tier.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int64_t mib = 1 << 20;

/// A folder of the test's own, gone with it.
class DiskTier : public ::testing::Test {
 protected:
  DiskTier() {
    std::string pattern = fs::temp_directory_path() / "folio_disk_tier.XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~DiskTier() override { fs::remove_all(path_); }

  Result<std::unique_ptr<Tier>> open(int64_t max_bytes = 64 * mib) {
    return make_disk_tier(path_, {.max_bytes = max_bytes}, {.segment_bytes = mib});
  }
  std::vector<fs::path> segments() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(path_))
      if (entry.path().extension() == ".pages") all.push_back(entry.path());
    return all;
  }
  std::string path_;
};

TEST_F(DiskTier, gives_back_what_it_was_given_and_what_an_earlier_one_was) {
  PageMemory page({1, 4096, 77, 10'000}), back({1, 4096, 77, 10'000});
  page.fill(7);
  for (int turn = 0; turn < 3; ++turn) {
    const auto tier = open().value();
    EXPECT_EQ(load(*tier, name_of(1), back), turn == 0 ? TierOutcome::missing : TierOutcome::done);
    EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
    EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::done);
    EXPECT_EQ(back.memory(), page.memory());
    EXPECT_EQ(tier->figures().pages, 1);
  }
}

TEST_F(DiskTier, belongs_to_one_tier_at_a_time) {
  auto tier = open().value();
  EXPECT_EQ(open().error().code(), Errc::busy);
  tier.reset();
  EXPECT_TRUE(open());
}

TEST_F(DiskTier, of_a_newer_version_is_refused) {
  std::ofstream(path_ + "/format") << "folio disk tier 2\n" << std::string(32, 'x');
  EXPECT_EQ(open().error().code(), Errc::unsupported);
}

TEST_F(DiskTier, keeps_its_bound) {
  const auto tier = open(4 * mib).value();
  PageMemory page({100'000}), back({100'000});
  for (uint32_t i = 0; i < 100; ++i) {
    page.fill(i);
    ASSERT_EQ(store(*tier, name_of(i), page), TierOutcome::done);
    ASSERT_EQ(load(*tier, name_of(0), back), i < 100 ? TierOutcome::done : TierOutcome::missing)
        << "what is used stays";
    int64_t bytes = 0;
    for (const fs::path& segment : segments())
      bytes += static_cast<int64_t>(fs::file_size(segment));
    ASSERT_LE(bytes, 4 * mib);
    ASSERT_LE(tier->figures().bytes, 4 * mib);
  }
  EXPECT_GT(tier->figures().dropped_pages, 50);
  PageMemory large({mib});
  EXPECT_EQ(store(*tier, name_of(1000), large), TierOutcome::full);
}

TEST_F(DiskTier, drops_for_good) {
  PageMemory page({100});
  {
    const auto tier = open().value();
    EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
    EXPECT_EQ(store(*tier, name_of(2), page), TierOutcome::done);
    const PageName names[] = {name_of(1)};
    tier->drop(names).or_throw();
    EXPECT_EQ(load(*tier, name_of(1), page), TierOutcome::missing);
  }
  const auto tier = open().value();
  EXPECT_EQ(load(*tier, name_of(1), page), TierOutcome::missing);
  EXPECT_EQ(load(*tier, name_of(2), page), TierOutcome::done);
}

TEST_F(DiskTier, tells_what_it_has_and_has_no_more) {
  PageMemory page({100'000});
  for (int turn = 0; turn < 2; ++turn) {
    ChangeLog told;
    const auto tier = make_disk_tier(path_, {.max_bytes = 4 * mib, .on_change = told.observer()},
                                     {.segment_bytes = mib})
                          .value();
    EXPECT_EQ(told.all().empty(), turn == 0) << "of what an earlier one has left";
    for (uint32_t i = 0; i < 50; ++i) {
      page.fill(i);
      ASSERT_EQ(store(*tier, name_of(i), page), TierOutcome::done);
    }
    const PageName dropped[] = {name_of(49), name_of(1000)};
    tier->drop(dropped).or_throw();
    std::set<PageName> there;
    for (const auto& [change, name] : told.all())
      ASSERT_TRUE(change == TierChange::stored ? there.insert(name).second
                                               : there.erase(name) == 1);
    for (uint32_t i = 0; i < 50; ++i) {
      const PageName name = name_of(i);
      EXPECT_EQ(there.contains(name), tier->find({&name, 1}) == 1) << i;
    }
  }
}

/// Each byte of a file is wrong once, the file too short at each block: nothing wrong is given.
TEST_F(DiskTier, takes_bytes_that_changed_for_corrupt_or_missing) {
  constexpr uint32_t pages = 3;
  PageMemory page({5000}), back({5000});
  {
    const auto tier = open().value();
    for (uint32_t i = 0; i < pages; ++i) {
      page.fill(i);
      ASSERT_EQ(store(*tier, name_of(i), page), TierOutcome::done);
    }
  }
  const fs::path file = segments().at(0);
  std::string whole(fs::file_size(file), '\0');
  std::ifstream(file, std::ios::binary)
      .read(whole.data(), static_cast<std::streamsize>(whole.size()));
  Rng rng(test_seed());
  const auto expect_nothing_wrong = [&](const std::string& content) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
    const auto tier = open().value();
    int good = 0;
    for (uint32_t i = 0; i < pages; ++i) {
      const TierOutcome outcome = load(*tier, name_of(i), back);
      if (outcome != TierOutcome::done) continue;
      ++good;
      page.fill(i);
      ASSERT_EQ(back.memory(), page.memory());
    }
    EXPECT_GE(good, content.size() == whole.size() ? static_cast<int>(pages) - 1 : 0);
  };
  for (int i = 0; i < 100; ++i) {
    std::string content = whole;
    content[static_cast<size_t>(rng.between(0, std::ssize(whole) - 1))] ^=
        static_cast<char>(1 << rng.between(0, 7));
    expect_nothing_wrong(content);
  }
  for (size_t size = 0; size < whole.size(); size += 4096)
    expect_nothing_wrong(whole.substr(0, size));
}

// ---- Faults below

/// Does what a test says to the n-th operation.
class FaultyIo final : public tier::FileIo {
 public:
  explicit FaultyIo(int& error) : error_(error), io_(tier::make_plain_file_io()) {}
  void run(std::span<tier::FileOp> ops) noexcept override {
    io_->run(ops);
    for (tier::FileOp& op : ops)
      if (error_ != 0) op.error = error_;
  }

 private:
  int& error_;
  std::unique_ptr<tier::FileIo> io_;
};

TEST_F(DiskTier, says_what_the_medium_says_and_serves_on) {
  int error = 0;
  const TierOptions options{.max_bytes = 64 * mib};
  auto medium = tier::DiskMedium::open(path_, options, {.segment_bytes = mib},
                                       std::make_unique<FaultyIo>(error));
  const auto tier = tier::QueuedTier::create(std::move(*medium), options).value();
  PageMemory page({5000}), back({5000});
  page.fill(1);
  error = ENOSPC;
  EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::full);
  error = EIO;
  EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::failed);
  EXPECT_THAT(tier->last_fault().message(), HasSubstr("cannot write"));
  error = 0;
  EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::missing);
  EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  error = EIO;
  const std::vector<std::byte> before = back.memory();
  EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::failed);
  EXPECT_EQ(back.memory(), before);
  error = 0;
  EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::done);
  EXPECT_EQ(back.memory(), page.memory());
}

TEST_F(DiskTier, survives_that_its_process_is_killed) {
  Rng rng(test_seed());
  int64_t found = 0;
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      const auto tier = open(8 * mib).value();
      PageMemory page({40'000});
      for (uint32_t i = 0;; i = (i + 1) % 300) {
        page.fill(i);
        const TierPage pages[] = {{name_of(i), page.extents()}};
        if (!tier->store(pages)) _exit(1);
        wait_for(*tier, 1);
      }
    }
    usleep(static_cast<useconds_t>(rng.between(1000, 60'000)));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    const auto tier = open(8 * mib).value();
    PageMemory page({40'000}), back({40'000});
    for (uint32_t i = 0; i < 300; ++i) {
      if (load(*tier, name_of(i), back) != TierOutcome::done) continue;
      page.fill(i);
      ASSERT_EQ(back.memory(), page.memory());
      ++found;
    }
  }
  EXPECT_GT(found, 0);
}

TEST_F(DiskTier, refuses_options_that_cannot_be) {
  EXPECT_THAT(make_disk_tier(path_, {}).error().message(), HasSubstr("max_bytes is 0"));
  for (const int64_t bytes : {int64_t{-1}, int64_t{0}, mib - 1, 3 * mib})
    EXPECT_THAT(
        make_disk_tier(path_, {.max_bytes = 4 * mib}, {.segment_bytes = bytes}).error().message(),
        HasSubstr("segment_bytes is"));
  for (const uint32_t depth : {0U, 1025U})
    EXPECT_THAT(
        make_disk_tier(path_, {.max_bytes = 4 * mib}, {.segment_bytes = mib, .depth = depth})
            .error()
            .message(),
        HasSubstr("depth is"));
  EXPECT_EQ(make_disk_tier("/proc/nothing", {.max_bytes = 4 * mib}, {.segment_bytes = mib})
                .error()
                .code(),
            Errc::io);
}

}  // namespace
}  // namespace folio::test
