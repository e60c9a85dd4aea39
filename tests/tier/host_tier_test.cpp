// SPDX-License-Identifier: Apache-2.0
/// tests/tier/host_tier_test.cpp: pages in the host's memory.
#include "folio/tier/host_tier.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

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

/// Has room for `pages`; page i continues page i - 1, but for the first.
class HostTierPrefixes : public ::testing::Test {
 protected:
  void make_room_for(int64_t pages) { tier_ = make(pages * (100 + header)); }
  TierOutcome put(uint32_t i) { return i == 0 ? store(*tier_, name_of(0), page_) : put(i, i - 1); }
  TierOutcome put(uint32_t i, uint32_t parent) {
    return store(*tier_, name_of(i), page_, name_of(parent));
  }
  /// How many of a prefix there are.
  int32_t find(uint32_t count) {
    std::vector<PageName> names;
    for (uint32_t i = 0; i < count; ++i) names.push_back(name_of(i));
    return tier_->find(names);
  }
  bool has(uint32_t i) {
    const PageName name = name_of(i);
    return tier_->find({&name, 1}) == 1;
  }

  std::unique_ptr<Tier> tier_;
  PageMemory page_{{100}};
};

TEST_F(HostTierPrefixes, lose_their_end_first) {
  make_room_for(6);
  for (const uint32_t i : {0U, 1U, 2U, 3U}) EXPECT_EQ(put(i), TierOutcome::done);
  for (const uint32_t i : {10U, 11U, 12U, 13U})
    EXPECT_EQ(store(*tier_, name_of(i), page_), TierOutcome::done);
  EXPECT_EQ(find(4), 2) << "3 and 2 have gone, though 0 and 1 are older";
  EXPECT_TRUE(has(10));
}

TEST_F(HostTierPrefixes, lose_their_end_first_in_whatever_order_they_came) {
  make_room_for(6);
  for (const uint32_t i : {3U, 1U, 0U, 2U}) EXPECT_EQ(put(i), TierOutcome::done);
  EXPECT_EQ(load(*tier_, name_of(3), page_), TierOutcome::done);
  for (const uint32_t i : {10U, 11U, 12U})
    EXPECT_EQ(store(*tier_, name_of(i), page_), TierOutcome::done);
  EXPECT_EQ(find(4), 3);
}

TEST_F(HostTierPrefixes, keep_what_another_branch_needs) {
  make_room_for(4);
  put(0);
  put(1);
  put(20, 0);  // another page behind the first
  put(21, 20);
  EXPECT_EQ(put(22, 21), TierOutcome::done);
  EXPECT_FALSE(has(1));
  EXPECT_TRUE(has(0));
  EXPECT_EQ(put(23, 22), TierOutcome::full) << "there is nothing but what it continues";
  EXPECT_EQ(tier_->figures().pages, 4);
  EXPECT_EQ(store(*tier_, name_of(30), page_), TierOutcome::done) << "22 has gone";
  EXPECT_FALSE(has(22));
}

TEST_F(HostTierPrefixes, lose_a_page_in_the_middle_when_told_to) {
  make_room_for(4);
  for (const uint32_t i : {0U, 1U, 2U}) put(i);
  const PageName middle = name_of(1);
  tier_->drop({&middle, 1}).or_throw();
  EXPECT_EQ(find(3), 1);
  EXPECT_TRUE(has(2));
  for (const uint32_t i : {40U, 41U, 42U})
    put(i);  // 0 continues nothing any more, and was used longest ago
  EXPECT_FALSE(has(0));
  EXPECT_EQ(put(1), TierOutcome::done) << "2 has gone: a leaf, and older than 40";
  EXPECT_FALSE(has(2));
}

TEST_F(HostTierPrefixes, may_be_circles) {
  make_room_for(3);
  EXPECT_EQ(put(5, 5), TierOutcome::done);
  put(0, 1);
  put(1, 0);
  EXPECT_EQ(store(*tier_, name_of(7), page_), TierOutcome::done) << "5 has gone";
  EXPECT_FALSE(has(5));
  EXPECT_EQ(tier_->figures().pages, 3);
}

TEST(HostTier, loads_extent_by_extent_what_it_has) {
  const auto tier = make(1 << 20);
  PageMemory first({64, 7}), second({5, 5, 61}), a({64, 7}), b({5, 5, 61}), none({71});
  first.fill(1);
  second.fill(2);
  EXPECT_EQ(store(*tier, name_of(1), first), TierOutcome::done);
  EXPECT_EQ(store(*tier, name_of(2), second), TierOutcome::done);
  const TierPage pages[] = {
      {name_of(1), a.extents()}, {name_of(9), none.extents()}, {name_of(2), b.extents()}};
  const TierTicket ticket = tier->load(pages, 0, LoadOrder::extents).value();
  const auto ended = wait_for(*tier, 3);
  EXPECT_EQ(ended[0].outcome, TierOutcome::done);
  EXPECT_EQ(ended[1].outcome, TierOutcome::missing);
  EXPECT_EQ(ended[2].outcome, TierOutcome::done);
  EXPECT_EQ(a.memory(), first.memory());
  EXPECT_EQ(b.memory(), second.memory());
  EXPECT_EQ(tier->landed(ticket), 0U) << "completions tell";
  PageMemory longer({64, 8});
  EXPECT_EQ(load(*tier, name_of(1), longer, LoadOrder::extents), TierOutcome::corrupt);
}

TEST(HostTier, says_that_extents_have_landed_only_when_they_have) {
  const auto tier = make(int64_t{1} << 30);
  constexpr int64_t bytes = 1 << 16;
  constexpr uint32_t pages = 4, extents = 8;
  std::vector<PageMemory> memory, back;
  std::vector<TierPage> wanted;
  for (uint32_t p = 0; p < pages; ++p) {
    memory.emplace_back(std::vector<int64_t>(extents, bytes));
    back.emplace_back(std::vector<int64_t>(extents, bytes));
    memory[p].fill(p);
    EXPECT_EQ(store(*tier, name_of(p), memory[p]), TierOutcome::done);
  }
  for (uint32_t p = 0; p < pages; ++p) wanted.push_back({name_of(p), back[p].extents()});
  const TierTicket ticket = tier->load(wanted, 0, LoadOrder::extents).value();
  uint32_t seen = 0;
  TierCompletion ended[1];
  while (tier->poll(ended) == 0) {
    const uint32_t landed = tier->landed(ticket);
    for (; seen < landed; ++seen)
      for (uint32_t p = 0; p < pages; ++p)
        EXPECT_EQ(std::memcmp(back[p].extents()[seen].data, memory[p].extents()[seen].data, bytes),
                  0)
            << "extent " << seen << " of page " << p;
  }
  EXPECT_EQ(wait_for(*tier, pages - 1).size(), pages - 1);
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

TEST(HostTier, tells_what_it_has_and_has_no_more) {
  ChangeLog told;
  const auto tier =
      make_host_tier({.max_bytes = 2 * (100 + header), .on_change = told.observer()}).value();
  PageMemory page({100});
  for (const uint32_t i : {1U, 1U, 2U, 3U})
    EXPECT_EQ(store(*tier, name_of(i), page), TierOutcome::done);
  const PageName names[] = {name_of(2), name_of(9)};
  tier->drop(names).or_throw();
  EXPECT_EQ(told.all(), (ChangeLog::Changes{{TierChange::stored, name_of(1)},
                                            {TierChange::stored, name_of(2)},
                                            {TierChange::removed, name_of(1)},
                                            {TierChange::stored, name_of(3)},
                                            {TierChange::removed, name_of(2)}}));
}

}  // namespace
}  // namespace folio::test
