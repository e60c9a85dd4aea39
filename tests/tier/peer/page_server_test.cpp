// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/page_server_test.cpp: a page server and clients that do not do as they should.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "tier/peer/page_server_helpers.h"

namespace folio::test {
namespace {

class PageServerOverEvery : public PageServerTest {};

INSTANTIATE_TEST_SUITE_P(Kinds, PageServerOverEvery, ::testing::ValuesIn(transport_kinds()),
                         [](const auto& kind) { return kind.param.name; });

/// E2: what is lent stays while others need room; when the lease has expired it goes.
TEST_P(PageServerOverEvery, a_lease_holds_a_page_until_it_expires) {
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
TEST_P(PageServerOverEvery, what_is_stored_is_found_when_it_is_whole_and_not_before) {
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

TEST_P(PageServerOverEvery, a_damaged_page_of_the_server_is_corrupt_and_not_served) {
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

TEST_P(PageServerOverEvery, the_server_bears_what_strangers_say) {
  Server server(GetParam(), server_options());
  const uint64_t seed = test_seed();
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

}  // namespace
}  // namespace folio::test
