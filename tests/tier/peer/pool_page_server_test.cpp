// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/pool_page_server_test.cpp: pages of a pool, loaded by others.
#include "folio/tier/pool_page_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string_view>
#include <vector>

#include "folio/tier/peer_tier.h"
#include "tier/payload.h"
#include "tier/peer/lender.h"
#include "tier/peer/page_message.h"
#include "tier/peer/transport_helpers.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;
using tier::PageAnswer;
using tier::PageMessage;
using tier::PageMessageKind;

constexpr int32_t page_size = PatternEngine::page_size;

/// A client that speaks the protocol by hand.
class Stranger {
 public:
  Stranger(const TransportKind& kind, Lender& lender)
      : memory_(4 * PatternEngine::page_bytes), transport_(kind.make({}).value()) {
    region_ = transport_->add_region(memory_).value();
    server_ = transport_->connect(lender.server().address().value()).value();
    EXPECT_TRUE(lender.serves_until(
        [&] { return transport_->peer_state(server_).value() == PeerState::connected; }));
  }
  void say(const PageMessage& message) { say(tier::encode(message)); }
  void say(std::span<const std::byte> message) {
    EXPECT_TRUE(transport_->send(server_, message).is_ok());
  }
  PageMessage ask(Lender& lender, const PageMessage& message) {
    say(message);
    PeerMessage answer[1];
    EXPECT_TRUE(lender.serves_until([&] { return transport_->receive(answer) == 1; }));
    return tier::decode_page_message(answer[0].bytes).value();
  }
  /// The bytes of these runs, behind one another.
  std::span<const std::byte> read(std::span<const RegionRun> remote) {
    int64_t bytes = 0;
    for (const RegionRun& run : remote) bytes += run.bytes;
    const RegionRun local{region_, 0, bytes};
    const auto id = transport_->post({.direction = TransferDirection::read,
                                      .peer = server_,
                                      .local = {&local, 1},
                                      .remote = remote});
    EXPECT_EQ(wait_for(*transport_, id.value()), TransferState::done);
    return std::span(memory_).first(static_cast<size_t>(bytes));
  }

 private:
  std::vector<std::byte> memory_;
  std::unique_ptr<Transport> transport_;
  RegionId region_;
  PeerId server_;
};

TransportKind kind_of(InProcessNetwork& network) {
  return {"in_process", [&](const TransportOptions& o) { return network.make_end(o); }};
}

PageMessage want(uint64_t ticket, std::vector<PageName> names) {
  return {.kind = PageMessageKind::want, .ticket = ticket, .names = std::move(names)};
}

