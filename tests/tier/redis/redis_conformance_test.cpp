// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/redis_conformance_test.cpp: a server's pages keep what every medium keeps.
#include <memory>

#include "folio/testing/medium_conformance.h"
#include "tier/redis/redis_fixture.h"
#include "tier/redis/redis_medium.h"

namespace folio::test {
namespace {

class RedisMediumOfAServer : public RedisTier {};

/// The key of a page ends with its name in hexadecimal.
void spoil(RedisServer& server, const PageName& name) {
  std::string hex;
  for (const uint8_t byte : name.bytes)
    for (const int digit : {byte >> 4, byte & 15}) hex += "0123456789abcdef"[digit];
  for (const std::string& key : server.keys())
    if (key.ends_with(hex)) server.command({"SETRANGE", key, "1000", "damage"});
}

TEST_F(RedisMediumOfAServer, keeps_what_every_medium_keeps) {
  RedisServer server;
  const std::string socket = server.socket();
  const auto make = [&](const TierOptions& options) -> Result<std::unique_ptr<tier::Medium>> {
    RedisOptions redis;
    redis.socket = socket;
    redis.unknown = UnknownPages::asked;
    redis.absent_ms = 1;
    return std::unique_ptr<tier::Medium>(std::make_unique<tier::redis::RedisMedium>(
        tier::redis::settings_of(patient(redis)).value(), options, nullptr));
  };
  const tier::MediumReport report =
      tier::check_medium({.make = make,
                          .options = {.max_bytes = 500'000},
                          .keeps = true,
                          .tells = true,
                          .too_many_pages = 60,
                          .damage = [&](const PageName& name) { spoil(server, name); },
                          .patience_ms = no_deadline_ms});
  EXPECT_TRUE(report.is_ok()) << report.text();
  EXPECT_THAT(report.left_out, ::testing::IsEmpty());
}

}  // namespace
}  // namespace folio::test
