// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/page_server_kill_test.cpp: page servers and clients that are killed at any
/// moment of loads and stores.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "tier/peer/child.h"
#include "tier/peer/kill_fixture.h"
#include "tier/peer/page_loads.h"
#include "tier/peer/page_server_helpers.h"

namespace folio::test {
namespace {

class PageServerKill : public KillFixture {
 protected:
  static std::vector<std::string> server() { return {FOLIO_PEER, "server", GetParam().name}; }
  static std::vector<std::string> client(uint64_t seed) {
    return {FOLIO_PEER, "client", GetParam().name, std::to_string(seed)};
  }
  [[nodiscard]] std::unique_ptr<PageLoader> loader(std::span<const std::byte> address) {
    const auto memory =
        rng_.chance(0.5) ? PageLoader::Memory::registered : PageLoader::Memory::elsewhere;
    return std::make_unique<PageLoader>(make(), address, memory, rng_.next());
  }

  /// A server dies while pages come from it and go there, and those of `other` come.
  void kill_server(PageLoader& other) {
    Child child(server());
    const auto mine = loader(child.address());
    if (must_connect() || rng_.chance(0.9)) {
      ASSERT_TRUE(comes_true([&] { return mine->finds_all(); }));
    }
    EXPECT_EQ(shared_objects(child.process()), 0) << "they would stay";
    const int64_t last = rng_.between(0, 150), store_at = rng_.between(0, 150);
    ASSERT_TRUE(comes_true([&] {
      if (mine->pending() < known_pages) mine->load_some(all_pages);
      if (mine->ended() >= store_at && !mine->has_stored()) mine->store_some();
      mine->look();
      return mine->ended() >= last;
    }));
    mine->load_some(all_pages);
    other.load_some();
    wait_a_little();
    EXPECT_EQ(child.kill(), -1) << "it had ended by itself";
    ASSERT_TRUE(comes_true([&] { return mine->look(); }));
    ASSERT_TRUE(comes_true([&] { return other.look(); }));
    expect_misses(*mine);
    EXPECT_EQ(mine->wrong(), 0);
    mine->expect_all_counted();
    add(mine->loads(), loads_);
    add(mine->stores(), stores_);
  }
  /// Of a server that is gone.
  static void expect_misses(PageLoader& loader) {
    ASSERT_TRUE(comes_true([&] { return loader.finds_none(); }));
    PageLoader::Outcomes before = loader.loads();
    const int64_t begun = loader.begun();
    loader.load_some();
    ASSERT_TRUE(comes_true([&] { return loader.look(); }));
    before[static_cast<size_t>(TierOutcome::missing)] += loader.begun() - begun;
    EXPECT_EQ(loader.loads(), before);
    EXPECT_FALSE(loader.tier().last_fault().is_ok());
  }
  static void add(const PageLoader::Outcomes& some, PageLoader::Outcomes& all) {
    for (size_t i = 0; i < all.size(); ++i) all[i] += some[i];
  }
  static int64_t count(const PageLoader::Outcomes& outcomes, TierOutcome outcome) {
    return outcomes[static_cast<size_t>(outcome)];
  }

  PageLoader::Outcomes loads_ = {}, stores_ = {};
};

INSTANTIATE_TEST_SUITE_P(Kinds, PageServerKill, ::testing::ValuesIn(kinds_that_are_killed()),
                         [](const auto& kind) { return kind.param.name; });

/// Pages come whole or end with a reason, and are counted. A tier with a server begun anew finds
/// what that has.
TEST_P(PageServerKill, of_a_server_makes_misses_and_nothing_else) {
  const int rounds = KillFixture::rounds(120);
  const auto has_seen_all = [&] {
    return count(loads_, TierOutcome::failed) > rounds / 8 && count(stores_, TierOutcome::done) > 0;
  };
  Child other_server(server());
  const auto other = loader(other_server.address());
  ASSERT_TRUE(comes_true([&] { return other->finds_all(); }));
  for (int round = 0; is_due(round, rounds, has_seen_all()); ++round) {
    ASSERT_NO_FATAL_FAILURE(kill_server(*other)) << round;
    if (round == 2) note_files();
    ASSERT_FALSE(HasFailure()) << round;
  }
  EXPECT_GT(count(loads_, TierOutcome::done), 10 * rounds);
  EXPECT_GT(count(loads_, TierOutcome::failed), rounds / 8);
  EXPECT_EQ(count(loads_, TierOutcome::corrupt), 0);
  EXPECT_GT(count(stores_, TierOutcome::done), 0);
  EXPECT_EQ(count(stores_, TierOutcome::done) + count(stores_, TierOutcome::failed),
            std::accumulate(stores_.begin(), stores_.end(), int64_t{0}));
  EXPECT_EQ(other->done(), other->begun()) << "another server is none of their business";
  EXPECT_EQ(other->wrong(), 0);
  expect_no_more_files();
}

/// What it was lent comes back at once, and another client's loads go on.
TEST_P(PageServerKill, of_a_client_gives_back_what_it_was_lent) {
  const int rounds = KillFixture::rounds(80);
  Server server(GetParam(), options_of_server());
  server.with([](PageServer& s) { put_known_pages(s); });
  const auto figures = [&] { return server.with([](PageServer& s) { return s.figures(); }); };
  const auto other = loader(server.address());
  ASSERT_TRUE(comes_true([&] { return other->finds_all(); }));
  int64_t holding = 0;
  for (int round = 0; is_due(round, rounds, holding > 0); ++round) {
    Child child(client(rng_.next()));
    child.tell(server.address());
    const int64_t wanted = figures().loaded_pages + rng_.between(1, 150);
    ASSERT_TRUE(comes_true([&] { return figures().loaded_pages >= wanted; })) << round;
    if (rng_.chance(0.5)) other->load_some();
    wait_a_little();
    holding += figures().lent_pages > 0 ? 1 : 0;
    EXPECT_EQ(child.kill(), -1) << "it had ended by itself";
    ASSERT_TRUE(comes_true([&] { return other->look(); })) << round;
    ASSERT_TRUE(comes_true([&] { return figures().lent_pages == 0; })) << round;
    if (round == 2) note_files();
  }
  EXPECT_GT(holding, 0) << "or no client was killed while it loaded";
  expect_no_more_files();
  const auto late = loader(server.address());
  ASSERT_TRUE(comes_true([&] { return late->finds_all(); }));
  late->load_some();
  ASSERT_TRUE(comes_true([&] { return late->look(); }));
  for (PageLoader* const loader : {other.get(), late.get()}) {
    EXPECT_EQ(loader->done(), loader->begun());
    EXPECT_EQ(loader->wrong(), 0);
    loader->expect_all_counted();
  }
  EXPECT_TRUE(comes_true([&] { return figures().lent_pages == 0; }));
  EXPECT_EQ(figures().expired_leases, 0);
  EXPECT_EQ(figures().bad_messages, 0);
  server.with([](PageServer& s) {
    for (uint32_t page = 0; page < known_pages; ++page) s.drop(name_of(page));
    EXPECT_EQ(s.figures().bytes, 0);
    for (uint32_t page = 0; page < all_pages; ++page)
      EXPECT_TRUE(s.put(name_of(1000 + page), filled_pages()[page].extents()).is_ok());
    EXPECT_EQ(s.figures().evicted_pages, 0) << "all slots are free again";
  });
}

}  // namespace
}  // namespace folio::test
