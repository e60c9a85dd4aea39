// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/read_only_test.cpp: a directory that cannot be written is still one that can
/// be read, whatever the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "folio/tier/disk_tier.h"
#include "support/resource_limit.h"
#include "support/temporary_folder.h"
#include "tier/manager/read_only.h"

namespace folio::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ReadOnlyDirectory : public ::testing::Test {
 protected:
  ReadOnlyDirectory() {
    EXPECT_EQ(chmod(folder_.path().c_str(), 0755), 0);
    const auto tier = open();
    ReadOnlyRounds(*tier).store_all();
  }
  std::unique_ptr<Tier> open() {
    return make_disk_tier(path_, {.max_bytes = 64 << 20}, {.segment_bytes = 1 << 20}).value();
  }
  /// Stores have failed, and the tier says why.
  static void expect_failed(const TierCounters& counters, const Tier& tier, const char* why) {
    EXPECT_GT(ended_as(counters, TierOutcome::failed), 0);
    EXPECT_GT(counters.store_rests.begun[static_cast<size_t>(RestReason::failed)], 0);
    EXPECT_EQ(counters.store_rests.last_reason, RestReason::failed);
    EXPECT_THAT(tier.last_fault().message(), HasSubstr(why));
  }
  const TemporaryFolder folder_;
  const std::string path_ = folder_.path("tier");
};

/// Another user than the one whose files they are, where this one may write everything.
class NobodyElse {
 public:
  NobodyElse() { is_other_ = geteuid() == 0 && setegid(65534) == 0 && seteuid(65534) == 0; }
  NobodyElse(const NobodyElse&) = delete;
  NobodyElse& operator=(const NobodyElse&) = delete;
  ~NobodyElse() {
    if (is_other_ && (seteuid(0) != 0 || setegid(0) != 0)) std::abort();
  }

 private:
  bool is_other_ = false;
};

TEST_F(ReadOnlyDirectory, that_may_not_be_written_is_loaded_from) {
  ASSERT_EQ(chmod(path_.c_str(), 0555), 0);
  {
    const NobodyElse user;
    const auto tier = open();
    expect_failed(ReadOnlyRounds(*tier).expect_all_loaded(), *tier, "is read-only");
  }
  ASSERT_EQ(chmod(path_.c_str(), 0755), 0);
}

TEST_F(ReadOnlyDirectory, whose_files_may_not_be_written_is_loaded_from) {
  for (const auto& entry : fs::directory_iterator(path_)) {
    const bool is_segment = entry.path().extension() == ".pages";
    ASSERT_EQ(chmod(entry.path().c_str(), is_segment ? 0444 : 0666), 0);
  }
  ASSERT_EQ(chmod(path_.c_str(), 0777), 0);
  const NobodyElse user;
  const auto tier = open();
  const TierCounters counters = ReadOnlyRounds(*tier).expect_all_loaded();
  EXPECT_EQ(ended_as(counters, TierOutcome::done), 8 * ReadOnlyRounds::num_prompts)
      << "new files can be made";
}

TEST_F(ReadOnlyDirectory, that_is_deleted_is_loaded_from) {
  const auto tier = open();
  fs::remove_all(path_);
  expect_failed(ReadOnlyRounds(*tier).expect_all_loaded(4), *tier, "No such file");
}

TEST_F(ReadOnlyDirectory, that_is_deleted_while_pages_are_stored_is_loaded_from) {
  const auto tier = open();
  ReadOnlyRounds(*tier).expect_all_loaded();  // a file is open
  fs::remove_all(path_);
  ReadOnlyRounds rounds(*tier);
  expect_failed(rounds.expect_all_loaded(6), *tier, "No such file");
}

TEST_F(ReadOnlyDirectory, without_a_file_to_be_had_is_loaded_from) {
  const auto tier = open();
  ReadOnlyRounds rounds(*tier);
  const NoMoreFiles limit;
  expect_failed(rounds.expect_all_loaded(), *tier, "Too many open files");
}

/// The process would end otherwise.
TEST_F(ReadOnlyDirectory, whose_files_may_not_grow_is_loaded_from) {
  const auto tier = open();
  ReadOnlyRounds rounds(*tier);
  const ResourceLimit none(RLIMIT_FSIZE, 4096);
  expect_failed(rounds.expect_all_loaded(), *tier, "File too large");
}

}  // namespace
}  // namespace folio::test
