// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/redis_tls_test.cpp: encrypted connections, and whom they trust.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "folio/tier/redis_tier.h"
#include "tier/redis/fake_server.h"
#include "tier/redis/patient.h"
#include "tier/redis/redis_server.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

/// Authorities and certificates that they have signed, as files.
class Certificates {
 public:
  Certificates() {
    for (const char* name : {"authority", "other"})
      run("req -x509 -days 2 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -subj /CN=" +
          std::string(name) + " -keyout " + file(name, "key") + " -out " + file(name, "crt"));
    sign("server", "subjectAltName=DNS:pages.example,IP:127.0.0.1");
    sign("client", "subjectAltName=DNS:client.example");
  }
  [[nodiscard]] std::string file(const std::string& name, const char* kind) const {
    return folder_.path(name + "." + kind);
  }
  [[nodiscard]] std::vector<std::string> arguments(const ReservedPort& port,
                                                   const char* clients) const {
    return {"--port",
            "0",
            "--tls-port",
            port.text(),
            "--tls-cert-file",
            file("server", "crt"),
            "--tls-key-file",
            file("server", "key"),
            "--tls-ca-cert-file",
            file("authority", "crt"),
            "--tls-auth-clients",
            clients};
  }

 private:
  void sign(const std::string& name, const std::string& extension) {
    run("req -x509 -days 2 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -subj /CN=" +
        name + " -CA " + file("authority", "crt") + " -CAkey " + file("authority", "key") +
        " -addext " + extension + " -addext basicConstraints=critical,CA:false -keyout " +
        file(name, "key") + " -out " + file(name, "crt"));
  }
  static void run(const std::string& arguments) {
    if (std::system(("openssl " + arguments + " > /dev/null 2>&1").c_str()) != 0)
      throw std::runtime_error("openssl " + arguments);
  }
  TemporaryFolder folder_;
};

class RedisTls : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_redis_server()) GTEST_SKIP() << "no redis-server here";
    if (std::system("openssl version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no openssl here";
    certificates_ = std::make_unique<Certificates>();
    start("no");
  }
  void start(const char* clients) {
    server_.reset();
    server_ = std::make_unique<RedisServer>(
        RedisServer::Options{.arguments = certificates_->arguments(port_, clients)});
    authority_ = certificates_->file("authority", "crt");
  }
  [[nodiscard]] RedisOptions options() const {
    return {.port = port_.number(),
            .encryption = RedisOptions::Encryption::tls,
            .authorities_file = authority_};
  }
  static std::unique_ptr<Tier> open(const RedisOptions& redis) {
    return make_redis_tier(patient(redis), {.max_bytes = 1 << 30}).value();
  }
  static void expect_refused(const RedisOptions& redis, const char* why) {
    const auto tier = open(redis);
    PageMemory page({100});
    EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::failed);
    EXPECT_THAT(std::string(tier->last_fault().message()), HasSubstr(why));
  }

  std::unique_ptr<Certificates> certificates_;
  std::unique_ptr<RedisServer> server_;
  ReservedPort port_;
  std::string authority_;
};

