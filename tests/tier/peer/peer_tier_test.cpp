// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/peer_tier_test.cpp: pages of a server, over every transport.
#include "folio/tier/peer_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "tier/payload.h"
#include "tier/peer/page_message.h"
#include "tier/peer/transport_helpers.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t page_bytes = 10'000;

/// A server, polled by a thread of its own unless it is held.
class Server {
 public:
  Server(const TransportKind& kind, const PageServerOptions& options)
      : transport_(kind.make({}).value()),
        server_(PageServer::create(transport_.get(), options).value()),
        address_(server_->address().value()),
        thread_([this] {
          while (!is_ending_) {
            {
              const std::lock_guard lock(mutex_);
              server_->poll();
            }
            std::this_thread::yield();
          }
        }) {}
  ~Server() {
    is_ending_ = true;
    thread_.join();
  }
  [[nodiscard]] const std::vector<std::byte>& address() const { return address_; }
  /// While nobody polls.
  template <class Call>
  auto with(Call call) {
    const std::lock_guard lock(mutex_);
    return call(*server_);
  }

 private:
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<PageServer> server_;
  std::vector<std::byte> address_;
  std::mutex mutex_;
  std::atomic<bool> is_ending_ = false;
  std::thread thread_;
};

class PeerTierOverEvery : public ::testing::TestWithParam<TransportKind> {
 protected:
  static PageServerOptions server_options(int64_t pages = 8) {
    return {.max_bytes = pages * page_bytes, .page_bytes = page_bytes};
  }
  static std::unique_ptr<Tier> client(const Server& server, const PeerTierOptions& peer = {},
                                      const Digest256& fingerprint = {}) {
    TierOptions options{.max_bytes = 1};
    options.fingerprint = fingerprint;
    return make_peer_tier(GetParam().make({}).value(), server.address(), options, peer).value();
  }
  static bool finds(Tier& tier, const PageName& name) { return tier.find({&name, 1}) == 1; }
};

INSTANTIATE_TEST_SUITE_P(Kinds, PeerTierOverEvery, ::testing::ValuesIn(transport_kinds()),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(PeerTierOverEvery, loads_what_the_server_has_into_registered_memory_or_another) {
  Server server(GetParam(), server_options());
  std::vector<std::byte> registered(page_bytes);
  const std::span<std::byte> spans[] = {registered};
  const auto tier = client(server, {.memory = spans});
  PageMemory page({1, 4096, 77}), back({1, 4096, 77});
  page.fill(3);
  EXPECT_FALSE(finds(*tier, name_of(1)));
  EXPECT_TRUE(
      server.with([&](PageServer& s) { return s.put(name_of(1), page.extents()); }).is_ok());
  EXPECT_TRUE(comes_true([&] { return finds(*tier, name_of(1)); }));
  EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::done);
  EXPECT_TRUE(back.memory() == page.memory());
  const Extent inside[] = {{registered.data() + 10, 4000}, {registered.data() + 5000, 174}};
  const TierPage direct[] = {{name_of(1), inside}};
  tier->load(direct, 0).value();
  EXPECT_EQ(wait_for(*tier, 1).front().outcome, TierOutcome::done);
  EXPECT_EQ(tier::crc_of(inside), tier::crc_of(page.extents()));
  EXPECT_EQ(load(*tier, name_of(2), back), TierOutcome::missing);
  EXPECT_TRUE(comes_true([&] {
    return server.with([](PageServer& s) { return s.figures().lent_pages; }) == 0;
  })) << "leases are given back";
}

