// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/redis_failover_test.cpp: servers that cannot serve just now, and those that
/// take the place of others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "folio/tier/redis_tier.h"
#include "tier/redis/fake_server.h"
#include "tier/redis/patient.h"
#include "tier/redis/redis_server.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;
using Words = FakeServer::Words;

// ---- Answers of servers that cannot serve

std::unique_ptr<Tier> open(const FakeServer& server, UnknownPages unknown = UnknownPages::hoped) {
  return make_redis_tier(patient({.port = server.port(), .unknown = unknown, .absent_ms = 0}),
                         {.threads = 1, .max_bytes = 1 << 30})
      .value();
}

/// As servers say it.
const std::string& any_refusal(size_t i) {
  static const std::string refusals[] = {
      "-LOADING Redis is loading the dataset in memory",
      "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
      "-READONLY You can't write against a read only replica.",
      "-CLUSTERDOWN The cluster is down",
      "-CLUSTERDOWN Hash slot not served",
      "-TRYAGAIN Multiple keys request during rehashing of slot",
      "-NOREPLICAS Not enough good replicas to write.",
      "-BUSY Redis is busy running a script.",
      "-MISCONF Errors writing to the AOF file: No space left on device",
      "-UNKILLABLE of a later version",
      "-MOVED 5 127.0.0.1:1"};
  return refusals[i % std::size(refusals)];
}
constexpr size_t num_refusals = 11;

TEST(RedisFailover, refusals_are_counted_and_say_why_and_pass) {
  for (size_t i = 0; i < num_refusals; ++i) {
    const std::string& refusal = any_refusal(i);
    std::atomic<bool> refuses = true;
    FakeServer server([&](const Words& words) {
      if (refuses && words[0] != "CLUSTER") return Saying{.bytes = refusal + "\r\n"};
      return Saying{.bytes = words[0] == "SET" ? "+OK\r\n" : "$-1\r\n"};
    });
    const auto tier = open(server);
    PageMemory page({1000});
    const std::vector<std::byte> before = page.memory();
    for (const LoadOrder order : {LoadOrder::pages, LoadOrder::extents})
      ASSERT_EQ(load(*tier, name_of(1), page, order), TierOutcome::failed) << refusal;
    ASSERT_EQ(store(*tier, name_of(2), page), TierOutcome::failed) << refusal;
    EXPECT_EQ(page.memory(), before);
    const std::string word = refusal.substr(1, refusal.find(' ') - 1);
    EXPECT_THAT(std::string(tier->last_fault().message()),
                HasSubstr(word == "MOVED" ? "127.0.0.1:1: cannot connect" : word));
    TierFigures figures = tier->figures();
    EXPECT_EQ(figures.load_outcomes[static_cast<size_t>(TierOutcome::failed)], 2);
    EXPECT_EQ(figures.store_outcomes[static_cast<size_t>(TierOutcome::failed)], 1);
    EXPECT_EQ(figures.pages, 0) << "nothing has been stored";
    if (word == "MOVED") continue;  // where it went stays: the server has said so
    refuses = false;
    EXPECT_EQ(store(*tier, name_of(2), page), TierOutcome::done) << "at once: it has answered";
    EXPECT_EQ(load(*tier, name_of(1), page), TierOutcome::missing);
    EXPECT_EQ(server.connections(), 1U) << "a refusal is no reason to connect anew";
  }
}

TEST(RedisFailover, some_slots_may_be_served_by_nobody) {
  FakeServer server([&](const Words& words) {
    if (words[0] == "CLUSTER") return Saying{.bytes = "*0\r\n"};
    const bool is_odd = (words[1][words[1].size() - 63] - '0') % 2 != 0;
    if (is_odd) return Saying{.bytes = "-MOVED 5 127.0.0.1:1\r\n"};
    return Saying{.bytes = words[0] == "SET" ? "+OK\r\n" : "$-1\r\n"};
  });
  const auto tier = open(server);
  PageMemory page({1000});
  for (uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(store(*tier, name_of(i), page), i % 2 == 0 ? TierOutcome::done : TierOutcome::failed);
    EXPECT_EQ(tier->figures().pages, int64_t{i} / 2 + 1);
  }
}

