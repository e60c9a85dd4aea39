// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/redis_values_test.cpp: values that are not what was stored: none of them
/// is served.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tier/redis/redis_fixture.h"

namespace folio::test {
namespace {

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

}  // namespace
}  // namespace folio::test