TEST_P(PeerTierOverEvery, stores_what_others_then_find) {
  Server server(GetParam(), server_options());
  const auto one = client(server), two = client(server);
  for (uint32_t i = 0; i < 20; ++i) {  // more than there is room for: the oldest go
    PageMemory page({100, 9000}), back({100, 9000});
    page.fill(i);
    EXPECT_EQ(store(*one, name_of(i), page), TierOutcome::done);
    EXPECT_TRUE(comes_true([&] { return finds(*two, name_of(i)); }));
    EXPECT_EQ(load(*two, name_of(i), back), TierOutcome::done);
    EXPECT_TRUE(back.memory() == page.memory());
    EXPECT_EQ(store(*two, name_of(i), page), TierOutcome::done) << "it is there";
  }
  EXPECT_EQ(server.with([](PageServer& s) { return s.figures(); }).pages, 8);
  EXPECT_TRUE(comes_true([&] { return !finds(*two, name_of(0)); })) << "what has gone is told";
  const PageName last = name_of(19);
  EXPECT_TRUE(two->drop({&last, 1}).is_ok());
  EXPECT_TRUE(comes_true([&] { return !finds(*one, last); }));
  PageMemory large({page_bytes + 1});
  EXPECT_EQ(store(*one, name_of(77), large), TierOutcome::full);
}

TEST_P(PeerTierOverEvery, of_another_model_finds_nothing) {
  Server server(GetParam(), server_options());
  PageMemory page({500}), back({500});
  page.fill(1);
  (void)server.with([&](PageServer& s) { return s.put(name_of(1), page.extents()); });
  const auto tier = client(server, {}, name_of(99));
  EXPECT_TRUE(comes_true([&] {
    EXPECT_FALSE(finds(*tier, name_of(1)));
    return tier->last_fault().code() == Errc::unsupported;
  }));
  EXPECT_EQ(store(*tier, name_of(2), page), TierOutcome::full);
  EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::missing);
}

/// E4: what was found is gone when it is to be loaded.
TEST_P(PeerTierOverEvery, a_page_that_goes_after_it_was_found_is_missing) {
  Server server(GetParam(), server_options());
  const auto tier = client(server);
  PageMemory page({500}), back({500});
  page.fill(1);
  (void)server.with([&](PageServer& s) { return s.put(name_of(1), page.extents()); });
  EXPECT_TRUE(comes_true([&] { return finds(*tier, name_of(1)); }));
  const std::vector<std::byte> before = back.memory();
  server.with([&](PageServer& s) {
    s.drop(name_of(1));  // and the client has not heard of it
    const TierPage pages[] = {{name_of(1), back.extents()}};
    EXPECT_TRUE(tier->load(pages, 0));
  });
  EXPECT_EQ(wait_for(*tier, 1).front().outcome, TierOutcome::missing);
  EXPECT_TRUE(back.memory() == before);
}

/// A peer that speaks the protocol by hand.
class Stranger {
 public:
  Stranger(const TransportKind& kind, const Server& server)
      : memory_(page_bytes), transport_(kind.make({}).value()) {
    region_ = transport_->add_region(memory_).value();
    server_ = transport_->connect(server.address()).value();
  }
  void say(const tier::PageMessage& message) {
    EXPECT_TRUE(transport_->send(server_, tier::encode(message)).is_ok());
  }
  void say(std::string_view text) {
    EXPECT_TRUE(transport_->send(server_, folio::test::bytes_of(text)).is_ok());
  }
  tier::PageMessage hear() {
    return tier::decode_page_message(wait_for_message(*transport_).bytes).value();
  }
  TransferState move(TransferDirection direction, const RegionRun& remote,
                     std::span<const std::byte> message = {}) {
    const RegionRun local{region_, 0, remote.bytes};
    const auto id = transport_->post({.direction = direction,
                                      .peer = server_,
                                      .local = {&local, 1},
                                      .remote = {&remote, 1},
                                      .message = message});
    return id ? wait_for(*transport_, *id) : TransferState::failed;
  }
  std::vector<std::byte>& memory() { return memory_; }
  Transport& transport() { return *transport_; }

 private:
  std::vector<std::byte> memory_;
  std::unique_ptr<Transport> transport_;
  RegionId region_;
  PeerId server_;
};

