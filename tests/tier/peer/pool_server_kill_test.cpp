// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/pool_server_kill_test.cpp: engines that lend their pool's pages, and engines
/// that load them, killed at any moment of loads.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tier/peer/borrower.h"
#include "tier/peer/child.h"
#include "tier/peer/kill_fixture.h"
#include "tier/peer/lender.h"

namespace folio::test {
namespace {

class PoolServerKill : public KillFixture {
 protected:
  static std::vector<std::string> peer(const char* role) {
    return {FOLIO_PEER, role, GetParam().name};
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, PoolServerKill, ::testing::ValuesIn(kinds_that_are_killed()),
                         [](const auto& kind) { return kind.param.name; });

/// What has not come is computed, and all pages are right.
TEST_P(PoolServerKill, of_a_lender_makes_pages_that_are_computed) {
  const int rounds = KillFixture::rounds(40);
  int64_t lost = 0, begun = 0;
  for (int round = 0; is_due(round, rounds, lost > 0 && lost < begun); ++round) {
    Child child(peer("server"));
    Borrower borrower(make(), child.address());
    if (must_connect() || rng_.chance(0.9)) {
      ASSERT_TRUE(comes_true([&] { return borrower.finds_all(); })) << round;
    }
    for (int64_t i = rng_.between(0, 2); i > 0; --i) {
      ASSERT_NO_FATAL_FAILURE(borrower.begin()) << round;
      ASSERT_TRUE(comes_true([&] { return !borrower.is_loading(); })) << round;
      borrower.finish();
    }
    ASSERT_NO_FATAL_FAILURE(borrower.begin()) << round;
    wait_a_little();
    EXPECT_EQ(child.kill(), -1) << "it had ended by itself";
    ASSERT_TRUE(comes_true([&] { return !borrower.is_loading(); })) << round;
    borrower.finish();
    borrower.expect_all_counted();
    begun += borrower.begun();
    lost += borrower.lost();
    if (round == 2) note_files();
    ASSERT_FALSE(HasFailure()) << round;
  }
  EXPECT_GT(lost, 0);
  EXPECT_LT(lost, begun);
  expect_no_more_files();
}

/// Pages are held for those who live, and for nobody else.
TEST_P(PoolServerKill, of_a_borrower_gives_back_what_it_was_lent) {
  const int rounds = KillFixture::rounds(40);
  Lender lender(GetParam(), 2 * pages_of_prompts, 4 * pages_of_prompts);
  for (int32_t i = 0; i < lent_prompts; ++i) (void)lender.compute(lent_prompt(i));
  Borrower other(make(), lender.server().address().value());
  ASSERT_TRUE(lender.serves_until([&] { return other.finds_all(); }));
  int64_t holding = 0;
  for (int round = 0; is_due(round, rounds, holding > 0); ++round) {
    Child child(peer("client"));
    child.tell(lender.server().address().value());
    const int64_t wanted = lender.figures().loaded_pages + rng_.between(1, 3 * pages_of_prompts);
    ASSERT_TRUE(lender.serves_until([&] { return lender.figures().loaded_pages >= wanted; }));
    if (rng_.chance(0.5)) {
      ASSERT_NO_FATAL_FAILURE(other.begin());
    }
    holding += lender.used_pages() > 0 ? 1 : 0;
    EXPECT_EQ(child.kill(), -1) << "it had ended by itself";
    ASSERT_TRUE(lender.serves_until([&] { return !other.is_loading(); })) << round;
    other.finish();
    ASSERT_TRUE(lender.serves_until([&] { return lender.used_pages() == 0; })) << round;
    EXPECT_EQ(lender.figures().lent_pages, 0) << round;
    if (round == 2) note_files();
    ASSERT_FALSE(HasFailure()) << round;
  }
  EXPECT_GT(holding, 0) << "or no client was killed while it loaded";
  EXPECT_EQ(other.lost(), 0);
  other.expect_all_counted();
  const PoolPageServerFigures figures = lender.figures();
  EXPECT_EQ(figures.pages, pages_of_prompts);
  EXPECT_EQ(figures.expired_leases + figures.refused_pages + figures.bad_messages, 0);
  expect_no_more_files();
  lender.engine().finish();
}

}  // namespace
}  // namespace folio::test