TEST(RedisFailover, a_question_that_is_refused_is_asked_again) {
  std::atomic<int> refusals = 2;
  FakeServer server([&](const Words& words) {
    if (words[0] == "EXISTS" && refusals-- > 0)
      return Saying{.bytes = "-LOADING Redis is loading the dataset in memory\r\n"};
    return Saying{.bytes = ":1\r\n"};
  });
  const auto tier = open(server, UnknownPages::asked);
  const PageName names[] = {name_of(1)};
  while (tier->find(names) == 0) usleep(1000);
  EXPECT_THAT(tier->last_fault().message(), HasSubstr("LOADING"));
}

// ---- Real ones

class RedisFailoverOfServers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_redis_server()) GTEST_SKIP() << "no redis-server here";
    wanted_.fill(7);
  }
  static std::unique_ptr<Tier> open(const RedisServer& server) {
    const std::string socket = server.socket();
    return make_redis_tier(patient({.socket = socket, .absent_ms = 0}), {.max_bytes = 1 << 30})
        .value();
  }
  PageMemory wanted_{{5000, 3000}}, back_{{5000, 3000}};
};

TEST_F(RedisFailoverOfServers, a_replica_that_becomes_the_first_takes_stores) {
  RedisServer first;
  ASSERT_EQ(store(*open(first), name_of(1), wanted_), TierOutcome::done);
  RedisServer replica({.arguments = {"--replicaof", "127.0.0.1", std::to_string(first.port())}});
  while (replica.integer({"DBSIZE"}) != 1) usleep(10'000);
  const auto tier = open(replica);
  EXPECT_EQ(store(*tier, name_of(2), wanted_), TierOutcome::failed);
  EXPECT_THAT(tier->last_fault().message(), HasSubstr("READONLY"));
  first.kill_it();
  EXPECT_EQ(load(*tier, name_of(1), back_), TierOutcome::done);
  EXPECT_EQ(back_.memory(), wanted_.memory());
  EXPECT_EQ(store(*tier, name_of(2), wanted_), TierOutcome::failed);
  replica.command({"REPLICAOF", "NO", "ONE"});
  EXPECT_EQ(store(*tier, name_of(2), wanted_), TierOutcome::done);
  back_.fill(1);
  EXPECT_EQ(load(*tier, name_of(2), back_), TierOutcome::done);
  EXPECT_EQ(back_.memory(), wanted_.memory());
}

TEST_F(RedisFailoverOfServers, a_first_one_that_becomes_a_replica_of_nobody_is_read) {
  RedisServer server;
  const auto tier = open(server);
  ASSERT_EQ(store(*tier, name_of(1), wanted_), TierOutcome::done);
  server.command({"REPLICAOF", "127.0.0.1", "1"});
  EXPECT_EQ(load(*tier, name_of(1), back_), TierOutcome::done);
  EXPECT_EQ(back_.memory(), wanted_.memory());
  EXPECT_EQ(store(*tier, name_of(2), wanted_), TierOutcome::failed);
  server.command({"CONFIG", "SET", "replica-serve-stale-data", "no"});
  EXPECT_EQ(load(*tier, name_of(1), back_), TierOutcome::failed);
  EXPECT_THAT(tier->last_fault().message(), HasSubstr("MASTERDOWN"));
  server.command({"REPLICAOF", "NO", "ONE"});
  EXPECT_EQ(load(*tier, name_of(1), back_), TierOutcome::done);
}

TEST_F(RedisFailoverOfServers, one_that_is_still_loading_is_a_miss_until_it_has_loaded) {
  RedisServer server;
  const auto tier = open(server);
  for (uint32_t i = 0; i < 200; ++i)
    ASSERT_EQ(store(*tier, name_of(i), wanted_), TierOutcome::done);
  server.command({"SAVE"});
  server.kill_it();
  server.set_arguments(
      {"--key-load-delay", "200000", "--loading-process-events-interval-bytes", "1024"});
  server.begin_to_start();
  const auto is_loading = [&] {
    EXPECT_EQ(load(*tier, name_of(1), back_), TierOutcome::failed);
    return std::string_view(tier->last_fault().message()).find("LOADING") != std::string_view::npos;
  };
  ASSERT_TRUE(comes_true(is_loading));
  server.command({"CONFIG", "SET", "key-load-delay", "0"});
  TierOutcome outcome = TierOutcome::failed;
  while (outcome == TierOutcome::failed) outcome = load(*tier, name_of(1), back_);
  EXPECT_EQ(outcome, TierOutcome::done);
  EXPECT_EQ(back_.memory(), wanted_.memory());
}

}  // namespace
}  // namespace folio::test