/// E2: what is lent stays while others need room; when the lease has expired it goes.
TEST_P(PeerTierOverEvery, a_lease_holds_a_page_until_it_expires) {
  PageServerOptions options = server_options(1);
  options.lease_ms = 600;
  Server server(GetParam(), options);
  PageMemory page({500});
  page.fill(1);
  (void)server.with([&](PageServer& s) { return s.put(name_of(1), page.extents()); });
  Stranger stranger(GetParam(), server);
  stranger.say({.kind = tier::PageMessageKind::want, .ticket = 5, .names = {name_of(1)}});
  const tier::PageMessage lent = stranger.hear();
  ASSERT_EQ(lent.answers, (std::vector{tier::PageAnswer::yes}));
  EXPECT_EQ(stranger.move(TransferDirection::read, lent.runs[0]), TransferState::done);
  server.with([&](PageServer& s) {
    if (s.figures().expired_leases > 0) return;  // on a machine that was very slow
    EXPECT_EQ(s.put(name_of(2), page.extents()).code(), Errc::busy);
    EXPECT_EQ(tier::extend_crc(0, stranger.memory().data(), 500), lent.headers[0].crc);
  });
  EXPECT_TRUE(comes_true([&] {
    return server.with([&](PageServer& s) { return s.put(name_of(2), page.extents()); }).is_ok();
  }));
  const auto figures = server.with([](PageServer& s) { return s.figures(); });
  EXPECT_EQ(figures.expired_leases, 1);
  EXPECT_EQ(figures.lent_pages, 0);
}

/// E1, E10: what is not whole, or came from nobody, is found by nobody.
TEST_P(PeerTierOverEvery, what_is_stored_is_found_when_it_is_whole_and_not_before) {
  Server server(GetParam(), server_options());
  PageMemory page({500});
  page.fill(1);
  const auto header = tier::header_of(name_of(1), {}, page.extents());
  Stranger one(GetParam(), server), two(GetParam(), server);
  const auto is_there = [&] {
    return server.with([](PageServer& s) { return s.has(name_of(1)); });
  };
  one.say({.kind = tier::PageMessageKind::offer, .ticket = 1, .headers = {header}});
  two.say({.kind = tier::PageMessageKind::offer, .ticket = 1, .headers = {header}});
  const auto room_one = one.hear(), room_two = two.hear();
  ASSERT_EQ(room_one.runs.size(), 1u);
  ASSERT_EQ(room_two.runs.size(), 1u);
  EXPECT_FALSE(is_there()) << "room is nothing yet";
  const auto stored = tier::encode({.kind = tier::PageMessageKind::stored, .ticket = 1});
  EXPECT_EQ(one.move(TransferDirection::write, room_one.runs[0], stored), TransferState::done);
  EXPECT_EQ(one.hear().answers, (std::vector{tier::PageAnswer::no})) << "other bytes";
  EXPECT_FALSE(is_there());
  std::copy_n(page.extents()[0].data, 500, two.memory().begin());
  EXPECT_EQ(two.move(TransferDirection::write, room_two.runs[0], stored), TransferState::done);
  EXPECT_EQ(two.hear().answers, (std::vector{tier::PageAnswer::yes}));
  EXPECT_TRUE(is_there());
  EXPECT_EQ(server.with([](PageServer& s) { return s.figures().refused_pages; }), 1);
}

TEST_P(PeerTierOverEvery, a_damaged_page_of_the_server_is_corrupt_and_not_served) {
  Server server(GetParam(), server_options());
  const auto tier = client(server);
  PageMemory page({500}), back({500});
  page.fill(1);
  EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  // somebody writes where he was lent to read
  Stranger stranger(GetParam(), server);
  stranger.say({.kind = tier::PageMessageKind::want, .ticket = 1, .names = {name_of(1)}});
  EXPECT_EQ(stranger.move(TransferDirection::write, stranger.hear().runs[0]), TransferState::done);
  EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::corrupt);
  EXPECT_EQ(tier->figures().load_outcomes[static_cast<size_t>(TierOutcome::corrupt)], 1);
}

