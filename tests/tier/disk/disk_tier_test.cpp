// SPDX-License-Identifier: Apache-2.0
/// tests/tier/disk/disk_tier_test.cpp: pages in a directory, and what becomes of them there.
#include "folio/tier/disk_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <string>

#include "tier/disk/disk_fixture.h"
#include "tier/disk/plain_file_io.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

class DiskTier : public DiskFixture {};

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
  const std::string whole = content_of(file);
  Rng rng(test_seed());
  const auto expect_nothing_wrong = [&](const std::string& content) {
    write_content(file, content);
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

/// Ends each operation with what a test says.
class FaultyIo final : public tier::PlainFileIo {
 public:
  explicit FaultyIo(int& error) : error_(error) {}

 protected:
  int64_t transfer(const tier::FileOp& op, int64_t done) noexcept override {
    return error_ != 0 ? -error_ : PlainFileIo::transfer(op, done);
  }

 private:
  int& error_;
};

TEST_F(DiskTier, says_what_the_medium_says_and_serves_on) {
  int error = 0;
  const auto tier = open_over(std::make_unique<FaultyIo>(error));
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

// ---- What goes and what stays

TEST_F(DiskTier, copies_pages_that_were_used_when_their_segment_goes) {
  const auto tier = open(4 * mib).value();
  PageMemory page({100'000}), back({100'000});
  const auto store_pages = [&](uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; ++i) {
      page.fill(i);
      ASSERT_EQ(store(*tier, name_of(i), page), TierOutcome::done);
    }
  };
  store_pages(0, 10);  // a segment takes ten
  for (const uint32_t used : {3U, 7U})
    ASSERT_EQ(load(*tier, name_of(used), back), TierOutcome::done);
  store_pages(10, 45);
  for (uint32_t i = 0; i < 10; ++i) {
    const PageName name = name_of(i);
    EXPECT_EQ(tier->find({&name, 1}), i == 3 || i == 7 ? 1 : 0) << i;
  }
  page.fill(3);
  ASSERT_EQ(load(*tier, name_of(3), back), TierOutcome::done);
  EXPECT_EQ(back.memory(), page.memory());
  store_pages(45, 150);
  const PageName unused = name_of(7);
  EXPECT_EQ(tier->find({&unused, 1}), 0) << "once is not for ever";
}

TEST_F(DiskTier, copies_a_quarter_of_a_segment_at_most) {
  const auto tier = open(4 * mib).value();
  PageMemory page({100'000});
  const auto store_pages = [&](uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; ++i)
      ASSERT_EQ(store(*tier, name_of(i), page), TierOutcome::done);
  };
  store_pages(0, 10);
  for (uint32_t i = 0; i < 10; ++i) ASSERT_EQ(load(*tier, name_of(i), page), TierOutcome::done);
  store_pages(10, 45);
  int found = 0;
  for (uint32_t i = 0; i < 10; ++i) {
    const PageName name = name_of(i);
    found += tier->find({&name, 1});
  }
  EXPECT_EQ(found, 2);
}

TEST_F(DiskTier, of_a_larger_bound_shrinks_when_it_is_opened) {
  PageMemory page({100'000}), back({100'000});
  {
    const auto tier = open(32 * mib).value();
    for (uint32_t i = 0; i < 200; ++i) {
      page.fill(i);
      ASSERT_EQ(store(*tier, name_of(i), page), TierOutcome::done);
    }
  }
  EXPECT_GT(bytes_of_segments(), 16 * mib);
  const auto tier = open(5 * mib).value();
  EXPECT_LE(bytes_of_segments(), 5 * mib);
  EXPECT_EQ(load(*tier, name_of(0), back), TierOutcome::missing);
  EXPECT_EQ(load(*tier, name_of(199), back), TierOutcome::done) << "the oldest go";
  EXPECT_EQ(back.memory(), page.memory());
  for (uint32_t i = 200; i < 300; ++i) {
    ASSERT_EQ(store(*tier, name_of(i), page), TierOutcome::done);
    ASSERT_LE(bytes_of_segments(), 5 * mib);
  }
}

TEST_F(DiskTier, drops_a_page_that_was_stored_twice_at_once_for_good) {
  PageMemory page({9000}), back({9000});
  page.fill(1);
  {
    const auto tier = open().value();
    const TierPage pages[] = {
        {name_of(1), page.extents()}, {name_of(1), page.extents()}, {name_of(1), page.extents()}};
    ASSERT_TRUE(tier->store(pages));
    wait_for(*tier, 3);
    EXPECT_EQ(tier->figures().pages, 1);
    const PageName name = name_of(1);
    ASSERT_TRUE(tier->drop({&name, 1}).is_ok());
  }
  EXPECT_EQ(load(*open().value(), name_of(1), back), TierOutcome::missing);
}

/// In one call, whose first pages take the room of what its last one is.
TEST_F(DiskTier, stores_anew_what_went_for_pages_before_it) {
  const auto tier = open(4 * mib).value();
  const PageMemory page({100'000});
  const auto store_call = [&](uint32_t first, uint32_t count, uint32_t last) {
    std::vector<TierPage> pages;
    for (uint32_t i = first; i < first + count; ++i) pages.push_back({name_of(i), page.extents()});
    pages.push_back({name_of(last), page.extents()});
    ASSERT_TRUE(tier->store(pages));
    for (const TierCompletion& end : wait_for(*tier, pages.size()))
      EXPECT_EQ(end.outcome, TierOutcome::done);
  };
  uint32_t next = 1;
  for (int call = 0; call < 20; ++call) {
    const uint32_t oldest = next - 1;
    next += 30;  // more than the tier has room for beside it
    store_call(oldest + 1, 30, oldest);
    const PageName name = name_of(oldest);
    EXPECT_EQ(tier->find({&name, 1}), 1) << "call " << call;
  }
  EXPECT_GT(tier->figures().dropped_pages, 500);
}

TEST_F(DiskTier, gives_room_back_that_it_took_and_did_not_need) {
  PageMemory page({9000});
  ASSERT_EQ(store(*open().value(), name_of(1), page), TierOutcome::done);
  EXPECT_GT(bytes_of_segments(), 3 * 4096);
  const auto tier = open().value();
  EXPECT_EQ(bytes_of_segments(), 3 * 4096);
  EXPECT_EQ(tier->figures().bytes, 3 * 4096);
}

// ---- Loads in order

TEST_F(DiskTier, loads_the_first_extents_of_all_pages_first) {
  const auto tier =
      make_disk_tier(path_, {.max_bytes = 64 * mib}, {.segment_bytes = 16 * mib}).value();
  constexpr int64_t bytes = 40'000;
  constexpr uint32_t pages = 5, extents = 40;
  std::vector<PageMemory> memory, back;
  std::vector<TierPage> wanted;
  for (uint32_t p = 0; p < pages; ++p) {
    memory.emplace_back(std::vector<int64_t>(extents - p, bytes + p));
    back.emplace_back(std::vector<int64_t>(extents - p, bytes + p));
    memory[p].fill(p);
    ASSERT_EQ(store(*tier, name_of(p), memory[p]), TierOutcome::done);
  }
  for (uint32_t p = 0; p < pages; ++p) wanted.push_back({name_of(p), back[p].extents()});
  const TierTicket ticket = tier->load(wanted, 0, LoadOrder::extents).value();
  uint32_t seen = 0;
  TierCompletion ended[1];
  while (tier->poll(ended) == 0) {
    const uint32_t landed = tier->landed(ticket);
    for (; seen < landed; ++seen)
      for (uint32_t p = 0; p < pages; ++p) {
        if (seen >= back[p].extents().size()) continue;
        EXPECT_EQ(std::memcmp(back[p].extents()[seen].data, memory[p].extents()[seen].data,
                              static_cast<size_t>(bytes + p)),
                  0)
            << "extent " << seen << " of page " << p;
      }
  }
  EXPECT_EQ(ended[0].outcome, TierOutcome::done);
  for (const TierCompletion& other : wait_for(*tier, pages - 1))
    EXPECT_EQ(other.outcome, TierOutcome::done);
  for (uint32_t p = 0; p < pages; ++p) EXPECT_EQ(back[p].memory(), memory[p].memory());
}

TEST_F(DiskTier, loads_in_order_what_is_right_and_says_what_is_not) {
  PageMemory good({70'000, 70'000}), bad({70'000, 70'000}), none({8}), shorter({9});
  good.fill(1);
  bad.fill(2);
  {
    const auto tier = open().value();
    ASSERT_EQ(store(*tier, name_of(1), good), TierOutcome::done);
    ASSERT_EQ(store(*tier, name_of(2), bad), TierOutcome::done);
    ASSERT_EQ(store(*tier, name_of(3), none), TierOutcome::done);
  }
  const fs::path file = segments().at(0);
  std::string content = content_of(file);
  content[static_cast<size_t>(tier::record_bytes(140'000)) + 130'000] ^= 1;
  write_content(file, content);
  const auto tier = open().value();
  PageMemory a({70'000, 70'000}), b({70'000, 70'000}), c({70'000});
  const TierPage pages[] = {{name_of(1), a.extents()},
                            {name_of(2), b.extents()},
                            {name_of(4), c.extents()},
                            {name_of(3), shorter.extents()}};
  ASSERT_TRUE(tier->load(pages, 0, LoadOrder::extents));
  TierOutcome outcomes[4] = {};
  for (const TierCompletion& ended : wait_for(*tier, 4)) outcomes[ended.page] = ended.outcome;
  EXPECT_EQ(outcomes[0], TierOutcome::done);
  EXPECT_EQ(a.memory(), good.memory());
  EXPECT_EQ(outcomes[1], TierOutcome::corrupt);
  EXPECT_EQ(outcomes[2], TierOutcome::missing);
  EXPECT_EQ(outcomes[3], TierOutcome::corrupt);
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
  for (const int64_t timeout : {int64_t{-1}, (int64_t{1} << 31) + 1})
    EXPECT_THAT(
        make_disk_tier(path_, {.max_bytes = 4 * mib}, {.segment_bytes = mib, .timeout_ms = timeout})
            .error()
            .message(),
        HasSubstr("timeout_ms is"));
  for (const std::string_view path : {std::string_view(), std::string_view("/tmp/a\0b", 8)})
    EXPECT_THAT(
        make_disk_tier(path, {.max_bytes = 4 * mib}, {.segment_bytes = mib}).error().message(),
        HasSubstr("expected a path"));
  EXPECT_EQ(make_disk_tier("/proc/nothing", {.max_bytes = 4 * mib}, {.segment_bytes = mib})
                .error()
                .code(),
            Errc::io);
}

}  // namespace
}  // namespace folio::test
