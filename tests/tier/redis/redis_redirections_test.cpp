// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/redis_redirections_test.cpp: servers that send to others, as none should.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tier/redis/fake_replies.h"

namespace folio::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string moved(const char* word, uint16_t port) {
  return "-" + std::string(word) + " 5 127.0.0.1:" + std::to_string(port) + "\r\n";
}

TEST(RedisReplies, that_send_elsewhere_for_once_are_followed_for_once) {
  Page p;
  FakeServer second(
      [&](const Words& words) { return same(words[0] == "ASKING" ? "+OK\r\n" : bulk(p.value)); });
  FakeServer first([&](const Words&) { return same(moved("ASK", second.port())); });
  const auto tier = open(first);
  for (int i = 0; i < 2; ++i) {
    p.back.fill(1);
    EXPECT_EQ(load(*tier, name_of(1), p.back), TierOutcome::done);
    EXPECT_EQ(p.back.memory(), p.page.memory());
  }
  EXPECT_EQ(first.commands().size(), 2U);
  std::vector<std::string> words;
  for (const Words& command : second.commands()) words.push_back(command[0]);
  EXPECT_THAT(words, ElementsAre("ASKING", "GET", "ASKING", "GET"));
}

TEST(RedisReplies, that_send_in_circles_are_not_followed_for_ever) {
  Page p;
  uint16_t port = 0;
  FakeServer server([&](const Words& words) {
    return same(words[0] == "CLUSTER" ? "*0\r\n" : moved("MOVED", port));
  });
  port = server.port();
  const auto tier = open(server);
  EXPECT_EQ(load(*tier, name_of(1), p.back), TierOutcome::failed);
  EXPECT_THAT(tier->last_fault().message(), HasSubstr("without an end"));
  EXPECT_LE(server.commands().size(), 10U);
}

TEST(RedisReplies, that_name_ever_new_servers_are_bounded) {
  Page p;
  uint32_t next = 0;
  FakeServer server([&](const Words& words) {
    if (words[0] == "CLUSTER") {
      std::string slots = "*2\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\nx\r\n:1\r\n";
      return same(slots + "*3\r\n:7\r\n:8\r\n*2\r\n$9\r\n127.0.0.1\r\n:70000\r\n");
    }
    const uint32_t n = ++next;
    return same("-MOVED " + std::to_string(n) + " 127.1." + std::to_string(n / 250) + "." +
                std::to_string(1 + n % 250) + ":1\r\n");
  });
  const auto tier = open(server, {.connect_timeout_ms = 50});
  for (uint32_t i = 0; i < 1500; ++i) EXPECT_NE(load(*tier, name_of(i), p.back), TierOutcome::done);
  EXPECT_FALSE(tier->last_fault().is_ok());
}

TEST(RedisReplies, that_send_to_nobody_end_as_failed) {
  Page p;
  FakeServer server([&](const Words&) { return same("-MOVED 7 127.0.0.1:1\r\n"); });
  const auto tier = open(server);
  EXPECT_EQ(load(*tier, name_of(1), p.back), TierOutcome::failed);
  EXPECT_THAT(tier->last_fault().message(), HasSubstr("127.0.0.1:1: cannot connect"));
}

}  // namespace
}  // namespace folio::test
