// SPDX-License-Identifier: Apache-2.0
/// tests/core/checked_test.cpp: sizes that cannot be written down stay too large.
#include "core/checked.h"

#include <gtest/gtest.h>

#include <limits>

namespace folio::test {
namespace {

constexpr int64_t most = std::numeric_limits<int64_t>::max();
constexpr int64_t least = std::numeric_limits<int64_t>::min();

TEST(CheckedSize, is_a_number_as_long_as_it_fits) {
  EXPECT_EQ((CheckedSize(6) * 7 + 3).value(), 45);
  EXPECT_EQ((CheckedSize(int64_t{1} << 31) * (int64_t{1} << 31)).value(), int64_t{1} << 62);
  EXPECT_EQ((CheckedSize(most - 2) + 1).value(), most - 1);
  EXPECT_TRUE((CheckedSize(most - 2) + 1).is_at_most(most - 1));
  EXPECT_FALSE(CheckedSize(5).is_at_most(4));
}

TEST(CheckedSize, what_does_not_fit_is_more_than_everything) {
  const CheckedSize large = CheckedSize(int64_t{1} << 32) * (int64_t{1} << 31);
  EXPECT_FALSE(large.is_at_most(most));
  EXPECT_FALSE((large + 1).is_at_most(most));
  EXPECT_FALSE((large * 3).is_at_most(most));
  EXPECT_FALSE((CheckedSize(most - 1) + 1).is_at_most(most));
  EXPECT_EQ(large.value(), most);
  EXPECT_EQ(std::min(large, CheckedSize(7)).value(), 7);
  EXPECT_EQ((large * 0).value(), 0);
}

TEST(CheckedSize, a_negative_number_wrapped_before) {
  EXPECT_FALSE(CheckedSize(-1).is_at_most(most));
  EXPECT_FALSE((CheckedSize(2) * least).is_at_most(most));
}

TEST(CheckedSize, round_up_takes_the_next_multiple) {
  EXPECT_EQ(round_up(CheckedSize(0), 64).value(), 0);
  EXPECT_EQ(round_up(CheckedSize(65), 64).value(), 128);
  EXPECT_EQ(round_up(CheckedSize(most / 64 * 64), 64).value(), most / 64 * 64);
  EXPECT_FALSE(round_up(CheckedSize(most / 64 * 64 + 1), 64).is_at_most(most));
}

TEST(CheckedSize, reach_counts_strides_of_either_sign) {
  EXPECT_EQ(reach_bytes(5, -3).value(), 12);
  EXPECT_EQ(reach_bytes(1, least).value(), 0) << "one place has no stride";
  EXPECT_EQ(reach_bytes(0, most).value(), 0);
  EXPECT_FALSE(reach_bytes(2, least).is_at_most(most));
  EXPECT_FALSE(reach_bytes(3, most / 2 + 1).is_at_most(most));
  EXPECT_TRUE(reach_bytes(3, most / 2).is_at_most(most));
}

}  // namespace
}  // namespace folio::test
