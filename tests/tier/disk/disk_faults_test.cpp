// SPDX-License-Identifier: Apache-2.0
/// tests/tier/disk/disk_faults_test.cpp: a disk tier over files that fail: no wrong byte, and each
/// page ends once.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <atomic>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "tier/disk/disk_fixture.h"
#include "tier/disk/faulty_file_io.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

class DiskFaults : public DiskFixture {
 protected:
  std::unique_ptr<Tier> open_faulty(int64_t max_bytes = 64 * mib, int64_t pause_ms = 0) {
    return open_over(std::make_unique<FaultyFileIo>(faults_), max_bytes, pause_ms);
  }
  Faults faults_{test_seed()};
};

// ---- What is to be continued

TEST_F(DiskFaults, short_and_interrupted_transfers_are_continued) {
  faults_.short_transfer = 700;
  faults_.interrupted = faults_.refused = 100;
  const auto tier = open_faulty();
  PageMemory page({1, 40'000, 77}), back({1, 40'000, 77});
  for (uint32_t i = 0; i < 50; ++i) {
    page.fill(i);
    ASSERT_EQ(store(*tier, name_of(i), page), TierOutcome::done);
    const LoadOrder order = i % 2 == 0 ? LoadOrder::pages : LoadOrder::extents;
    ASSERT_EQ(load(*tier, name_of(i), back, order), TierOutcome::done);
    ASSERT_EQ(back.memory(), page.memory());
  }
  EXPECT_TRUE(tier->last_fault().is_ok());
}

// ---- Random faults in random calls

/// Keeps what the tier may have, and holds it to that.
class Caller {
 public:
  Caller(uint64_t seed, uint32_t names) : rng_(seed), names_(names) {}

  void call(Tier& tier) {
    const int64_t kind = rng_.between(0, 9);
    if (kind == 0) {
      const PageName name = name_of(draw());
      EXPECT_TRUE(tier.drop({&name, 1}).is_ok());
      return;
    }
    std::set<uint32_t> drawn;
    while (std::ssize(drawn) < std::min<int64_t>(names_, rng_.between(1, 9))) drawn.insert(draw());
    const bool stores = kind < 5;
    std::vector<PageMemory> memory;
    for (const uint32_t name : drawn) {
      memory.push_back(page_of(name));
      if (stores) memory.back().fill(name);
    }
    std::vector<TierPage> pages;
    size_t i = 0;
    for (const uint32_t name : drawn) pages.push_back({name_of(name), memory[i++].extents()});
    const LoadOrder order = kind < 8 ? LoadOrder::pages : LoadOrder::extents;
    const TierTicket ticket =
        stores ? tier.store(pages).value() : tier.load(pages, 0, order).value();
    (stores ? stored_ : loaded_) += std::ssize(pages);
    check(tier, ticket, stores, {drawn.begin(), drawn.end()}, memory);
  }

  /// All that is there is right.
  int64_t load_all(Tier& tier) {
    int64_t found = 0;
    for (uint32_t name = 0; name < names_; ++name) {
      PageMemory back = page_of(name), page = page_of(name);
      if (load(tier, name_of(name), back) != TierOutcome::done) continue;
      page.fill(name);
      EXPECT_EQ(back.memory(), page.memory());
      ++found;
    }
    return found;
  }

  void expect_all_counted(const TierFigures& figures) const {
    const auto sum = [](const int64_t(&outcomes)[num_tier_outcomes]) {
      return std::accumulate(std::begin(outcomes), std::end(outcomes), int64_t{0});
    };
    EXPECT_EQ(sum(figures.load_outcomes), loaded_);
    EXPECT_EQ(sum(figures.store_outcomes), stored_);
    EXPECT_EQ(figures.queued_pages, 0);
  }

 private:
  uint32_t draw() { return static_cast<uint32_t>(rng_.between(0, names_ - 1)); }
  static PageMemory page_of(uint32_t name) {
    const int64_t bytes = 1 + name * 7919 % 60'000;
    return PageMemory({bytes / 2 + 1, 4096, bytes - bytes / 2, 1});
  }

  void check(Tier& tier, TierTicket ticket, bool stores, const std::vector<uint32_t>& names,
             std::vector<PageMemory>& memory) {
    std::set<uint32_t> ended;
    for (const TierCompletion& completion : wait_for(tier, names.size())) {
      EXPECT_EQ(completion.ticket, ticket);
      EXPECT_TRUE(ended.insert(completion.page).second) << "it ended twice";
      if (stores || completion.outcome != TierOutcome::done) continue;
      PageMemory page = page_of(names[completion.page]);
      page.fill(names[completion.page]);
      EXPECT_EQ(memory[completion.page].memory(), page.memory());
    }
    TierCompletion more;
    EXPECT_EQ(tier.poll({&more, 1}), 0U);
  }

  Rng rng_;
  const uint32_t names_;
  int64_t stored_ = 0, loaded_ = 0;
};

