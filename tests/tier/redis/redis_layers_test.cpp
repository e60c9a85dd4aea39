// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/redis_layers_test.cpp: loads whose leading extents come first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "folio/tier/redis_tier.h"
#include "tier/payload.h"
#include "tier/redis/fake_server.h"
#include "tier/redis/patient.h"
#include "tier/redis/redis_server.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = FakeServer::Words;

std::unique_ptr<Tier> open(const RedisServer& server) {
  const std::string socket = server.socket();
  return make_redis_tier(patient({.socket = socket, .depth = 5, .absent_ms = 0}),
                         {.threads = 2, .max_bytes = 1 << 30})
      .value();
}

class RedisLayers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_redis_server()) GTEST_SKIP() << "no redis-server here";
  }
};

TEST_F(RedisLayers, bring_pages_of_all_sizes) {
  RedisServer server;
  const auto tier = open(server);
  Rng rng(test_seed());
  std::vector<PageMemory> wanted, back;
  std::vector<TierPage> stores, loads;
  for (uint32_t i = 0; i < 60; ++i) {
    std::vector<int64_t> runs;
    for (int64_t r = rng.between(1, 300); r > 0; --r)
      runs.push_back(rng.between(1, rng.chance(0.05) ? 100'000 : 500));
    wanted.emplace_back(runs).fill(i);
    back.emplace_back(runs);
  }
  for (uint32_t i = 0; i < 60; ++i) {
    if (i % 7 != 3) stores.push_back({name_of(i), wanted[i].extents()});
    loads.push_back({name_of(i), back[i].extents()});
  }
  tier->store(stores).value();
  for (const TierCompletion& c : wait_for(*tier, stores.size()))
    ASSERT_EQ(c.outcome, TierOutcome::done);
  tier->load(loads, 0, LoadOrder::extents).value();
  for (const TierCompletion& c : wait_for(*tier, loads.size())) {
    ASSERT_EQ(c.outcome, c.page % 7 == 3 ? TierOutcome::missing : TierOutcome::done) << c.page;
    if (c.outcome == TierOutcome::done) {
      ASSERT_EQ(back[c.page].memory(), wanted[c.page].memory()) << c.page;
    }
  }
  EXPECT_TRUE(tier->last_fault().is_ok()) << tier->last_fault().message();
}

/// A page of some steps, whose value a test replaces.
class ReplacedLayers : public RedisLayers {
 protected:
  void SetUp() override {
    RedisLayers::SetUp();
    if (IsSkipped()) return;
    server_ = std::make_unique<RedisServer>();
    tier_ = open(*server_);
    page_.fill(7);
    ASSERT_EQ(store(*tier_, name_of(1), page_), TierOutcome::done);
    key_ = server_->keys().at(0);
    value_ = server_->text({"GET", key_});
  }
  TierOutcome load_of(const std::string& value) {
    server_->command({"SET", key_, value});
    return load(*tier_, name_of(1), back_, LoadOrder::extents);
  }
  void expect_corrupt(const std::string& value, const char* why) {
    EXPECT_EQ(load_of(value), TierOutcome::corrupt) << why;
    EXPECT_THAT(std::string(tier_->last_fault().message()), HasSubstr(why));
  }

  std::unique_ptr<RedisServer> server_;
  std::unique_ptr<Tier> tier_;
  PageMemory page_{{900'000, 700'000, 600'000}}, back_{{900'000, 700'000, 600'000}};
  std::string key_, value_;
};

TEST_F(ReplacedLayers, of_another_size_or_page_are_corrupt) {
  const std::vector<std::byte> before = back_.memory();
  for (const std::string& value : {std::string("x"), value_.substr(0, 128), value_.substr(1)})
    EXPECT_EQ(load_of(value), TierOutcome::corrupt) << value.size();
  EXPECT_EQ(back_.memory(), before) << "nothing of a value that is another's reaches the page";
  expect_corrupt(value_ + "x", "another size");
  expect_corrupt(value_.substr(0, value_.size() - 1), "another size");
  expect_corrupt(value_.substr(0, 1'000'200), "another size");
  std::string damaged = value_;
  damaged[8] = 2;
  expect_corrupt(damaged, "another version");
  PageMemory other({2'200'000});
  ASSERT_EQ(store(*tier_, name_of(2), other), TierOutcome::done);
  std::string key_of_other = key_;
  key_of_other[key_of_other.size() - 63] = '2';
  expect_corrupt(server_->text({"GET", key_of_other}), "another page");
  server_->command({"DEL", key_});
  server_->command({"LPUSH", key_, "x"});
  EXPECT_EQ(load(*tier_, name_of(1), back_, LoadOrder::extents), TierOutcome::corrupt);
  EXPECT_THAT(tier_->last_fault().message(), HasSubstr("WRONGTYPE"));
}

TEST_F(ReplacedLayers, of_which_a_bit_has_changed_are_corrupt) {
  Rng rng(test_seed());
  for (int i = 0; i < 40; ++i) {
    std::string damaged = value_;
    damaged[static_cast<size_t>(rng.between(0, i < 10 ? 127 : std::ssize(damaged) - 1))] ^=
        static_cast<char>(1 << rng.between(0, 7));
    ASSERT_EQ(load_of(damaged), TierOutcome::corrupt);
  }
  EXPECT_EQ(load_of(value_), TierOutcome::done);
  EXPECT_EQ(back_.memory(), page_.memory());
}

TEST_F(ReplacedLayers, of_which_nothing_is_there_are_missing) {
  EXPECT_EQ(load_of(""), TierOutcome::missing);
  server_->command({"DEL", key_});
  EXPECT_EQ(load(*tier_, name_of(1), back_, LoadOrder::extents), TierOutcome::missing);
}

/// The value of a page, as a server has it.
std::string value_of(const PageName& name, const PageMemory& page) {
  const tier::PayloadHeader header = tier::header_of(name, {}, page.extents());
  std::string value(reinterpret_cast<const char*>(&header), sizeof(header));
  for (const Extent& e : page.extents())
    value.append(reinterpret_cast<const char*>(e.data), static_cast<size_t>(e.bytes));
  return value;
}

/// Two pages of four extents, and a server that answers as often as it may.
class SlowLoad {
 public:
  /// `change` is given each part of a value, and where it begins.
  explicit SlowLoad(std::function<std::string(std::string, int64_t)> change)
      : change_(std::move(change)) {
    for (uint32_t i = 0; i < 2; ++i) {
      const std::vector<int64_t> runs(4, run);
      wanted_.emplace_back(runs).fill(i + 1);
      back_.emplace_back(runs);
      values_.push_back(value_of(name_of(i + 1), wanted_[i]));
    }
    for (uint32_t i = 0; i < 2; ++i) loads_.push_back({name_of(i + 1), back_[i].extents()});
    server_ = std::make_unique<FakeServer>([this](const Words& words) { return answer(words); });
    tier_ =
        make_redis_tier(patient({.port = server_->port()}), {.threads = 1, .max_bytes = 1 << 30})
            .value();
    ticket_ = tier_->load(loads_, 0, LoadOrder::extents).value();
  }
  SlowLoad(const SlowLoad&) = delete;
  SlowLoad& operator=(const SlowLoad&) = delete;
  ~SlowLoad() { may_answer_ = 1 << 30; }

  void let_answer(int parts) { may_answer_ += parts; }
  [[nodiscard]] uint32_t landed() const { return tier_->landed(ticket_); }
  void wait_until_landed(uint32_t extents) const {
    while (landed() < extents) usleep(200);
  }
  [[nodiscard]] bool has(size_t page, size_t extent) const {
    const Extent is = back_[page].extents()[extent], must = wanted_[page].extents()[extent];
    return std::equal(is.data, is.data + is.bytes, must.data);
  }
  [[nodiscard]] std::vector<TierOutcome> outcomes() {
    std::vector<TierOutcome> all(2);
    for (const TierCompletion& c : wait_for(*tier_, 2)) all[c.page] = c.outcome;
    return all;
  }

 private:
  static constexpr int64_t run = 512 << 10;  // a step of two pages

  Saying answer(const Words& words) {
    while (answered_ == may_answer_) usleep(200);
    ++answered_;
    const std::string& value = values_[words[1].find(":02") == std::string::npos ? 0 : 1];
    const int64_t first = std::stol(words[2]), last = std::stol(words[3]);
    const std::string part = change_(
        value.substr(static_cast<size_t>(first), static_cast<size_t>(last - first + 1)), first);
    return {.bytes = "$" + std::to_string(part.size()) + "\r\n" + part + "\r\n"};
  }

  const std::function<std::string(std::string, int64_t)> change_;
  std::atomic<int> may_answer_ = 0;
  int answered_ = 0;
  std::vector<PageMemory> wanted_, back_;
  std::vector<std::string> values_;
  std::vector<TierPage> loads_;
  std::unique_ptr<FakeServer> server_;
  std::unique_ptr<Tier> tier_;
  TierTicket ticket_;
};

std::string as_it_is(std::string part, int64_t) { return part; }

TEST(RedisLayersOfSlowServers, are_told_of_as_they_come) {
  SlowLoad load(as_it_is);
  EXPECT_EQ(load.landed(), 0U);
  for (uint32_t extent = 0; extent < 3; ++extent) {
    load.let_answer(1);
    load.let_answer(1);
    load.wait_until_landed(extent + 1);
    EXPECT_EQ(load.landed(), extent + 1) << "nothing more has been sent";
    for (size_t page = 0; page < 2; ++page) EXPECT_TRUE(load.has(page, extent));
    EXPECT_FALSE(load.has(0, extent + 1));
  }
  load.let_answer(2);
  EXPECT_THAT(load.outcomes(), ElementsAre(TierOutcome::done, TierOutcome::done));
  EXPECT_EQ(load.landed(), 0U);
  for (size_t page = 0; page < 2; ++page) EXPECT_TRUE(load.has(page, 3));
}

TEST(RedisLayersOfSlowServers, whose_page_goes_meanwhile_are_missing) {
  SlowLoad load([](std::string part, int64_t offset) {
    return offset > 1 << 20 ? std::string() : std::move(part);
  });
  load.let_answer(1 << 20);
  EXPECT_THAT(load.outcomes(), ElementsAre(TierOutcome::missing, TierOutcome::missing));
}

TEST(RedisLayersOfSlowServers, whose_bytes_change_between_two_steps_are_corrupt) {
  SlowLoad load([changed = false](std::string part, int64_t offset) mutable {
    if (offset > 1 << 20 && !std::exchange(changed, true)) part[1000] ^= 1;
    return part;
  });
  load.let_answer(1 << 20);
  EXPECT_THAT(load.outcomes(), ElementsAre(TierOutcome::corrupt, TierOutcome::done));
}

}  // namespace
}  // namespace folio::test
