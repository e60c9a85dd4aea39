// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/redis_tier_test.cpp: pages in a real server: what comes back, is found,
/// and goes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <string>
#include <vector>

#include "tier/redis/redis_fixture.h"

namespace folio::test {
namespace {

using ::testing::ElementsAre;

TEST_F(RedisTier, gives_back_what_it_was_given_and_what_another_was) {
  RedisServer server;
  PageMemory page({1, 4096, 77, 10'000}), back({1, 4096, 77, 10'000}), joined({14'174});
  page.fill(7);
  const auto tier = open(server), other = open(server);
  EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::missing);
  EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  for (Tier* const t : {tier.get(), other.get()}) {
    back.fill(1);
    EXPECT_EQ(load(*t, name_of(1), back), TierOutcome::done);
    EXPECT_EQ(back.memory(), page.memory());
    EXPECT_EQ(load(*t, name_of(1), joined), TierOutcome::done) << "runs are the caller's business";
  }
  EXPECT_TRUE(tier->last_fault().is_ok()) << tier->last_fault().message();
  EXPECT_EQ(tier->figures().pages, 1);
  EXPECT_EQ(tier->figures().bytes, 14'174 + 128);
  EXPECT_EQ(other->figures().pages, 0) << "it is not its own";
}

TEST_F(RedisTier, gives_back_many_pages_in_each_order) {
  RedisServer server;
  const auto tier = open(server, {.depth = 5});
  Rng rng(test_seed());
  std::vector<PageMemory> pages;
  std::vector<TierPage> all;
  for (uint32_t i = 0; i < 100; ++i) {
    std::vector<int64_t> runs;
    for (int64_t r = rng.between(1, 400); r > 0; --r) runs.push_back(rng.between(1, 3000));
    pages.emplace_back(runs).fill(i);
    pages.emplace_back(runs);
  }
  for (uint32_t i = 0; i < 100; ++i) all.push_back({name_of(i), pages[2 * i].extents()});
  tier->store(all).value();
  for (const TierCompletion& c : wait_for(*tier, 100)) EXPECT_EQ(c.outcome, TierOutcome::done);
  for (uint32_t i = 0; i < 100; ++i) all[i].extents = pages[2 * i + 1].extents();
  rng.shuffle(all);
  tier->load(all, 0).value();
  for (const TierCompletion& c : wait_for(*tier, 100)) EXPECT_EQ(c.outcome, TierOutcome::done);
  for (uint32_t i = 0; i < 100; ++i)
    ASSERT_EQ(pages[2 * i].memory(), pages[2 * i + 1].memory()) << i;
}

// ---- What it finds

TEST_F(RedisTier, hopes_for_pages_until_it_knows) {
  RedisServer server;
  const auto tier = open(server, {.absent_ms = 1 << 30}), other = open(server);
  PageMemory page({100});
  const PageName names[] = {name_of(0), name_of(1), name_of(2)};
  EXPECT_EQ(tier->find(names), 3);
  EXPECT_EQ(store(*tier, name_of(0), page), TierOutcome::done);
  EXPECT_EQ(load(*tier, name_of(1), page), TierOutcome::missing);
  EXPECT_EQ(tier->find(names), 1);
  EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  EXPECT_EQ(tier->find(names), 3);
  EXPECT_EQ(tier->find({}), 0);
}

TEST_F(RedisTier, forgets_soon_that_a_page_was_absent) {
  RedisServer server;
  const auto tier = open(server, {.absent_ms = 1});
  PageMemory page({100});
  const PageName names[] = {name_of(0)};
  EXPECT_EQ(load(*tier, name_of(0), page), TierOutcome::missing);
  while (tier->find(names) == 0) usleep(1000);
}

TEST_F(RedisTier, asks_the_server_where_it_may_not_hope) {
  RedisServer server;
  const auto other = open(server), tier = open(server, {.unknown = UnknownPages::asked});
  PageMemory page({100});
  std::vector<PageName> names;
  for (uint32_t i = 0; i < 50; ++i) {
    names.push_back(name_of(i));
    if (i == 40) continue;
    EXPECT_EQ(store(*other, name_of(i), page), TierOutcome::done);
  }
  EXPECT_EQ(tier->find(names), 0);
  while (tier->find(names) < 40) usleep(1000);
  EXPECT_EQ(tier->find(names), 40);
}

TEST_F(RedisTier, waits_for_the_servers_answers_where_it_may) {
  RedisServer server;
  const auto other = open(server);
  const auto tier =
      open(server, {.unknown = UnknownPages::asked, .absent_ms = 1 << 30, .ask_wait_ms = 20'000});
  PageMemory page({100});
  std::vector<PageName> names;
  for (uint32_t i = 0; i < 50; ++i) {
    names.push_back(name_of(i));
    if (i == 40) continue;
    EXPECT_EQ(store(*other, name_of(i), page), TierOutcome::done);
  }
  EXPECT_EQ(tier->find(names), 40) << "the first time";
  EXPECT_EQ(tier->find(std::span(names).subspan(41)), 9);
  std::vector<uint8_t> there(names.size());
  tier->find_each(names, there);
  EXPECT_EQ(std::accumulate(there.begin(), there.end(), 0), 49);
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(tier->find({&names[40], 1}), 0) << "known to be absent";
  server.kill_it();
  const PageName unknown = name_of(99);
  EXPECT_EQ(tier->find({&unknown, 1}), 0) << "nobody answers";
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(15));
}

// ---- What goes

TEST_F(RedisTier, drops_what_it_is_told_to) {
  RedisServer server;
  const auto tier = open(server);
  PageMemory page({100});
  EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  EXPECT_EQ(store(*tier, name_of(2), page), TierOutcome::done);
  const PageName names[] = {name_of(1), name_of(3)};
  tier->drop(names).or_throw();
  EXPECT_EQ(load(*tier, name_of(1), page), TierOutcome::missing) << "from now on";
  EXPECT_EQ(tier->find(names), 0);
  while (server.integer({"DBSIZE"}) != 1) usleep(1000);
  while (tier->figures().dropped_pages != 1) usleep(1000);
  EXPECT_EQ(tier->figures().pages, 1);
  EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  EXPECT_EQ(load(*tier, name_of(1), page), TierOutcome::done);
}

TEST_F(RedisTier, drops_before_it_ends) {
  RedisServer server;
  PageMemory page({100});
  std::vector<PageName> names;
  {
    const auto tier = open(server);
    for (uint32_t i = 0; i < 100; ++i) {
      names.push_back(name_of(i));
      ASSERT_EQ(store(*tier, name_of(i), page), TierOutcome::done);
    }
    tier->drop(names).or_throw();
  }
  EXPECT_EQ(server.integer({"DBSIZE"}), 0);
}

TEST_F(RedisTier, keeps_its_bound_and_what_was_used_last) {
  RedisServer server;
  const auto tier = open(server, {}, {.max_bytes = 3 * 228});
  PageMemory page({100});
  for (uint32_t i = 0; i < 3; ++i) ASSERT_EQ(store(*tier, name_of(i), page), TierOutcome::done);
  EXPECT_EQ(load(*tier, name_of(0), page), TierOutcome::done);
  EXPECT_EQ(store(*tier, name_of(3), page), TierOutcome::done);
  EXPECT_EQ(tier->figures().bytes, 3 * 228);
  while (server.integer({"DBSIZE"}) != 3) usleep(1000);
  EXPECT_EQ(load(*tier, name_of(0), page), TierOutcome::done);
  EXPECT_EQ(load(*tier, name_of(1), page), TierOutcome::missing);
  PageMemory large({3 * 228});
  EXPECT_EQ(store(*tier, name_of(4), large), TierOutcome::full);
  EXPECT_EQ(tier->figures().pages, 3) << "nothing went for a page that cannot be kept";
}

TEST_F(RedisTier, gives_pages_their_time) {
  RedisServer server;
  const auto tier = open(server, {.ttl_s = 1}), lasting = open(server, {.ttl_s = 1000});
  PageMemory page({100});
  ASSERT_EQ(store(*lasting, name_of(1), page), TierOutcome::done);
  EXPECT_GT(server.integer({"TTL", server.keys().at(0)}), 900);
  ASSERT_EQ(store(*tier, name_of(2), page), TierOutcome::done);
  while (load(*tier, name_of(2), page) == TierOutcome::done) usleep(10'000);
  EXPECT_EQ(load(*tier, name_of(1), page), TierOutcome::done);
}

TEST_F(RedisTier, has_keys_by_namespace_and_fingerprint) {
  RedisServer server;
  const TierOptions bytes{.max_bytes = mib};
  TierOptions other = bytes;
  other.fingerprint.bytes[0] = 0xa5;
  const auto a = open(server, {.name_space = "a"}, bytes), b = open(server, {.name_space = "b"}),
             c = open(server, {.name_space = "a"}, other);
  PageMemory page({100});
  ASSERT_EQ(store(*a, name_of(1), page), TierOutcome::done);
  EXPECT_EQ(load(*b, name_of(1), page), TierOutcome::missing);
  EXPECT_EQ(load(*c, name_of(1), page), TierOutcome::missing);
  EXPECT_THAT(server.keys(),
              ElementsAre("folio:a:" + std::string(64, '0') + ":01" + std::string(62, '0')));
}

}  // namespace
}  // namespace folio::test