TEST_F(DiskFaults, of_any_kind_give_no_wrong_byte_and_end_each_page_once) {
  for (int round = 0; round < 6; ++round) {
    Faults& f = faults_;
    const auto chance = [&f](int most) { return f.rng.int_between(0, 2) == 0 ? most : 0; };
    f.short_transfer = chance(300);
    f.interrupted = chance(50);
    f.read_error = chance(40);
    f.write_error = chance(40);
    f.no_space = chance(40);
    f.flipped_read = chance(100);
    f.flipped_write = chance(100);
    f.never_ends = chance(20);
    Caller caller(f.rng.next(), 80);
    {
      const auto tier = open_faulty(3 * mib);
      for (int i = 0; i < 150; ++i) caller.call(*tier);
      caller.expect_all_counted(tier->figures());
      EXPECT_LE(tier->figures().bytes, 3 * mib);
    }
    EXPECT_LE(bytes_of_segments(), 3 * mib);
    caller.load_all(*open(3 * mib).value());
  }
}

TEST_F(DiskFaults, power_that_goes_at_any_byte_leaves_whole_pages_or_none) {
  int64_t found = 0;
  for (int round = 0; round < 30; ++round) {
    fs::remove_all(path_);
    Caller caller(faults_.rng.next(), 40);
    {
      const auto tier = open_faulty(3 * mib);
      faults_.power_bytes = faults_.rng.between(0, 2 * mib);
      PageMemory page({30'000});
      for (uint32_t i = 0; i < 40; ++i) caller.call(*tier);
    }
    faults_.power_bytes = -1;
    found += caller.load_all(*open(3 * mib).value());
  }
  EXPECT_GT(found, 0);
}

// ---- What never ends, or late

TEST_F(DiskFaults, a_read_that_never_ends_is_a_failure_and_the_tier_closes) {
  auto tier = open_faulty();
  PageMemory page({5000}), back({5000});
  ASSERT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  faults_.never_ends = 1000;
  EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::failed);
  EXPECT_EQ(store(*tier, name_of(2), page), TierOutcome::failed);
  EXPECT_THAT(tier->last_fault().message(), HasSubstr("timed out"));
  faults_.never_ends = 0;
  EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::done);
  EXPECT_EQ(back.memory(), page.memory());
  tier.reset();
  EXPECT_GE(faults_.left.size(), 2U);
  for (const tier::IoMemory& memory : faults_.left)
    EXPECT_EQ(memory.use_count(), 1) << "its memory is nobody else's";
}

TEST_F(DiskFaults, find_and_drop_wait_for_no_file) {
  const auto tier = open_faulty();
  PageMemory page({5000}), back({5000});
  ASSERT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  std::unique_lock gate(faults_.gate);
  const TierPage pages[] = {{name_of(2), page.extents()}};
  const TierPage loads[] = {{name_of(1), back.extents()}};
  ASSERT_TRUE(tier->load(loads, 1));
  ASSERT_TRUE(tier->store(pages));
  const PageName names[] = {name_of(1), name_of(2)};
  EXPECT_EQ(tier->find(names), 1);
  EXPECT_TRUE(tier->drop({names, 1}).is_ok());
  EXPECT_EQ(tier->find(names), 0);
  gate.unlock();
  wait_for(*tier, 2);
}

TEST_F(DiskFaults, a_page_that_comes_after_its_deadline_is_late_or_right) {
  const auto tier = open_faulty();
  PageMemory page({5000}), back({5000});
  page.fill(1);
  ASSERT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  std::unique_lock gate(faults_.gate);
  const TierPage loads[] = {{name_of(1), back.extents()}};
  ASSERT_TRUE(tier->load(loads, 1));
  usleep(5000);
  gate.unlock();
  const TierOutcome outcome = wait_for(*tier, 1).front().outcome;
  EXPECT_TRUE(outcome == TierOutcome::late ||
              (outcome == TierOutcome::done && back.memory() == page.memory()));
}

// ---- Directories that take nothing

