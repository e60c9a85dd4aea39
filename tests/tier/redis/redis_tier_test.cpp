// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/redis_tier_test.cpp: pages in a real server, and what becomes of them there.
#include "folio/tier/redis_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "tier/redis/redis_server.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t mib = 1 << 20;

class RedisTier : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_redis_server()) GTEST_SKIP() << "no redis-server here";
  }
};

std::unique_ptr<Tier> open(const RedisServer& server, RedisOptions redis = {},
                           TierOptions options = {.threads = 2, .max_bytes = 64 * mib}) {
  const std::string socket = server.socket();
  redis.socket = socket;
  return make_redis_tier(redis, options).value();
}

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

// ---- What is not right

/// The value of page 1 is replaced; nothing of that reaches the page.
struct Replaced {
  explicit Replaced(RedisServer& s) : server(s), tier(open(s)) {
    page.fill(7);
    EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
    key = server.keys().at(0);
    value = server.text({"GET", key});
  }
  void expect_corrupt(const char* why) {
    const std::vector<std::byte> before = back.memory();
    EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::corrupt) << why;
    EXPECT_THAT(std::string(tier->last_fault().message()), HasSubstr(why));
    EXPECT_EQ(back.memory(), before) << why;
  }
  void expect_repaired() {
    server.command({"DEL", key});
    EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
    EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::done) << "it can be stored anew";
    EXPECT_EQ(back.memory(), page.memory());
  }
  RedisServer& server;
  std::unique_ptr<Tier> tier;
  PageMemory page{{5000, 3000}}, back{{5000, 3000}};
  std::string key, value;
};

TEST_F(RedisTier, takes_keys_of_another_type_for_corrupt) {
  RedisServer server;
  Replaced r(server);
  server.command({"DEL", r.key});
  server.command({"LPUSH", r.key, "x"});
  r.expect_corrupt("WRONGTYPE");
  r.expect_repaired();
}

TEST_F(RedisTier, takes_values_of_another_size_for_corrupt) {
  RedisServer server;
  Replaced r(server);
  for (const std::string& value :
       {std::string(), std::string("x"), r.value.substr(1), r.value + "x",
        std::string(static_cast<size_t>(3 * mib), 'x'), r.value.substr(0, 128)}) {
    server.command({"SET", r.key, value});
    r.expect_corrupt("another size");
  }
  r.expect_repaired();
}

TEST_F(RedisTier, takes_values_of_another_version_page_or_model_for_corrupt) {
  RedisServer server;
  Replaced r(server);
  std::string damaged = r.value;
  damaged[8] = 2;
  server.command({"SET", r.key, damaged});
  r.expect_corrupt("another version");
  damaged = r.value;
  damaged[0] ^= 1;
  server.command({"SET", r.key, damaged});
  r.expect_corrupt("no header");

  PageMemory other({8000});
  ASSERT_EQ(store(*r.tier, name_of(2), other), TierOutcome::done);
  std::string key_of_other = r.key;
  key_of_other[key_of_other.size() - 63] = '2';
  server.command({"SET", r.key, server.text({"GET", key_of_other})});
  r.expect_corrupt("another page");
  r.expect_repaired();
}

TEST_F(RedisTier, takes_each_bit_that_changed_for_corrupt) {
  RedisServer server;
  Replaced r(server);
  Rng rng(test_seed());
  for (int i = 0; i < 300; ++i) {
    std::string damaged = r.value;
    damaged[static_cast<size_t>(rng.between(0, i < 150 ? 127 : std::ssize(damaged) - 1))] ^=
        static_cast<char>(1 << rng.between(0, 7));
    server.command({"SET", r.key, damaged});
    ASSERT_EQ(load(*r.tier, name_of(1), r.back), TierOutcome::corrupt);
  }
  r.expect_repaired();
}

TEST_F(RedisTier, that_is_full_refuses_pages_and_serves_on) {
  RedisServer server({.arguments = {"--maxmemory", "4mb", "--maxmemory-policy", "noeviction"}});
  const auto tier = open(server);
  PageMemory page({200'000}), back({200'000});
  std::map<TierOutcome, int> outcomes;
  std::vector<uint32_t> stored;
  for (uint32_t i = 0; i < 60; ++i) {
    page.fill(i);
    const TierOutcome outcome = store(*tier, name_of(i), page);
    ++outcomes[outcome];
    if (outcome == TierOutcome::done) stored.push_back(i);
  }
  EXPECT_GT(outcomes[TierOutcome::full], 20);
  EXPECT_GT(outcomes[TierOutcome::done], 3);
  EXPECT_EQ(outcomes[TierOutcome::full] + outcomes[TierOutcome::done], 60);
  EXPECT_THAT(tier->last_fault().message(), HasSubstr("OOM"));
  for (const uint32_t i : stored) {
    page.fill(i);
    ASSERT_EQ(load(*tier, name_of(i), back), TierOutcome::done);
    ASSERT_EQ(back.memory(), page.memory());
  }
}

TEST_F(RedisTier, whose_server_evicts_misses) {
  RedisServer server({.arguments = {"--maxmemory", "4mb", "--maxmemory-policy", "allkeys-lru"}});
  const auto tier = open(server);
  PageMemory page({200'000}), back({200'000});
  for (uint32_t i = 0; i < 60; ++i) {
    page.fill(i);
    ASSERT_EQ(store(*tier, name_of(i), page), TierOutcome::done);
  }
  int found = 0;
  for (uint32_t i = 0; i < 60; ++i) {
    const TierOutcome outcome = load(*tier, name_of(i), back);
    if (outcome == TierOutcome::missing) continue;
    ASSERT_EQ(outcome, TierOutcome::done);
    ++found;
    page.fill(i);
    ASSERT_EQ(back.memory(), page.memory());
  }
  EXPECT_GT(found, 3);
  EXPECT_LT(found, 40);
}

