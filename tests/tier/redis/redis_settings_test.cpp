// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/redis_settings_test.cpp: options and URLs, right and wrong.
#include "tier/redis/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tier/redis/router.h"

namespace folio::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using tier::redis::Settings;
using tier::redis::settings_of;

const TierOptions some{.max_bytes = 1 << 20};

TEST(RedisSettings, of_a_url_are_its_parts) {
  const Settings s =
      settings_of("rediss://me:p%40ss@example.org:7000/12?namespace=n%31&ttl=60&ca=/x/y", {})
          .value();
  EXPECT_EQ(s.address.host, "example.org");
  EXPECT_EQ(s.address.port, 7000);
  EXPECT_EQ(s.user, "me");
  EXPECT_EQ(s.password, "p@ss");
  EXPECT_EQ(s.database, 12);
  EXPECT_EQ(s.name_space, "n1");
  EXPECT_EQ(s.ttl_s, 60);
  EXPECT_EQ(s.authorities_file, "/x/y");
  EXPECT_TRUE(s.has_tls);
}

TEST(RedisSettings, of_a_short_url_are_those_of_the_options) {
  const Settings s = settings_of("redis://h", {.port = 1, .password = "p", .ttl_s = 5}).value();
  EXPECT_EQ(s.address.host, "h");
  EXPECT_EQ(s.address.port, 6379) << "a host comes with a port";
  EXPECT_EQ(s.password, "p");
  EXPECT_EQ(s.ttl_s, 5);
  EXPECT_FALSE(s.has_tls);
  EXPECT_EQ(settings_of("redis://:x@[::1]:5/", {}).value().address.host, "::1");
  EXPECT_EQ(settings_of("redis://[::1]", {}).value().address.port, 6379);
  EXPECT_EQ(settings_of("redis://:a@b@h", {}).value().password, "a@b");
  EXPECT_EQ(settings_of("unix:///a/b?db=3", {}).value().address.path, "/a/b");
  EXPECT_EQ(settings_of("unix://u:p@/a", {}).value().user, "u");
  EXPECT_EQ(settings_of("unix:///a@/b", {}).value().address.path, "/a@/b");
  EXPECT_EQ(settings_of("redis://h", {.socket = "/s"}).value().address.path, "");
}

TEST(RedisSettings, of_a_wrong_url_are_refused_without_its_password) {
  const std::pair<const char*, const char*> urls[] = {
      {"", "scheme"},
      {"http://secret@h", "scheme"},
      {"redis:/secret", "scheme"},
      {"redis://", "no host"},
      {"redis://:secret@", "no host"},
      {"redis://:secret@:7", "no host"},
      {"redis://:secret@h:0", "port"},
      {"redis://:secret@h:70000", "port"},
      {"redis://:secret@h:7x", "port"},
      {"redis://:secret@[::1", "["},
      {"redis://:secret@[::1]7", "]"},
      {"redis://:secret@h/x", "path"},
      {"redis://:secret%zz@h", "%"},
      {"redis://:secret%4@h", "%"},
      {"redis://:secret@h?db=x", "db"},
      {"redis://:secret@h?ttl=x", "ttl"},
      {"redis://:secret@h?ttl=-1", "ttl_s"},
      {"redis://:secret@h?what=1", "query"},
      {"redis://:secret@h/-1", "database"},
      {"redis://:secret@h?db=%", "query"},
      {"unix://:secret@h", "no path"},
      {"unix://", "no path"},
  };
  for (const auto& [url, what] : urls) {
    const Status error = make_redis_tier(url, some).error();
    EXPECT_EQ(error.code(), Errc::invalid_argument) << url;
    EXPECT_THAT(std::string(error.message()),
                AllOf(HasSubstr(what), HasSubstr("make_redis_tier"), Not(HasSubstr("secret"))))
        << url;
  }
}

TEST(RedisSettings, that_cannot_be_are_refused) {
  const std::string zero("a\0b", 3), longer(200, 'x');
  const std::pair<RedisOptions, const char*> options[] = {
      {{.host = ""}, "host is ''"},
      {{.port = 0}, "port is 0"},
      {{.host = zero}, "has a 0 in it"},
      {{.user = "u"}, "has no password"},
      {{.database = -1}, "database is -1"},
      {{.certificate_file = "x"}, "key_file"},
      {{.key_file = "x"}, "key_file"},
      {{.name_space = "a b"}, "name_space"},
      {{.name_space = "a\n"}, "name_space"},
      {{.name_space = longer}, "200 bytes"},
      {{.ttl_s = -1}, "ttl_s is -1"},
      {{.connect_timeout_ms = 0}, "connect_timeout_ms is 0"},
      {{.command_timeout_ms = -5}, "command_timeout_ms is -5"},
      {{.depth = 0}, "depth is 0"},
      {{.depth = 1025}, "depth is 1025"},
      {{.absent_ms = -1}, "absent_ms is -1"},
      {{.ask_wait_ms = -1}, "ask_wait_ms is -1"},
      {{.max_names = 0}, "max_names is 0"},
      {{.check = static_cast<ServerCheck>(3)}, "check is 3"},
      {{.unknown = static_cast<UnknownPages>(2)}, "unknown is 2"},
      {{.encryption = static_cast<RedisOptions::Encryption>(2)}, "encryption is 2"},
  };
  for (const auto& [o, what] : options) {
    const Status error = make_redis_tier(o, some).error();
    EXPECT_EQ(error.code(), Errc::invalid_argument) << what;
    EXPECT_THAT(std::string(error.message()), HasSubstr(what));
  }
  EXPECT_THAT(make_redis_tier(RedisOptions(), {}).error().message(), HasSubstr("max_bytes is 0"));
}

TEST(RedisSettings, name_slots_as_clusters_do) {
  using tier::redis::slot_of;
  EXPECT_EQ(slot_of("123456789"), 0x31c3U);
  EXPECT_EQ(slot_of("{123456789}x"), 0x31c3U);
  EXPECT_EQ(slot_of("a{123456789}{b}"), 0x31c3U);
  EXPECT_EQ(slot_of(""), 0U);
  EXPECT_NE(slot_of("{}123456789"), 0x31c3U) << "nothing between braces: the whole key";
  EXPECT_NE(slot_of("{123456789"), 0x31c3U);
}

}  // namespace
}  // namespace folio::test