TEST_F(RedisTls, gives_back_pages_small_and_large) {
  const auto tier = open(options());
  Rng rng(test_seed());
  std::vector<PageMemory> pages;
  std::vector<TierPage> all;
  for (uint32_t i = 0; i < 40; ++i) {
    std::vector<int64_t> runs;
    for (int64_t r = rng.between(1, 100); r > 0; --r)
      runs.push_back(rng.chance(0.1) ? rng.between(1, 300'000) : rng.between(1, 3000));
    pages.emplace_back(runs).fill(i);
    pages.emplace_back(runs);
  }
  for (uint32_t i = 0; i < 40; ++i) all.push_back({name_of(i), pages[2 * i].extents()});
  tier->store(all).value();
  for (const TierCompletion& c : wait_for(*tier, 40)) EXPECT_EQ(c.outcome, TierOutcome::done);
  for (uint32_t i = 0; i < 40; ++i) all[i].extents = pages[2 * i + 1].extents();
  tier->load(all, 0).value();
  for (const TierCompletion& c : wait_for(*tier, 40)) EXPECT_EQ(c.outcome, TierOutcome::done);
  for (uint32_t i = 0; i < 40; ++i) ASSERT_EQ(pages[2 * i].memory(), pages[2 * i + 1].memory());
  EXPECT_TRUE(tier->last_fault().is_ok()) << tier->last_fault().message();
}

TEST_F(RedisTls, by_url) {
  PageMemory page({100});
  const std::string at = "rediss://127.0.0.1:" + port_.text();
  const auto tier =
      make_redis_tier(at + "?ca=" + authority_, {.max_bytes = 1 << 20}, patient({})).value();
  EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
}

TEST_F(RedisTls, trusts_the_authority_alone) {
  const std::string other = certificates_->file("other", "crt");
  RedisOptions redis = options();
  redis.authorities_file = other;
  expect_refused(redis, "the server's certificate: self-signed certificate in certificate chain");
  redis.check = ServerCheck::authority;
  expect_refused(redis, "the server's certificate: self-signed certificate in certificate chain");
  redis.authorities_file = {};
  expect_refused(redis, "the server's certificate: ");
  redis.check = ServerCheck::none;
  PageMemory page({100});
  EXPECT_EQ(store(*open(redis), name_of(1), page), TierOutcome::done);
}

TEST_F(RedisTls, expects_the_name) {
  RedisOptions redis = options();
  PageMemory page({100});
  redis.server_name = "pages.example";
  EXPECT_EQ(store(*open(redis), name_of(1), page), TierOutcome::done);
  redis.server_name = "other.example";
  expect_refused(redis, "the server's certificate: hostname mismatch");
  redis.server_name = "127.0.0.2";
  expect_refused(redis, "the server's certificate: IP address mismatch");
  redis.check = ServerCheck::authority;
  EXPECT_EQ(store(*open(redis), name_of(1), page), TierOutcome::done);
}

TEST_F(RedisTls, shows_a_certificate_where_the_server_wants_one) {
  start("yes");
  PageMemory page({100});
  RedisOptions redis = options();
  const auto without = open(redis);
  EXPECT_EQ(store(*without, name_of(1), page), TierOutcome::failed);
  EXPECT_FALSE(without->last_fault().is_ok());
  const std::string certificate = certificates_->file("client", "crt"),
                    key = certificates_->file("client", "key");
  redis.certificate_file = certificate;
  redis.key_file = key;
  EXPECT_EQ(store(*open(redis), name_of(1), page), TierOutcome::done);
}

TEST_F(RedisTls, refuses_files_that_it_cannot_use) {
  const std::string key = certificates_->file("client", "key"),
                    certificate = certificates_->file("client", "crt"),
                    key_of_server = certificates_->file("server", "key");
  const auto expect_error = [](const RedisOptions& redis, const std::string& what) {
    const Status error = make_redis_tier(redis, {.max_bytes = 1 << 20}).error();
    EXPECT_EQ(error.code(), Errc::io);
    EXPECT_THAT(std::string(error.message()), HasSubstr(what));
  };
  RedisOptions redis = options();
  redis.authorities_file = "/nowhere";
  expect_error(redis, "authorities_file '/nowhere'");
  redis.authorities_file = key;
  expect_error(redis, "authorities_file '" + key);
  redis = options();
  redis.certificate_file = key;
  redis.key_file = key;
  expect_error(redis, "certificate_file '" + key);
  redis.certificate_file = certificate;
  redis.key_file = key_of_server;
  expect_error(redis, "key_file '" + key_of_server);
}

TEST_F(RedisTls, ends_in_time_where_nobody_shakes_hands) {
  FakeServer silent([](const FakeServer::Words&) { return Saying(); });
  RedisOptions redis = options();
  redis.port = silent.port();
  redis.connect_timeout_ms = 50;
  const auto tier = open(redis);
  PageMemory page({100});
  EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::failed);
  EXPECT_FALSE(tier->last_fault().is_ok());
}

TEST_F(RedisTls, finds_a_server_again_that_was_killed) {
  const auto tier = open(options());
  PageMemory page({300'000}), back({300'000});
  for (uint32_t i = 0; i < 5; ++i) {
    page.fill(i);
    while (store(*tier, name_of(i), page) != TierOutcome::done) usleep(1000);
    EXPECT_EQ(load(*tier, name_of(i), back), TierOutcome::done);
    EXPECT_EQ(back.memory(), page.memory());
    server_->kill_it();
    EXPECT_NE(load(*tier, name_of(i), back), TierOutcome::done);
    server_->start();
  }
}

}  // namespace
}  // namespace folio::test
