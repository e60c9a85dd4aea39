// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/redis_read_only_test.cpp: servers that take no pages, and give those that they
/// have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "support/resource_limit.h"
#include "tier/manager/read_only.h"
#include "tier/redis/redis_fixture.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;
constexpr int64_t num_pages = 8 * ReadOnlyRounds::num_prompts;

class RedisReadOnly : public RedisTier {
 protected:
  static void fill(const RedisServer& server) {
    const auto tier = open(server);
    ReadOnlyRounds(*tier).store_all();
  }
  /// All is loaded, and stores end so, with the server's words.
  static void expect_read(Tier& tier, TierOutcome stores, const char* why) {
    const TierCounters counters = ReadOnlyRounds(tier).expect_all_loaded();
    EXPECT_GT(ended_as(counters, stores), 0);
    EXPECT_EQ(ended_as(counters, TierOutcome::done), 0);
    EXPECT_EQ(counters.store_rests.begun[static_cast<size_t>(RestReason::failed)] > 0,
              stores == TierOutcome::failed);
    EXPECT_THAT(tier.last_fault().message(), HasSubstr(why));
  }
};

TEST_F(RedisReadOnly, as_a_replica_is_loaded_from) {
  RedisServer server;
  fill(server);
  RedisServer replica({.arguments = {"--replicaof", "127.0.0.1", std::to_string(server.port())}});
  while (replica.integer({"DBSIZE"}) != num_pages) usleep(10'000);
  expect_read(*open(replica), TierOutcome::failed, "READONLY");
}

TEST_F(RedisReadOnly, to_a_user_is_loaded_from) {
  RedisServer server;
  fill(server);
  server.command({"ACL", "SETUSER", "reader", "on", ">word", "~folio:*", "+get", "+getrange"});
  expect_read(*open(server, {.user = "reader", .password = "word"}), TierOutcome::failed, "NOPERM");
}

TEST_F(RedisReadOnly, as_it_has_no_memory_is_loaded_from) {
  RedisServer server;
  fill(server);
  server.command({"CONFIG", "SET", "maxmemory", "1"});
  expect_read(*open(server), TierOutcome::full, "OOM");
}

TEST_F(RedisReadOnly, as_it_cannot_save_is_loaded_from) {
  RedisServer server({.arguments = {"--save", "3600", "1000000"}});
  fill(server);
  std::filesystem::create_directory(server.folder() + "/dump.rdb");
  server.command({"BGSAVE"});
  while (server.text({"INFO", "persistence"}).find("rdb_last_bgsave_status:err") ==
         std::string::npos)
    usleep(10'000);
  expect_read(*open(server), TierOutcome::failed, "MISCONF");
}

/// A second connection cannot be made: that says nothing of the server, nor of the first one.
TEST_F(RedisReadOnly, without_a_socket_to_be_had_is_loaded_from) {
  RedisServer server;
  fill(server);
  const auto tier = open(server, {}, {.threads = 1, .max_bytes = 64 * mib});
  PageMemory page({100}), back({100});
  ASSERT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  const auto other = open(server);
  {
    const NoMoreFiles limit;
    EXPECT_EQ(load(*other, name_of(1), back), TierOutcome::failed);
    EXPECT_THAT(other->last_fault().message(), HasSubstr("no socket to be had"));
    EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::done);
  }
  EXPECT_EQ(load(*other, name_of(1), back), TierOutcome::done) << "at once: it was not away";
}

}  // namespace
}  // namespace folio::test
