// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/redis_replies_test.cpp: servers that say what no server should.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "tier/redis/fake_replies.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(RedisReplies, that_are_right_are_taken_however_they_are_cut) {
  Page p;
  for (const size_t piece : {size_t{1}, size_t{2}, size_t{3}, size_t{127}, size_t{1000}}) {
    FakeServer server([&](const Words&) {
      return Saying{.bytes = bulk(p.value), .piece = piece, .pause_us = piece < 3 ? 1U : 100U};
    });
    p.back.fill(1);
    ASSERT_EQ(load(*open(server), name_of(1), p.back), TierOutcome::done) << piece;
    ASSERT_EQ(p.back.memory(), p.page.memory());
  }
}

TEST(RedisReplies, that_are_none_end_as_failed) {
  const Page p;
  std::string nested;
  for (int i = 0; i < 20; ++i) nested += "*1\r\n";
  const std::string replies[] = {"$9999999999\r\n",
                                 "$99999999999999999999999\r\n",
                                 "$-2\r\n",
                                 "$\r\n",
                                 "$x\r\n",
                                 "$12",
                                 "$12\n",
                                 "*1000000000\r\n",
                                 "*-5\r\n",
                                 "*99999999999999999999\r\n",
                                 "*x\r\n",
                                 nested + ":1\r\n",
                                 "+OK\r\n",
                                 ":1\r\n",
                                 ":x\r\n",
                                 "*0\r\n",
                                 "*2\r\n:1\r\n:2\r\n",
                                 "*1\r\n$2\r\nab\r\n",
                                 "!\r\n",
                                 "\r\n",
                                 "\n",
                                 "-\r\n",
                                 "-ERR what\r\n",
                                 "-LOADING Redis is loading\r\n",
                                 "-MOVED\r\n",
                                 "-MOVED x y\r\n",
                                 "-MOVED 99999 127.0.0.1:1\r\n",
                                 "-MOVED 1 127.0.0.1:0\r\n",
                                 "-MOVED 1 127.0.0.1\r\n",
                                 "-ASK 1 127.0.0.1:99999\r\n",
                                 "-CLUSTERDOWN no\r\n",
                                 std::string(100'000, 'x'),
                                 std::string(100'000, '\0'),
                                 "+" + std::string(100'000, 'y'),
                                 "*3\r\n$2000000\r\n" + std::string(2'000'000, '\n'),
                                 bulk(p.value).substr(0, p.value.size() + 4),
                                 bulk(p.value).substr(0, 60),
                                 bulk(p.value).substr(0, 700)};
  for (const std::string& reply : replies) {
    FakeServer server(
        [&](const Words&) { return Saying{.bytes = reply, .then = Saying::Then::hang_up}; });
    const auto tier = open(server);
    PageMemory back({1000, 500});
    EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::failed) << reply.substr(0, 40);
    EXPECT_FALSE(tier->last_fault().is_ok());
    EXPECT_LT(tier->last_fault().message().size(), 400U);
  }
}

TEST(RedisReplies, that_end_wrong_end_as_failed) {
  Page p;
  std::string reply = bulk(p.value);
  reply[reply.size() - 2] = 'x';
  FakeServer server([&](const Words&) { return same(reply); });
  const auto tier = open(server);
  EXPECT_EQ(load(*tier, name_of(1), p.back), TierOutcome::failed);
  EXPECT_THAT(tier->last_fault().message(), HasSubstr("does not end where it should"));
}

TEST(RedisReplies, that_nobody_asked_for_close_the_connection) {
  Page p;
  FakeServer server([&](const Words&) { return same("$-1\r\n+OK\r\n"); });
  const auto tier = open(server);
  EXPECT_EQ(load(*tier, name_of(1), p.back), TierOutcome::missing);
  while (load(*tier, name_of(1), p.back) != TierOutcome::missing) usleep(1000);
  EXPECT_GE(server.connections(), 2U);
}

TEST(RedisReplies, that_are_wrong_leave_the_server_alone_for_a_while) {
  Page p;
  FakeServer server([&](const Words&) { return same("?\r\n"); });
  const auto tier = open(server);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 200; ++i) EXPECT_EQ(load(*tier, name_of(1), p.back), TierOutcome::failed);
  const auto pauses = (std::chrono::steady_clock::now() - begin) / std::chrono::milliseconds(50);
  EXPECT_LE(server.connections(), 1 + static_cast<size_t>(pauses));
}

TEST(RedisReplies, that_do_not_come_end_as_failed_in_time) {
  const Page p;
  const Saying sayings[] = {
      {.then = Saying::Then::silence},
      {.bytes = "$16", .then = Saying::Then::silence},
      {.bytes = bulk(p.value).substr(0, 900), .then = Saying::Then::silence},
      {.bytes = bulk(p.value), .piece = 1, .pause_us = 5000},
      {.bytes = bulk(std::string(500'000, 'x')), .piece = 100, .pause_us = 1000},
  };
  for (const Saying& saying : sayings) {
    FakeServer server([&](const Words&) { return saying; });
    const auto tier = open(server, {.command_timeout_ms = 100});
    PageMemory back({1000, 500});
    EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::failed);
    EXPECT_THAT(tier->last_fault().message(), HasSubstr("no answer in time"));
  }
}

TEST(RedisReplies, to_stores_that_are_not_OK_are_not_taken_for_it) {
  Page p;
  const std::pair<std::string, TierOutcome> replies[] = {
      {"+OK\r\n", TierOutcome::done},
      {"+QUEUED\r\n", TierOutcome::failed},
      {"$-1\r\n", TierOutcome::failed},
      {"$2\r\nOK\r\n", TierOutcome::failed},
      {":1\r\n", TierOutcome::failed},
      {"-OOM command not allowed\r\n", TierOutcome::full},
      {"-READONLY You can't write\r\n", TierOutcome::failed},
      {"-MISCONF no\r\n", TierOutcome::failed}};
  for (const auto& [reply, outcome] : replies) {
    FakeServer server([&](const Words&) { return same(reply); });
    EXPECT_EQ(store(*open(server), name_of(1), p.page), outcome) << reply;
  }
}

TEST(RedisReplies, say_no_password_though_a_server_repeats_it) {
  Page p;
  FakeServer server([&](const Words& words) { return same("-ERR " + words.back() + "\r\n"); });
  const auto tier = open(server, {.password = "hunter2"});
  EXPECT_EQ(load(*tier, name_of(1), p.back), TierOutcome::failed);
  EXPECT_THAT(std::string(tier->last_fault().message()), Not(HasSubstr("hunter2")));
}

TEST(RedisReplies, of_one_command_do_not_reach_into_another) {
  constexpr uint32_t pages = 60;
  std::vector<PageMemory> wanted, memory;
  std::map<std::string, std::string> replies;
  std::vector<TierPage> all;
  for (uint32_t i = 0; i < pages; ++i) {
    wanted.emplace_back(std::vector<int64_t>{10 + 37 * i, 5}).fill(i);
    memory.emplace_back(std::vector<int64_t>{10 + 37 * i, 5});
  }
  FakeServer server([&](const Words& words) {
    const auto i =
        static_cast<uint32_t>(std::stoul(words[1].substr(words[1].size() - 64, 2), nullptr, 16));
    const std::string value = value_of(name_of(i), wanted[i]);
    if (i % 6 == 1) return same("$-1\r\n");
    if (i % 6 == 2) return same("-WRONGTYPE it is a list\r\n");
    if (i % 6 == 3) return same(bulk(value + "x"));
    if (i % 6 == 4) return same(bulk(value_of(name_of(i + 1), wanted[i])));
    if (i % 6 == 5) return same("-ERR\r\n");
    return same(bulk(value));
  });
  for (uint32_t i = 0; i < pages; ++i) all.push_back({name_of(i), memory[i].extents()});
  const auto tier = open(server);
  for (int turn = 0; turn < 3; ++turn) {
    for (PageMemory& m : memory) m.fill(1);
    tier->load(all, 0).value();
    for (const TierCompletion& c : wait_for(*tier, pages)) {
      const TierOutcome expected[] = {TierOutcome::done,    TierOutcome::missing,
                                      TierOutcome::corrupt, TierOutcome::corrupt,
                                      TierOutcome::corrupt, TierOutcome::failed};
      ASSERT_EQ(c.outcome, expected[c.page % 6]) << c.page;
      if (c.page % 6 == 0) {
        ASSERT_EQ(memory[c.page].memory(), wanted[c.page].memory());
      }
    }
  }
}

/// Replies with bytes that changed, went or came: what is done is right, and all ends.
TEST(RedisReplies, at_random_give_nothing_wrong) {
  Page p;
  Rng rng(test_seed());
  std::map<TierOutcome, int> outcomes;
  FakeServer server([&](const Words&) {
    std::string reply = rng.chance(0.9) ? bulk(p.value) : "*2\r\n$3\r\nabc\r\n:5\r\n";
    for (int64_t n = rng.between(0, 2); n > 0; --n) {
      const auto at =
          static_cast<size_t>(rng.between(0, rng.chance(0.5) ? 10 : std::ssize(reply) - 1));
      const char symbols[] = "$*+-:0123456789\r\n\0x";
      if (rng.chance(0.5)) reply[at] = symbols[rng.between(0, 18)];
      if (rng.chance(0.2)) reply.erase(at, static_cast<size_t>(rng.between(0, 3)));
      if (rng.chance(0.2)) reply.insert(at, 1, symbols[rng.between(0, 18)]);
    }
    return Saying{.bytes = reply,
                  .piece = static_cast<size_t>(rng.between(100, 3000)),
                  .then = Saying::Then::hang_up};
  });
  for (int i = 0; i < 200; ++i) {
    p.back.fill(1);
    const auto tier = open(server);  // a new one, so that it does not leave the server alone
    const TierOutcome outcome = load(*tier, name_of(1), p.back);
    ++outcomes[outcome];
    if (outcome != TierOutcome::done) continue;
    ASSERT_EQ(p.back.memory(), p.page.memory());
  }
  EXPECT_GT(outcomes[TierOutcome::done], 20);
  EXPECT_GT(outcomes[TierOutcome::failed], 10);
  EXPECT_GT(outcomes[TierOutcome::corrupt], 10);
}

}  // namespace
}  // namespace folio::test