TEST_P(PeerTierOverEvery, the_server_bears_what_strangers_say) {
  Server server(GetParam(), server_options());
  const uint64_t seed = fresh_seed();
  Rng rng(seed);
  Stranger stranger(GetParam(), server);
  stranger.say("hello");
  auto bytes = tier::encode({.kind = tier::PageMessageKind::want, .names = {name_of(1)}});
  for (int i = 0; i < 300; ++i) {
    auto bad = bytes;
    bad[static_cast<size_t>(rng.between(0, static_cast<int64_t>(bad.size()) - 1))] ^=
        static_cast<std::byte>(1 << rng.between(0, 7));
    bad.resize(static_cast<size_t>(rng.between(1, static_cast<int64_t>(bad.size()))));
    stranger.say(std::string_view(reinterpret_cast<const char*>(bad.data()), bad.size()));
  }
  stranger.say({.kind = tier::PageMessageKind::stored, .ticket = 77});
  stranger.say({.kind = tier::PageMessageKind::returned, .ticket = 77});
  stranger.say({.kind = static_cast<tier::PageMessageKind>(99)});
  const auto tier = client(server);
  PageMemory page({500}), back({500});
  page.fill(1);
  EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::done);
  EXPECT_TRUE(comes_true(
      [&] { return server.with([](PageServer& s) { return s.figures().bad_messages; }) > 100; }));
}

/// E8: the server goes, whatever is under way.
TEST_P(PeerTierOverEvery, misses_when_the_server_goes) {
  auto server = std::make_unique<Server>(GetParam(), server_options());
  const auto tier = client(*server, {.timeout_ms = 2000});
  PageMemory page({500, 4000}), back({500, 4000});
  page.fill(1);
  EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  std::deque<PageMemory> many;
  for (int i = 0; i < 30; ++i) many.emplace_back(std::vector<int64_t>{500, 4000});
  server->with([&](PageServer&) {  // which does not answer any more
    std::vector<TierPage> pages;
    for (PageMemory& memory : many) pages.push_back({name_of(1), memory.extents()});
    EXPECT_TRUE(tier->load(pages, 0));
  });
  server.reset();
  for (const TierCompletion& end : wait_for(*tier, 30)) {
    EXPECT_TRUE(end.outcome == TierOutcome::done || end.outcome == TierOutcome::failed ||
                end.outcome == TierOutcome::missing)
        << name(end.outcome);
    if (end.outcome == TierOutcome::done) {
      EXPECT_TRUE(many[end.page].memory() == page.memory());
    }
  }
  EXPECT_TRUE(comes_true([&] { return !finds(*tier, name_of(1)); }));
  EXPECT_EQ(load(*tier, name_of(1), back), TierOutcome::missing);
  EXPECT_NE(store(*tier, name_of(2), page), TierOutcome::done);
  EXPECT_FALSE(tier->last_fault().is_ok());
}

TEST(PeerTier, refuses_what_cannot_be) {
  InProcessNetwork network;
  const auto transport = network.make_end().value();
  const auto says = [&](const PageServerOptions& options, const char* part) {
    EXPECT_THAT(PageServer::create(transport.get(), options).error().message(), HasSubstr(part));
  };
  says({.max_bytes = 10}, "page_bytes is 0");
  says({.max_bytes = 10, .page_bytes = 11}, "max_bytes is 10, expected 11");
  says({.max_bytes = 10, .page_bytes = 10, .lease_ms = 0}, "lease_ms is 0");
  EXPECT_FALSE(PageServer::create(nullptr, {.max_bytes = 10, .page_bytes = 10}));
  const auto server =
      PageServer::create(transport.get(), {.max_bytes = 10, .page_bytes = 10}).value();
  EXPECT_THAT(server->put(name_of(1), {}).message(), HasSubstr("the page has 0 bytes"));
  const auto address = server->address().value();
  const TierOptions options{.max_bytes = 1};
  EXPECT_FALSE(make_peer_tier(nullptr, address, options));
  EXPECT_THAT(make_peer_tier(network.make_end().value(), address, options, {.timeout_ms = 0})
                  .error()
                  .message(),
              HasSubstr("timeout_ms is 0"));
  EXPECT_FALSE(make_peer_tier(network.make_end().value(), {}, options));
}

}  // namespace
}  // namespace folio::test
