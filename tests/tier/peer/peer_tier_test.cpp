// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/peer_tier_test.cpp: pages of a server, over every transport.
#include "folio/tier/peer_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <vector>

#include "tier/peer/page_server_helpers.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

class PeerTierOverEvery : public PageServerTest {};

INSTANTIATE_TEST_SUITE_P(Kinds, PeerTierOverEvery, ::testing::ValuesIn(transport_kinds()),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(PeerTierOverEvery, loads_what_the_server_has_into_registered_memory_or_another) {
  Server server(GetParam(), server_options());
  std::vector<std::byte> registered(page_bytes);
  const std::span<std::byte> spans[] = {registered};
  const auto tier = client(server, {.memory = spans, .timeout_ms = no_deadline_ms});
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
  const auto tier = client(server, {.timeout_ms = no_deadline_ms}, name_of(99));
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

/// E8: the server goes, whatever is under way.
TEST_P(PeerTierOverEvery, misses_when_the_server_goes) {
  auto server = std::make_unique<Server>(GetParam(), server_options());
  const auto tier = client(*server);
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

/// It has all bytes, and is gone before it says whether it keeps them.
TEST_P(PeerTierOverEvery, a_store_has_failed_when_the_server_goes_without_an_answer) {
  std::vector<std::byte> room(page_bytes);
  auto server = GetParam().make({}).value();
  const RegionId region = server->add_region(room).value();
  const auto tier = make_peer_tier(GetParam().make({}).value(), server->address().value(),
                                   {.max_bytes = 1}, {.timeout_ms = no_deadline_ms})
                        .value();
  EXPECT_EQ(tier::decode_page_message(wait_for_message(*server).bytes).value().kind,
            tier::PageMessageKind::subscribe);
  PageMemory page({500, 4000});
  page.fill(1);
  const TierPage pages[] = {{name_of(1), page.extents()}};
  ASSERT_TRUE(tier->store(pages));
  const PeerMessage offer = wait_for_message(*server);
  const auto ticket = tier::decode_page_message(offer.bytes).value().ticket;
  const auto answer = tier::encode({.kind = tier::PageMessageKind::room,
                                    .ticket = ticket,
                                    .lease_ms = no_deadline_ms,
                                    .runs = {{region, 0, 4500}},
                                    .answers = {tier::PageAnswer::yes}});
  ASSERT_TRUE(server->send(offer.peer, answer).is_ok());
  EXPECT_EQ(tier::decode_page_message(wait_for_message(*server).bytes).value().kind,
            tier::PageMessageKind::stored);
  server.reset();
  TierCompletion end[1];
  ASSERT_TRUE(comes_true([&] { return tier->poll(end) == 1; }));
  EXPECT_EQ(end[0].outcome, TierOutcome::failed);
  EXPECT_EQ(tier->find({&pages[0].name, 1}), 0);
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
  EXPECT_THAT(server->put(name_of(1), {}).message(), HasSubstr("page 0 has no extents"));
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
