// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/redis_servers_test.cpp: servers that are full, refuse, go away, or stand
/// still.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tier/redis/redis_fixture.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// ---- Full

/// 12 MB in all.
class ManyPages {
 public:
  static constexpr uint32_t count = 60;
  TierOutcome put(Tier& tier, uint32_t i) {
    page_.fill(i);
    return store(tier, name_of(i), page_);
  }
  TierOutcome get(Tier& tier, uint32_t i) {
    const TierOutcome outcome = load(tier, name_of(i), back_);
    page_.fill(i);
    if (outcome == TierOutcome::done && back_.memory() != page_.memory())
      ADD_FAILURE() << "wrong bytes in page " << i;
    return outcome;
  }

 private:
  PageMemory page_{{200'000}}, back_{{200'000}};
};

TEST_F(RedisTier, that_is_full_refuses_pages_and_serves_on) {
  RedisServer server({.arguments = {"--maxmemory", "4mb", "--maxmemory-policy", "noeviction"}});
  const auto tier = open(server);
  ManyPages pages;
  std::map<TierOutcome, int> outcomes;
  std::vector<uint32_t> stored;
  for (uint32_t i = 0; i < ManyPages::count; ++i) {
    const TierOutcome outcome = pages.put(*tier, i);
    ++outcomes[outcome];
    if (outcome == TierOutcome::done) stored.push_back(i);
  }
  EXPECT_GT(outcomes[TierOutcome::full], 20);
  EXPECT_GT(outcomes[TierOutcome::done], 3);
  EXPECT_EQ(outcomes[TierOutcome::full] + outcomes[TierOutcome::done], int{ManyPages::count});
  EXPECT_THAT(tier->last_fault().message(), HasSubstr("OOM"));
  for (const uint32_t i : stored) ASSERT_EQ(pages.get(*tier, i), TierOutcome::done);
}

TEST_F(RedisTier, whose_server_evicts_misses) {
  RedisServer server({.arguments = {"--maxmemory", "4mb", "--maxmemory-policy", "allkeys-lru"}});
  const auto tier = open(server);
  ManyPages pages;
  for (uint32_t i = 0; i < ManyPages::count; ++i) ASSERT_EQ(pages.put(*tier, i), TierOutcome::done);
  int found = 0;
  for (uint32_t i = 0; i < ManyPages::count; ++i) {
    const TierOutcome outcome = pages.get(*tier, i);
    if (outcome == TierOutcome::missing) continue;
    ASSERT_EQ(outcome, TierOutcome::done);
    ++found;
  }
  EXPECT_GT(found, 3);
  EXPECT_LT(found, 40);
}

TEST_F(RedisTier, of_a_replica_loads_and_cannot_store) {
  RedisServer server;
  Stored stored(server);
  RedisServer replica({.arguments = {"--replicaof", "127.0.0.1", std::to_string(server.port())}});
  while (replica.integer({"DBSIZE"}) != 1) usleep(10'000);
  const auto tier = open(replica);
  stored.expect_loaded(*tier);
  EXPECT_EQ(store(*tier, name_of(2), stored.page), TierOutcome::failed);
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
                      {.max_bytes = mib}, patient({}))
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
  Stored stored(server);
  Tier* const tier = stored.tier.get();
  server.kill_it();
  EXPECT_EQ(load(*tier, name_of(1), stored.back), TierOutcome::failed);
  EXPECT_THAT(tier->last_fault().message(), HasSubstr(server.socket()));
  EXPECT_THAT(tier->last_fault().message(), HasSubstr("cannot connect"));
  for (int i = 0; i < 100; ++i)
    ASSERT_EQ(store(*tier, name_of(2), stored.page), TierOutcome::failed);
  const PageName names[] = {name_of(1)};
  tier->drop(names).or_throw();
  server.start();
  while (load(*tier, name_of(2), stored.back) == TierOutcome::failed) usleep(1000);
  ASSERT_EQ(store(*tier, name_of(1), stored.page), TierOutcome::done);
  stored.expect_loaded(*tier);
}

TEST_F(RedisTier, stores_again_what_a_server_has_lost) {
  RedisServer server;
  Stored stored(server);
  server.kill_it();
  server.start();
  EXPECT_EQ(load(*stored.tier, name_of(2), stored.back), TierOutcome::missing)
      << "a new connection, at once";
  ASSERT_EQ(store(*stored.tier, name_of(1), stored.page), TierOutcome::done);
  EXPECT_EQ(server.integer({"DBSIZE"}), 1);
}

TEST_F(RedisTier, whose_server_stands_still_gives_up) {
  RedisServer server;
  Stored stored(server);
  const auto tier = open(server, {.command_timeout_ms = 50});
  kill(server.pid(), SIGSTOP);
  EXPECT_EQ(load(*tier, name_of(1), stored.back), TierOutcome::failed);
  EXPECT_THAT(tier->last_fault().message(), HasSubstr("no answer in time"));
  kill(server.pid(), SIGCONT);
  while (load(*tier, name_of(1), stored.back) == TierOutcome::failed) usleep(1000);
  EXPECT_EQ(stored.back.memory(), stored.page.memory());
}

}  // namespace
}  // namespace folio::test