class PoolServer : public ::testing::TestWithParam<TransportKind> {
 protected:
  static std::unique_ptr<Tier> client(Lender& lender) {
    return make_peer_tier(GetParam().make({}).value(), lender.server().address().value(),
                          {.max_bytes = 1}, {.timeout_ms = no_deadline_ms})
        .value();
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, PoolServer, ::testing::ValuesIn(transport_kinds()),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(PoolServer, a_manager_elsewhere_loads_what_the_pool_has) {
  Lender lender(GetParam());
  const auto prompt = count_from(100, 5 * page_size + 1);
  const auto names = lender.compute(prompt);
  ASSERT_EQ(lender.figures().pages, 5);
  const auto tier = client(lender);
  PatternEngine other({.num_pages = 16,
                       .tiers = {{.tier = tier.get(), .policy = StorePolicy::none}},
                       .manager = {.load_deadline_ms = 0}});
  EXPECT_TRUE(lender.serves_until([&] { return tier->find(names) == 5; }));
  const TieredAdmission* const admission = other.admit(prompt);
  ASSERT_NE(admission, nullptr);
  EXPECT_EQ(admission->loading_tokens, 5 * page_size);
  EXPECT_TRUE(lender.serves_until([&] {
    other.manager().poll();
    return other.load_state(0) != LoadState::loading;
  }));
  EXPECT_EQ(other.load_state(0), LoadState::loaded);
  other.check();
  EXPECT_TRUE(lender.serves_until([&] { return lender.figures().lent_pages == 0; }));
  EXPECT_EQ(lender.figures().loaded_pages, 5);
  other.finish();
  lender.engine().finish();
  EXPECT_TRUE(lender.serves_until([&] { return tier->find(names) == 0; })) << "cleared is told";
}

TEST_P(PoolServer, what_was_evicted_is_missing) {
  Lender lender(GetParam());
  const auto names = lender.compute(count_from(100, 2 * page_size));
  const auto tier = client(lender);
  EXPECT_TRUE(lender.serves_until([&] { return tier->find(names) == 2; }));
  ASSERT_TRUE(lender.engine().pool().clear().is_ok());  // which the client has not heard
  PageMemory page({PatternEngine::page_bytes});
  const std::vector<std::byte> before = page.memory();
  const TierPage pages[] = {{names[1], page.extents()}};
  ASSERT_TRUE(tier->load(pages, 0));
  TierCompletion end[1];
  EXPECT_TRUE(lender.serves_until([&] { return tier->poll(end) == 1; }));
  EXPECT_EQ(end[0].outcome, TierOutcome::missing);
  EXPECT_TRUE(page.memory() == before);
}

TEST_P(PoolServer, a_lease_holds_pages_while_the_pool_needs_room) {
  Lender lender(GetParam(), 4);
  const auto names = lender.compute(count_from(100, 2 * page_size));
  Stranger stranger(GetParam(), lender);
  const PageMessage lent = stranger.ask(lender, want(7, {names[1]}));
  ASSERT_EQ(lent.answers, (std::vector{PageAnswer::yes}));
  EXPECT_EQ(lender.used_pages(), 1) << "the page alone, not those before it";
  for (TokenId first = 1000; first < 1100; first += 20)
    (void)lender.compute(count_from(first, 3 * page_size));  // in the three others
  const auto bytes = stranger.read(lent.runs);
  EXPECT_EQ(tier::extend_crc(0, bytes.data(), static_cast<int64_t>(bytes.size())),
            lent.headers[0].crc);
  EXPECT_EQ(lent.headers[0].bytes, static_cast<int64_t>(bytes.size()));
  stranger.say({.kind = PageMessageKind::returned, .ticket = 7});
  EXPECT_TRUE(lender.serves_until([&] { return lender.used_pages() == 0; }));
  EXPECT_EQ(lender.figures().lent_pages, 0);
  EXPECT_EQ(lender.figures().expired_leases, 0);
}

TEST_P(PoolServer, a_lease_ends_with_its_time_or_its_client) {
  Lender lender(GetParam(), 16, 64, 100);
  const auto names = lender.compute(count_from(100, 2 * page_size));
  Stranger stranger(GetParam(), lender);
  EXPECT_EQ(stranger.ask(lender, want(1, names)).headers.size(), 2u);
  EXPECT_TRUE(lender.serves_until([&] { return lender.figures().expired_leases == 1; }));
  EXPECT_EQ(lender.used_pages(), 0);

  Lender patient(GetParam());
  const auto more = patient.compute(count_from(100, 2 * page_size));
  auto client = std::make_unique<Stranger>(GetParam(), patient);
  EXPECT_EQ(client->ask(patient, want(1, more)).headers.size(), 2u);
  EXPECT_EQ(patient.used_pages(), 2);
  client.reset();
  EXPECT_TRUE(patient.serves_until([&] { return patient.used_pages() == 0; }));
  EXPECT_EQ(patient.figures().expired_leases, 0);
}

TEST_P(PoolServer, bears_what_strangers_say) {
  Lender lender(GetParam(), 16, 2);
  const auto names = lender.compute(count_from(100, 3 * page_size));
  Stranger stranger(GetParam(), lender);
  stranger.say(bytes_of("hello"));
  stranger.say({.kind = PageMessageKind::returned, .ticket = 77});
  stranger.say({.kind = PageMessageKind::stored, .ticket = 77});
  stranger.say({.kind = PageMessageKind::drop, .names = names});
  stranger.say({.kind = static_cast<PageMessageKind>(99)});
  stranger.say(want(1, std::vector<PageName>(5000, names[0])));
  const PageMessage room = stranger.ask(
      lender, {.kind = PageMessageKind::offer, .headers = {tier::PayloadHeader{}, {}}});
  EXPECT_EQ(room.answers, (std::vector{PageAnswer::no, PageAnswer::no}));
  EXPECT_EQ(stranger.ask(lender, want(2, {name_of(1)})).answers, (std::vector{PageAnswer::no}));
  // two pins for the same page twice and two others
  const PageMessage lent = stranger.ask(lender, want(3, {names[1], names[1], names[0], names[2]}));
  EXPECT_EQ(lent.headers.size(), 2u);
  stranger.say(want(3, {names[0]}));  // the same ticket
  stranger.say({.kind = PageMessageKind::returned, .ticket = 3});
  EXPECT_TRUE(lender.serves_until([&] { return lender.used_pages() == 0; }));
  const PoolPageServerFigures figures = lender.figures();
  EXPECT_EQ(figures.bad_messages, 5);
  EXPECT_EQ(figures.missed_pages, 1);
  EXPECT_EQ(figures.refused_pages, 2 + 2);
  EXPECT_EQ(figures.pages, 3) << "nobody drops the pool's pages";
  lender.engine().finish();
}

TEST(PoolServerOfOne, serves_adapters_and_no_salts) {
  InProcessNetwork network;
  Lender lender(kind_of(network));
  PagePool& pool = lender.engine().pool();
  const auto tokens = count_from(100, 2 * page_size);
  for (const SequenceOptions& options :
       {SequenceOptions{.salt = "of one user"}, SequenceOptions{.adapter = 5}}) {
    const SequenceId id = pool.admit(tokens, options).value().id;
    pool.reserve(id, 2 * page_size).or_throw();
    pool.commit(id, tokens).or_throw();
    pool.release(id).or_throw();
  }
  EXPECT_EQ(lender.figures().pages, 2);
  EXPECT_EQ(lender.figures().unserved_pages, 2);
  ASSERT_TRUE(pool.clear().is_ok());
  EXPECT_EQ(lender.figures().pages + lender.figures().unserved_pages, 0);
}

TEST(PoolServerOfOne, knows_what_was_there_before_it) {
  InProcessNetwork network;
  Lender lender(kind_of(network));
  (void)lender.compute(count_from(100, 3 * page_size));
  const auto transport = network.make_end().value();
  const std::span<std::byte> memory[] = {lender.engine().memory()};
  const auto second = PoolPageServer::create(transport.get(), {.pool = &lender.engine().pool(),
                                                               .name = lender.engine().names(),
                                                               .planes = lender.engine().planes(),
                                                               .memory = memory});
  EXPECT_EQ(second.value()->figures().pages, 3);
}

TEST(PoolServerOfOne, refuses_what_cannot_be) {
  InProcessNetwork network;
  const auto transport = network.make_end().value();
  const auto ignore = [](void*, const PoolEvent&, std::span<const TokenId>) noexcept {};
  PatternEngine engine({.num_pages = 4, .on_event = {.function = ignore}});
  const std::span<std::byte> memory[] = {engine.memory()};
  const std::span<std::byte> half[] = {engine.memory().first(engine.memory().size() / 2)};
  const PoolPageServerOptions right{
      .pool = &engine.pool(), .name = engine.names(), .planes = engine.planes(), .memory = memory};
  const auto says = [&](const auto& change, const char* part) {
    PoolPageServerOptions options = right;
    change(options);
    EXPECT_THAT(PoolPageServer::create(transport.get(), options).error().message(),
                HasSubstr(part));
  };
  says([](auto& o) { o.pool = nullptr; }, "pool is null");
  says([](auto& o) { o.name = {}; }, "name.function is null");
  says([](auto& o) { o.planes = {}; }, "planes is empty");
  says([](auto& o) { o.memory = {}; }, "memory is empty");
  says([&](auto& o) { o.memory = half; }, "memory is without a part of planes");
  says([](auto& o) { o.lease_ms = 0; }, "lease_ms is 0, expected 1");
  EXPECT_THAT(PoolPageServer::create(nullptr, right).error().message(),
              HasSubstr("transport is null"));
  PatternEngine silent({.num_pages = 4});
  says([&](auto& o) { o.pool = &silent.pool(), o.name = silent.names(); }, "on_event");
  EXPECT_TRUE(PoolPageServer::create(transport.get(), right));
}

}  // namespace
}  // namespace folio::test
