// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/redis_cluster_test.cpp: three servers that share the keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "folio/tier/redis_tier.h"
#include "tier/redis/patient.h"
#include "tier/redis/redis_server.h"
#include "tier/redis/router.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t num_pages = 200;

class RedisCluster : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_redis_server()) GTEST_SKIP() << "no redis-server here";
    const std::string slots[] = {"0", "5460", "5461", "10922", "10923", "16383"};
    for (size_t i = 0; i < 3; ++i) {
      nodes_.push_back(std::make_unique<RedisServer>(RedisServer::Options{
          .arguments = {"--cluster-enabled", "yes", "--cluster-require-full-coverage", "no",
                        "--cluster-port", bus_ports_[i].text(), "--cluster-node-timeout",
                        std::to_string(no_deadline_ms)}}));
      nodes_[i]->command({"CLUSTER", "ADDSLOTSRANGE", slots[2 * i], slots[2 * i + 1]});
    }
    for (size_t i = 1; i < 3; ++i)
      nodes_[0]->command({"CLUSTER", "MEET", "127.0.0.1", std::to_string(nodes_[i]->port()),
                          bus_ports_[i].text()});
    for (const auto& node : nodes_)
      for (const char* state : {"cluster_slots_assigned:16384", "cluster_state:ok"})
        while (node->text({"CLUSTER", "INFO"}).find(state) == std::string::npos) usleep(10'000);
    for (uint32_t i = 0; i < num_pages; ++i)
      pages_.emplace_back(std::vector<int64_t>{3000}).fill(i);
  }

  std::unique_ptr<Tier> open(size_t node = 0) {
    const std::string socket = nodes_[node]->socket();
    return make_redis_tier(patient({.socket = socket, .absent_ms = 0}), {.max_bytes = 1 << 30})
        .value();
  }
  std::vector<TierPage> all_pages() {
    std::vector<TierPage> all;
    for (uint32_t i = 0; i < num_pages; ++i) all.push_back({name_of(i), pages_[i].extents()});
    return all;
  }
  /// How many of all pages are there; each of them is right.
  int count_found(Tier& tier) {
    PageMemory back({3000});
    int found = 0;
    for (uint32_t i = 0; i < num_pages; ++i) {
      if (load(tier, name_of(i), back) != TierOutcome::done) continue;
      EXPECT_EQ(back.memory(), pages_[i].memory());
      ++found;
    }
    return found;
  }
  static std::string key_of(uint32_t page) {
    std::string key = "folio:default:" + std::string(64, '0') + ":";
    for (const uint8_t byte : name_of(page).bytes) {
      key += "0123456789abcdef"[byte >> 4];
      key += "0123456789abcdef"[byte & 15];
    }
    return key;
  }

  std::array<ReservedPort, 3> bus_ports_;
  std::vector<std::unique_ptr<RedisServer>> nodes_;
  std::vector<PageMemory> pages_;
};

TEST_F(RedisCluster, keeps_pages_where_their_slots_are) {
  const auto tier = open();
  tier->store(all_pages()).value();
  for (const TierCompletion& c : wait_for(*tier, num_pages)) {
    ASSERT_EQ(c.outcome, TierOutcome::done) << tier->last_fault().message();
  }
  int64_t keys = 0;
  for (const auto& node : nodes_) {
    EXPECT_GT(node->integer({"DBSIZE"}), 20);
    keys += node->integer({"DBSIZE"});
  }
  EXPECT_EQ(keys, num_pages);
  EXPECT_EQ(count_found(*tier), num_pages);
  EXPECT_EQ(count_found(*open(2)), num_pages);
  EXPECT_TRUE(tier->last_fault().is_ok()) << tier->last_fault().message();
  for (uint32_t i = 0; i < num_pages; ++i)
    ASSERT_EQ(nodes_[1]->integer({"CLUSTER", "KEYSLOT", key_of(i)}),
              tier::redis::slot_of(key_of(i)));
  std::vector<PageName> names;
  for (uint32_t i = 0; i < num_pages; ++i) names.push_back(name_of(i));
  tier->drop(names).or_throw();
  for (const auto& node : nodes_)
    while (node->integer({"DBSIZE"}) != 0) usleep(1000);
}

TEST_F(RedisCluster, does_not_ask_the_wrong_node_twice) {
  const auto tier = open();
  EXPECT_EQ(count_found(*tier), 0);
  const auto errors = [&] {
    const std::string text = nodes_[0]->text({"INFO", "errorstats"});
    const size_t at = text.find("errorstat_MOVED:count=");
    return at == std::string::npos ? 0 : std::stoi(text.substr(at + 22));
  };
  const int before = errors();
  EXPECT_GT(before, 0);
  EXPECT_LT(before, 10) << "it learns all slots from the first answer of that kind";
  EXPECT_EQ(count_found(*tier), 0);
  EXPECT_EQ(errors(), before);
}

TEST_F(RedisCluster, follows_a_slot_that_moves) {
  const auto tier = open();
  tier->store(all_pages()).value();
  wait_for(*tier, num_pages);
  uint32_t page = 0;
  while (tier::redis::slot_of(key_of(page)) > 5460) ++page;
  const std::string slot = std::to_string(tier::redis::slot_of(key_of(page)));
  const std::string from = nodes_[0]->text({"CLUSTER", "MYID"}),
                    to = nodes_[1]->text({"CLUSTER", "MYID"});
  nodes_[1]->command({"CLUSTER", "SETSLOT", slot, "IMPORTING", from});
  nodes_[0]->command({"CLUSTER", "SETSLOT", slot, "MIGRATING", to});
  EXPECT_EQ(count_found(*tier), num_pages);
  nodes_[0]->command(
      {"MIGRATE", "127.0.0.1", std::to_string(nodes_[1]->port()), key_of(page), "0", "5000"});
  EXPECT_EQ(count_found(*tier), num_pages) << "ASK";
  nodes_[1]->command({"CLUSTER", "SETSLOT", slot, "NODE", to});
  nodes_[0]->command({"CLUSTER", "SETSLOT", slot, "NODE", to});
  EXPECT_EQ(count_found(*tier), num_pages) << "MOVED";
}

TEST_F(RedisCluster, serves_on_without_one_of_its_nodes) {
  const auto tier = open();
  tier->store(all_pages()).value();
  wait_for(*tier, num_pages);
  const int64_t lost = nodes_[0]->integer({"DBSIZE"});
  nodes_[0]->kill_it();  // the one that the tier knows by its options
  for (int i = 0; i < 3; ++i) EXPECT_EQ(count_found(*tier), num_pages - lost);
  EXPECT_FALSE(tier->last_fault().is_ok());
}

}  // namespace
}  // namespace folio::test