TEST_F(RedisTier, of_a_replica_loads_and_cannot_store) {
  RedisServer server;
  Replaced r(server);
  RedisServer replica({.arguments = {"--replicaof", "127.0.0.1", std::to_string(server.port())}});
  while (replica.integer({"DBSIZE"}) != 1) usleep(10'000);
  const auto tier = open(replica);
  EXPECT_EQ(load(*tier, name_of(1), r.back), TierOutcome::done);
  EXPECT_EQ(r.back.memory(), r.page.memory());
  EXPECT_EQ(store(*tier, name_of(2), r.page), TierOutcome::failed);
  EXPECT_THAT(tier->last_fault().message(), HasSubstr("READONLY"));
}

// ---- Who may

TEST_F(RedisTier, logs_in) {
  const std::string secret = "s3cret!@:/";
  RedisServer server({.arguments = {"--requirepass", secret}, .password = secret});
  PageMemory page({100});
  EXPECT_EQ(store(*open(server, {.password = secret, .database = 3}), name_of(1), page),
            TierOutcome::done);
  EXPECT_EQ(server.integer({"DBSIZE"}), 0);
  server.command({"SELECT", "3"});
  EXPECT_EQ(server.integer({"DBSIZE"}), 1);

  server.command({"ACL", "SETUSER", "engine", "on", ">other", "~folio:*", "+get", "+set"});
  const auto user = open(server, {.user = "engine", .password = "other"});
  EXPECT_EQ(store(*user, name_of(1), page), TierOutcome::done);

  const auto by_url =
      make_redis_tier("redis://:s3cret!%40%3a%2F@127.0.0.1:" + std::to_string(server.port()) + "/3",
                      {.max_bytes = mib})
          .value();
  EXPECT_EQ(load(*by_url, name_of(1), page), TierOutcome::done);
}

TEST_F(RedisTier, that_may_not_says_so_without_the_password) {
  const std::string secret = "s3cret", wrong = "hunter2";
  RedisServer server({.arguments = {"--requirepass", secret}, .password = secret});
  PageMemory page({100});
  const auto tier = open(server, {.password = wrong});
  EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::failed);
  EXPECT_THAT(tier->last_fault().message(), HasSubstr("refuses the login: WRONGPASS"));
  EXPECT_THAT(std::string(tier->last_fault().message()), Not(HasSubstr(wrong)));
  const auto nobody = open(server);
  EXPECT_EQ(load(*nobody, name_of(1), page), TierOutcome::failed);
  EXPECT_THAT(nobody->last_fault().message(), HasSubstr("NOAUTH"));
  const auto nowhere = open(server, {.password = secret, .database = 99});
  EXPECT_EQ(load(*nowhere, name_of(1), page), TierOutcome::failed);
  EXPECT_THAT(nowhere->last_fault().message(), HasSubstr("database 99"));
  server.command({"ACL", "SETUSER", "reader", "on", ">other", "~folio:*", "+get"});
  const auto reader = open(server, {.user = "reader", .password = "other"});
  EXPECT_EQ(load(*reader, name_of(1), page), TierOutcome::missing);
  EXPECT_EQ(store(*reader, name_of(1), page), TierOutcome::failed);
  EXPECT_THAT(reader->last_fault().message(), HasSubstr("NOPERM"));
}

// ---- Servers that go and come

TEST_F(RedisTier, whose_server_is_away_misses_at_once_and_finds_it_again) {
  RedisServer server;
  const auto tier = open(server);
  PageMemory page({1000}), back({1000});
  page.fill(1);
  ASSERT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  server.kill_it();
  EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::failed);
  EXPECT_THAT(tier->last_fault().message(), HasSubstr(server.socket()));
  EXPECT_THAT(tier->last_fault().message(), HasSubstr("cannot connect"));
  for (int i = 0; i < 100; ++i) ASSERT_EQ(store(*tier, name_of(2), page), TierOutcome::failed);
  const PageName names[] = {name_of(1)};
  tier->drop(names).or_throw();
  server.start();
  while (load(*tier, name_of(2), back) == TierOutcome::failed) usleep(1000);
  ASSERT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::done);
  EXPECT_EQ(back.memory(), page.memory());
}

TEST_F(RedisTier, stores_again_what_a_server_has_lost) {
  RedisServer server;
  const auto tier = open(server);
  PageMemory page({1000}), back({1000});
  page.fill(1);
  ASSERT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  server.kill_it();
  server.start();
  EXPECT_EQ(load(*tier, name_of(2), back), TierOutcome::missing) << "a new connection, at once";
  ASSERT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  EXPECT_EQ(server.integer({"DBSIZE"}), 1);
}

TEST_F(RedisTier, whose_server_stands_still_gives_up) {
  RedisServer server;
  const auto tier = open(server, {.command_timeout_ms = 50});
  PageMemory page({1000});
  ASSERT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  kill(server.pid(), SIGSTOP);
  EXPECT_EQ(load(*tier, name_of(1), page), TierOutcome::failed);
  EXPECT_THAT(tier->last_fault().message(), HasSubstr("no answer in time"));
  kill(server.pid(), SIGCONT);
  while (load(*tier, name_of(1), page) == TierOutcome::failed) usleep(1000);
  EXPECT_EQ(load(*tier, name_of(1), page), TierOutcome::done);
}

}  // namespace
}  // namespace folio::test