TEST_F(DiskFaults, files_that_cannot_be_made_are_not_asked_for_all_the_time) {
  const auto tier = open_faulty(64 * mib, 60'000);
  PageMemory page({5000});
  faults_.open_error = EROFS;
  for (uint32_t i = 0; i < 100; ++i) ASSERT_EQ(store(*tier, name_of(i), page), TierOutcome::failed);
  EXPECT_EQ(faults_.opens, 1);
  EXPECT_THAT(tier->last_fault().message(), HasSubstr("cannot make"));
  EXPECT_THAT(tier->last_fault().message(), HasSubstr("Read-only file system"));
  EXPECT_EQ(tier->figures().store_outcomes[static_cast<int>(TierOutcome::failed)], 100);
}

TEST_F(DiskFaults, a_pause_ends) {
  const auto tier = open_faulty(64 * mib, 1);
  PageMemory page({5000});
  faults_.open_error = EIO;
  ASSERT_EQ(store(*tier, name_of(1), page), TierOutcome::failed);
  faults_.open_error = 0;
  while (store(*tier, name_of(1), page) != TierOutcome::done) std::this_thread::yield();
  EXPECT_EQ(tier->figures().pages, 1);
}

/// Nothing that goes makes room, as where others take it at once.
TEST_F(DiskFaults, a_device_without_room_costs_one_file_and_then_a_pause) {
  const auto tier = open_faulty(64 * mib, 60'000);
  PageMemory page({400'000}), back({400'000});
  page.fill(1);
  for (uint32_t i = 0; i < 10; ++i) ASSERT_EQ(store(*tier, name_of(i), page), TierOutcome::done);
  faults_.no_space = 1000;
  for (uint32_t i = 10; i < 100; ++i) ASSERT_EQ(store(*tier, name_of(i), page), TierOutcome::full);
  EXPECT_EQ(tier->figures().pages, 8) << "files have two pages each";
  EXPECT_THAT(tier->last_fault().message(), HasSubstr("No space left"));
  for (uint32_t i = 2; i < 10; ++i) {
    ASSERT_EQ(load(*tier, name_of(i), back), TierOutcome::done);
    ASSERT_EQ(back.memory(), page.memory());
  }
}

TEST_F(DiskFaults, a_device_without_room_is_full_when_all_has_gone) {
  const auto tier = open_faulty();
  PageMemory page({5000}), large({900'000});
  ASSERT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  faults_.no_space = 1000;
  for (uint32_t i = 2; i < 1000; ++i) ASSERT_EQ(store(*tier, name_of(i), page), TierOutcome::full);
  EXPECT_EQ(tier->figures().pages, 0);
  EXPECT_LE(tier->figures().bytes, mib / 8) << "what is not written takes no room";
  faults_.no_space = 0;
  faults_.allocate_error = ENOSPC;
  EXPECT_EQ(store(*tier, name_of(2), large), TierOutcome::full);
  EXPECT_THAT(tier->last_fault().message(), HasSubstr("cannot find room in"));
  faults_.allocate_error = 0;
  EXPECT_EQ(store(*tier, name_of(2), large), TierOutcome::done);
}

TEST_F(DiskFaults, a_directory_that_goes_makes_misses_and_another_one_is_not_touched) {
  const auto tier = open_faulty(3 * mib);
  PageMemory page({400'000}), back({400'000});
  page.fill(1);
  ASSERT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  fs::remove_all(path_);
  const auto other = open().value();
  uint32_t number = 2;
  while (store(*tier, name_of(number), page) == TierOutcome::done && number < 100) ++number;
  EXPECT_LT(number, 10U);
  EXPECT_THAT(tier->last_fault().message(), HasSubstr("No such file"));
  EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::done) << "the file is open still";
  EXPECT_EQ(back.memory(), page.memory());
  EXPECT_TRUE(segments().empty());
}

TEST_F(DiskFaults, files_that_are_deleted_or_cut_lose_their_pages_and_no_others) {
  PageMemory page({100'000}), back({100'000});
  const auto tier = open().value();
  for (uint32_t i = 0; i < 20; ++i) {
    page.fill(i);
    ASSERT_EQ(store(*tier, name_of(i), page), TierOutcome::done);
  }
  fs::resize_file(path_ + "/1.pages", 250'000);
  fs::remove(path_ + "/2.pages");
  int done = 0;
  for (uint32_t i = 0; i < 20; ++i) {
    const TierOutcome outcome = load(*tier, name_of(i), back);
    ASSERT_TRUE(outcome == TierOutcome::done || outcome == TierOutcome::corrupt);
    if (outcome == TierOutcome::corrupt) continue;
    ++done;
    page.fill(i);
    ASSERT_EQ(back.memory(), page.memory());
  }
  EXPECT_GE(done, 10);
  EXPECT_EQ(tier->figures().load_outcomes[static_cast<int>(TierOutcome::corrupt)], 20 - done);
  EXPECT_EQ(tier->figures().pages, done) << "what is lost can be stored anew";
  for (uint32_t i = 0; i < 20; ++i) {
    page.fill(i);
    EXPECT_EQ(store(*tier, name_of(i), page), TierOutcome::done);
    EXPECT_EQ(load(*tier, name_of(i), back), TierOutcome::done);
  }
}

// ---- The bound

TEST_F(DiskFaults, the_bound_holds_at_every_moment) {
  constexpr int64_t most = 4 * mib;
  std::atomic<int64_t> largest = 0;
  faults_.after_allocate = [&] { largest = std::max(largest.load(), bytes_of_segments()); };
  const auto tier = open_faulty(most);
  Caller caller(faults_.rng.next(), 300);
  for (int i = 0; i < 400; ++i) caller.call(*tier);
  EXPECT_LE(largest, most);
  EXPECT_GT(largest, most / 2);
  EXPECT_GT(tier->figures().dropped_pages, 100);
}

}  // namespace
}  // namespace folio::test
