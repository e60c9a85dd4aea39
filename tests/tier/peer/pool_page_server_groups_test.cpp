// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/pool_page_server_groups_test.cpp: pages of hybrid models' pools, loaded by
/// others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "folio/tier/peer_tier.h"
#include "folio/tier/pool_page_server.h"
#include "support/random.h"
#include "tier/manager/group_engine.h"
#include "tier/peer/transport_helpers.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

constexpr int32_t page_size = GroupEngine::page_size;

/// An engine of a hybrid model whose pool is served.
class ServedGroups : public ::testing::TestWithParam<ModelShape> {
 protected:
  ServedGroups()
      : lender_({.model = GetParam(),
                 .pages = 48,
                 .max_io_pins = 512,
                 .on_event = {.function = &hear, .context = this}}),
        transport_(network_.make_end().value()) {
    server_ = PoolPageServer::create(transport_.get(), options()).value();
    tier_ = make_peer_tier(network_.make_end().value(), server_->address().value(),
                           {.max_bytes = 1}, {.timeout_ms = no_deadline_ms})
                .value();
  }
  ~ServedGroups() override { server_.reset(); }

  [[nodiscard]] PoolPageServerOptions options() {
    memory_[0] = lender_.memory();
    return {.pool = &lender_.pool(),
            .name = lender_.names(),
            .groups = lender_.groups(),
            .memory = memory_,
            .lease_ms = no_deadline_ms};
  }
  [[nodiscard]] GroupEngine::Options borrower_options(int64_t pages) const {
    return {.model = GetParam(),
            .pages = pages,
            .tiers = {{.tier = tier_.get(), .policy = StorePolicy::none}},
            .max_io_pins = 512,
            .manager = {.load_deadline_ms = 0}};
  }
  /// Returns the names of all pages that the pool has of it then.
  std::vector<PageName> compute(const GroupEngine::Tokens& prompt) {
    EXPECT_NE(lender_.admit(prompt), nullptr);
    EXPECT_TRUE(lender_.compute(0));
    std::vector<PageName> names;
    for (int32_t p = 0; p < lender_.length(0) / page_size; ++p)
      for (uint32_t g = 0; g < lender_.pool().num_groups(); ++g)
        if ((lender_.pool().parts(lender_.id(0), p)->present >> g & 1) != 0)
          names.push_back(lender_.pool().name(lender_.id(0), p, g).value());
    lender_.release(0);
    return names;
  }
  template <class Condition>
  [[nodiscard]] bool serves_until(Condition condition) {
    return comes_true([&] {
      server_->poll();
      return condition();
    });
  }
  [[nodiscard]] bool has_heard_of(const std::vector<PageName>& names) {
    return serves_until([&] {
      std::vector<uint8_t> there(names.size());
      tier_->find_each(names, there);
      return std::ranges::count(there, 1) == std::ssize(names);
    });
  }
  void load(GroupEngine& borrower) {
    ASSERT_TRUE(serves_until([&] {
      borrower.manager().poll();
      return borrower.load_state(0) != LoadState::loading;
    }));
  }

  InProcessNetwork network_;
  std::span<std::byte> memory_[1];
  GroupEngine lender_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<PoolPageServer> server_;
  std::unique_ptr<Tier> tier_;

 private:
  static void hear(void* self, const PoolEvent& event, std::span<const TokenId> tokens) noexcept {
    const auto& test = *static_cast<ServedGroups*>(self);
    if (test.server_ != nullptr) test.server_->note(event, tokens);
  }
};

INSTANTIATE_TEST_SUITE_P(Models, ServedGroups, ::testing::ValuesIn(model_shapes()),
                         [](const auto& model) { return model.param.name; });

TEST_P(ServedGroups, a_manager_elsewhere_hits_what_the_pool_hits) {
  const auto prompt = count_from(100, 16 * page_size + 1);
  const auto names = compute(prompt);
  EXPECT_EQ(server_->figures().pages, std::ssize(names));
  ASSERT_TRUE(has_heard_of(names));
  GroupEngine borrower(borrower_options(256));
  for (const int32_t tokens : {16, 11, 8}) {
    const auto asked = std::vector(prompt.begin(), prompt.begin() + tokens * page_size + 1);
    const TieredAdmission* const admission = borrower.admit(asked);
    ASSERT_NE(admission, nullptr);
    EXPECT_EQ(admission->cached_tokens + admission->loading_tokens, lender_.pool().peek(asked));
    load(borrower);
    EXPECT_NE(borrower.load_state(0), LoadState::cut_short);
    EXPECT_EQ(borrower.length(0), lender_.pool().peek(asked));
    borrower.check();
    borrower.release(0);
  }
  EXPECT_GT(server_->figures().loaded_pages, 0);
  EXPECT_TRUE(serves_until([&] { return server_->figures().lent_pages == 0; }));
  EXPECT_EQ(server_->figures().missed_pages + server_->figures().refused_pages, 0);
  borrower.finish();
  lender_.finish();
}

/// The lender's memory is full all the time: what clients ask for may be gone.
TEST_P(ServedGroups, whatever_goes_meanwhile_nobody_gets_wrong_bytes) {
  Rng rng(test_seed());
  const auto make_prompt = [&] {
    auto prompt = count_from(1000 * rng.int_between(0, 3), 41);
    const int32_t other = 100'000 * rng.int_between(0, 2);
    for (auto i = static_cast<size_t>(rng.int_between(0, 9) * page_size); i < prompt.size(); ++i)
      prompt[i] += other;
    return prompt;
  };
  GroupEngine borrower(borrower_options(64));
  int64_t loaded = 0;
  for (int round = 0; round < 60; ++round) {
    (void)compute(make_prompt());
    if (rng.chance(0.25)) server_->poll();
    ASSERT_NE(borrower.admit(make_prompt()), nullptr);
    if (rng.chance(0.5)) (void)compute(make_prompt());
    load(borrower);
    loaded += borrower.length(0);
    borrower.check();
    borrower.release(0);
  }
  EXPECT_GT(loaded, 0);
  EXPECT_EQ(server_->figures().bad_messages, 0);
  borrower.finish();
}

TEST_P(ServedGroups, a_server_that_begins_late_knows_what_is_there) {
  (void)compute(count_from(100, 16 * page_size));
  const auto end = network_.make_end().value();
  const auto second = PoolPageServer::create(end.get(), options()).value();
  EXPECT_EQ(second->figures().pages, server_->figures().pages);
  ASSERT_TRUE(lender_.pool().clear().is_ok());
  EXPECT_EQ(server_->figures().pages, 0);
}

TEST_P(ServedGroups, groups_that_are_not_the_pools_are_refused) {
  const auto end = network_.make_end().value();
  const auto says = [&](const auto& change, const char* part) {
    PoolPageServerOptions wrong = options();
    change(wrong);
    EXPECT_THAT(PoolPageServer::create(end.get(), wrong).error().message(), HasSubstr(part));
  };
  says([](auto& o) { o.groups = {}; }, "groups has 0 elements");
  says([](auto& o) { o.groups = o.groups.first(1); }, "groups has 1 elements");
  says([](auto& o) { o.name.companion = nullptr; }, "name is another than the pool's");
  says([&](auto& o) { o.memory = {}; }, "memory is empty");
  says([&](auto& o) { memory_[0] = lender_.memory().first(64), o.memory = memory_; },
       "memory is without a part of planes");
}

}  // namespace
}  // namespace folio::test
