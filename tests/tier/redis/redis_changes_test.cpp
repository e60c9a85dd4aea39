// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/redis_changes_test.cpp: what a tier tells of pages in a real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "tier/redis/redis_fixture.h"

namespace folio::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::pair<TierChange, PageName> stored(uint32_t name) {
  return {TierChange::stored, name_of(name)};
}
std::pair<TierChange, PageName> removed(uint32_t name) {
  return {TierChange::removed, name_of(name)};
}

class RedisChanges : public RedisTier {
 protected:
  std::unique_ptr<Tier> open_told(const RedisServer& server, const RedisOptions& redis = {},
                                  int64_t max_bytes = mib) {
    return open(server, redis, {.max_bytes = max_bytes, .on_change = changes_.observer()});
  }
  ChangeLog changes_;
  PageMemory page_{{100}};
};

TEST_F(RedisChanges, are_of_pages_that_this_tier_has_stored_or_loaded) {
  RedisServer server;
  const auto other = open(server), tier = open_told(server);
  ASSERT_EQ(store(*other, name_of(1), page_), TierOutcome::done);
  EXPECT_THAT(changes_.all(), IsEmpty()) << "it cannot know";
  ASSERT_EQ(store(*tier, name_of(2), page_), TierOutcome::done);
  ASSERT_EQ(load(*tier, name_of(1), page_), TierOutcome::done);
  for (const uint32_t name : {1U, 2U}) {
    ASSERT_EQ(store(*tier, name_of(name), page_), TierOutcome::done);
    ASSERT_EQ(load(*tier, name_of(name), page_, LoadOrder::extents), TierOutcome::done);
  }
  ASSERT_EQ(load(*tier, name_of(3), page_), TierOutcome::missing);
  EXPECT_THAT(changes_.all(), ElementsAre(stored(2), stored(1))) << "each once";
}

TEST_F(RedisChanges, are_of_pages_that_go) {
  RedisServer server;
  const auto tier = open_told(server, {.absent_ms = 0}, 3 * 228);
  for (uint32_t i = 1; i <= 4; ++i) ASSERT_EQ(store(*tier, name_of(i), page_), TierOutcome::done);
  EXPECT_THAT(changes_.all(), ElementsAre(stored(1), stored(2), stored(3), stored(4), removed(1)));
  const PageName dropped = name_of(2);
  tier->drop({&dropped, 1}).or_throw();
  server.command({"FLUSHALL"});
  ASSERT_EQ(load(*tier, name_of(3), page_), TierOutcome::missing);
  ASSERT_EQ(store(*tier, name_of(3), page_), TierOutcome::done);
  EXPECT_THAT(changes_.all(), ElementsAre(stored(1), stored(2), stored(3), stored(4), removed(1),
                                          removed(2), removed(3), stored(3)));
}

TEST_F(RedisChanges, are_of_all_pages_of_a_server_that_was_lost) {
  RedisServer server;
  const auto tier = open_told(server);
  for (uint32_t i = 1; i <= 2; ++i) ASSERT_EQ(store(*tier, name_of(i), page_), TierOutcome::done);
  server.kill_it();
  server.start();
  ASSERT_EQ(load(*tier, name_of(3), page_), TierOutcome::missing);
  auto changes = changes_.all();
  changes.erase(changes.begin(), changes.begin() + 2);
  EXPECT_THAT(changes, UnorderedElementsAre(removed(1), removed(2)));
}

TEST_F(RedisChanges, are_of_pages_whose_time_ends_though_nobody_calls) {
  RedisServer server;
  const auto tier = open_told(server, {.ttl_s = 1});
  ASSERT_EQ(store(*tier, name_of(1), page_), TierOutcome::done);
  while (changes_.all().size() < 2) usleep(10'000);
  EXPECT_THAT(changes_.all(), ElementsAre(stored(1), removed(1)));
}

}  // namespace
}  // namespace folio::test
