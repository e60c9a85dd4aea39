// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/known_names_test.cpp: what a tier knows without asking, and what it forgets.
#include "tier/redis/known_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using tier::redis::Clock;
using tier::redis::Known;
using tier::redis::KnownNames;

constexpr Clock::time_point never = Clock::time_point::max();
Clock::time_point at(int64_t ms) { return Clock::time_point(std::chrono::milliseconds(ms)); }

TEST(KnownNames, have_an_age) {
  KnownNames names(1000, 10);
  EXPECT_EQ(names.of(name_of(1), at(0)), Known::nothing);
  EXPECT_THAT(names.note_stored(name_of(1), 100, at(5)), IsEmpty());
  names.note_absent(name_of(2), at(7));
  EXPECT_EQ(names.of(name_of(1), at(4)), Known::present);
  EXPECT_EQ(names.of(name_of(1), at(5)), Known::nothing);
  EXPECT_EQ(names.of(name_of(2), at(6)), Known::absent);
  EXPECT_EQ(names.of(name_of(2), at(7)), Known::nothing);
}

TEST(KnownNames, are_in_doubt_after_a_loss_but_count) {
  KnownNames names(1000, 10);
  EXPECT_THAT(names.note_stored(name_of(1), 100, never), IsEmpty());
  names.note_seen(name_of(2), never);
  names.note(name_of(3), Known::leaving);
  names.lose();
  EXPECT_EQ(names.of(name_of(1), at(0)), Known::nothing);
  EXPECT_EQ(names.of(name_of(2), at(0)), Known::nothing);
  EXPECT_EQ(names.of(name_of(3), at(0)), Known::leaving) << "it is still to be unlinked";
  EXPECT_EQ(names.own_bytes(), 100);
  names.note_seen(name_of(1), never);
  EXPECT_EQ(names.of(name_of(1), at(0)), Known::present);
  EXPECT_EQ(names.own_pages(), 1) << "it is still our own";
}

TEST(KnownNames, of_others_are_forgotten_beyond_the_bound) {
  KnownNames names(1000, 3);
  for (uint32_t i = 0; i < 5; ++i) names.note_seen(name_of(i), never);
  for (uint32_t i = 0; i < 5; ++i)
    EXPECT_EQ(names.of(name_of(i), at(0)), i < 2 ? Known::nothing : Known::present);
}

TEST(KnownNames, of_our_own_leave_beyond_the_bounds) {
  KnownNames by_bytes(300, 10), by_names(1000, 2);
  for (KnownNames* const names : {&by_bytes, &by_names}) {
    EXPECT_THAT(names->note_stored(name_of(1), 100, never), IsEmpty());
    EXPECT_THAT(names->note_stored(name_of(2), 100, never), IsEmpty());
    names->use(name_of(1), at(0));
  }
  EXPECT_THAT(by_bytes.note_stored(name_of(3), 150, never), ElementsAre(name_of(2)));
  EXPECT_THAT(by_names.note_stored(name_of(3), 100, never), ElementsAre(name_of(2)));
  EXPECT_EQ(by_bytes.of(name_of(2), at(0)), Known::leaving);
  EXPECT_EQ(by_bytes.own_bytes(), 250);
}

/// Whatever is noted: sums are right, bounds hold.
TEST(KnownNames, keep_their_bounds) {
  constexpr int64_t max_bytes = 1000, max_names = 12;
  Rng rng(test_seed());
  KnownNames names(max_bytes, max_names);
  std::map<uint32_t, int64_t> own;
  for (int i = 0; i < 20'000; ++i) {
    const auto number = static_cast<uint32_t>(rng.between(0, 40));
    const PageName name = name_of(number);
    switch (rng.between(0, 5)) {
      case 0:
      case 1: {
        own[number] = rng.between(1, 300);
        for (const PageName& leaving : names.note_stored(name, own[number], never))
          ASSERT_EQ(own.erase(leaving.bytes[0]), 1U);
        break;
      }
      case 2: names.note_seen(name, never); break;
      case 3: names.use(name, at(0)); break;
      case 4:
        names.note_absent(name, never);
        own.erase(number);
        break;
      default:
        names.note(name, rng.chance(0.5) ? Known::nothing : Known::leaving);
        own.erase(number);
    }
    int64_t bytes = 0;
    for (const auto& [n, size] : own) bytes += size;
    ASSERT_EQ(names.own_bytes(), bytes);
    ASSERT_EQ(names.own_pages(), std::ssize(own));
    ASSERT_LE(bytes, max_bytes);
    ASSERT_LE(std::ssize(own), max_names);
    int64_t known = 0;
    for (uint32_t n = 0; n <= 40; ++n) known += names.of(name_of(n), at(0)) != Known::nothing;
    ASSERT_LE(known, 2 * max_names);
  }
}

TEST(KnownNames, are_told_of_as_they_come_and_go) {
  ChangeLog log;
  KnownNames names(250, 2, log.observer());
  const auto stored = [](uint32_t n) { return std::pair(TierChange::stored, name_of(n)); };
  const auto removed = [](uint32_t n) { return std::pair(TierChange::removed, name_of(n)); };
  EXPECT_THAT(names.note_stored(name_of(1), 100, at(50)), IsEmpty());
  names.note_seen(name_of(2), at(20));
  names.note(name_of(3), Known::asked);
  names.note_absent(name_of(4), at(90));  // 2 is forgotten
  EXPECT_THAT(log.all(), ElementsAre(stored(1), stored(2), removed(2)));
  names.note_seen(name_of(4), at(30));
  names.note_seen(name_of(4), at(60));
  EXPECT_EQ(names.expire(at(40)), at(50));
  EXPECT_EQ(names.expire(at(50)), at(60));
  EXPECT_EQ(names.expire(at(60)), never);
  EXPECT_THAT(log.all(),
              ElementsAre(stored(1), stored(2), removed(2), stored(4), removed(1), removed(4)));
  names.note_seen(name_of(4), never);
  names.lose();
  names.lose();
  names.note_seen(name_of(4), never);
  names.note(name_of(4), Known::nothing);
  EXPECT_EQ(log.all().size(), 10U);
  EXPECT_EQ(names.expire(at(1000)), never);
}

}  // namespace
}  // namespace folio::test
