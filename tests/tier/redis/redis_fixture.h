// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/redis_fixture.h: tiers of a real server, and a value that a test replaces.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "folio/tier/redis_tier.h"
#include "tier/redis/patient.h"
#include "tier/redis/redis_server.h"
#include "tier/tier_helpers.h"

namespace folio::test {

inline constexpr int64_t mib = 1 << 20;

class RedisTier : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_redis_server()) GTEST_SKIP() << "no redis-server here";
  }
};

inline std::unique_ptr<Tier> open(const RedisServer& server, RedisOptions redis = {},
                                  TierOptions options = {.threads = 2, .max_bytes = 64 * mib}) {
  const std::string socket = server.socket();
  redis.socket = socket;
  return make_redis_tier(patient(redis), options).value();
}

/// Page 1 is in a server, by a tier of its own.
struct Stored {
  explicit Stored(RedisServer& s, const RedisOptions& redis = {})
      : server(s), tier(open(s, redis)) {
    page.fill(7);
    EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  }
  void expect_loaded(Tier& from) {
    back.fill(8);
    EXPECT_EQ(load(from, name_of(1), back), TierOutcome::done);
    EXPECT_EQ(back.memory(), page.memory());
  }
  RedisServer& server;
  std::unique_ptr<Tier> tier;
  PageMemory page{{5000, 3000}}, back{{5000, 3000}};
};

/// The value of page 1 is replaced; nothing of that reaches the page.
struct Replaced : Stored {
  explicit Replaced(RedisServer& s) : Stored(s) {
    key = server.keys().at(0);
    value = server.text({"GET", key});
  }
  void expect_corrupt(const char* why) {
    const std::vector<std::byte> before = back.memory();
    EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::corrupt) << why;
    EXPECT_THAT(std::string(tier->last_fault().message()), ::testing::HasSubstr(why));
    EXPECT_EQ(back.memory(), before) << why;
  }
  void expect_repaired() {
    server.command({"DEL", key});
    EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
    expect_loaded(*tier);  // it can be stored anew
  }
  std::string key, value;
};

}  // namespace folio::test
