// SPDX-License-Identifier: Apache-2.0
/// tests/tma/swizzle_test.cpp: swizzles against listed values, their general form and what they are
/// for.
#include "folio/tma/swizzle.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace folio::test {
namespace {

constexpr tma::Swizzle modes[] = {tma::Swizzle::none, tma::Swizzle::b32, tma::Swizzle::b64,
                                  tma::Swizzle::b128};

TEST(XorSwizzle, matches_the_listed_values) {
  const std::vector<int64_t> expected = {0,  1,  2,  3,  4,  5,  6,  7,  9,  8,  11,
                                         10, 13, 12, 15, 14, 18, 19, 16, 17, 22, 23,
                                         20, 21, 27, 26, 25, 24, 31, 30, 29, 28};
  constexpr tma::XorSwizzle swizzle{3, 0, 3};
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(swizzle(static_cast<int64_t>(i)), expected[i]) << i;

  constexpr tma::XorSwizzle wider{3, 0, 4};
  const int64_t pairs[][2] = {{0, 0},   {1, 1},   {15, 15}, {16, 17},   {17, 16},
                              {31, 30}, {32, 34}, {47, 45}, {112, 119}, {127, 120}};
  for (const auto& [from, to] : pairs) EXPECT_EQ(wider(from), to) << from;
}
TEST(XorSwizzle, is_its_own_inverse_and_repeats) {
  for (const tma::XorSwizzle& swizzle : {tma::XorSwizzle{3, 4, 3}, tma::XorSwizzle{2, 4, 3},
                                         tma::XorSwizzle{1, 0, 5}, tma::XorSwizzle{3, 1, -3}}) {
    for (int64_t i = 0; i < 2 * swizzle.period(); ++i) {
      EXPECT_EQ(swizzle(swizzle(i)), i);
      EXPECT_EQ(swizzle(i + swizzle.period()), swizzle(i) + swizzle.period());
    }
  }
}
TEST(XorSwizzle, without_bits_changes_nothing) {
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ((tma::XorSwizzle{0, 4, 3}(i)), i);
}

TEST(Swizzle, acts_on_bytes_as_the_general_form_does) {
  for (const tma::Swizzle mode : modes) {
    for (int64_t a = 0; a < 4096; ++a)
      EXPECT_EQ(swizzle(mode, a), xor_swizzle(mode)(a)) << name(mode) << " " << a;
  }
}
TEST(Swizzle, acts_on_elements_as_on_their_bytes) {
  for (const tma::Swizzle mode : modes) {
    for (const int32_t bytes : {1, 2, 4, 8}) {
      for (int64_t i = 0; i < 1024; ++i)
        EXPECT_EQ(xor_swizzle(mode, bytes)(i) * bytes, swizzle(mode, i * bytes));
    }
  }
}
TEST(Swizzle, puts_unit_c_of_row_r_at_c_xor_r) {
  for (int64_t row = 0; row < 16; ++row) {
    for (int64_t unit = 0; unit < 8; ++unit) {
      EXPECT_EQ(swizzle(tma::Swizzle::b128, row * 128 + unit * 16),
                row * 128 + ((unit ^ (row & 7)) * 16));
    }
  }
}
TEST(Swizzle, spreads_a_column_over_the_banks) {
  for (int64_t unit = 0; unit < 8; ++unit) {
    std::set<int64_t> places;
    for (int64_t row = 0; row < 8; ++row)
      places.insert(swizzle(tma::Swizzle::b128, row * 128 + unit * 16) % 128);
    EXPECT_EQ(places.size(), 8u);
  }
}
TEST(Swizzle, permutes_each_period_and_keeps_16_bytes_together) {
  for (const tma::Swizzle mode : modes) {
    std::set<int64_t> seen;
    for (int64_t a = 0; a < swizzle_period_bytes(mode); ++a) {
      const int64_t to = swizzle(mode, a);
      EXPECT_LT(to, swizzle_period_bytes(mode));
      EXPECT_EQ(to % 16, a % 16);
      seen.insert(to);
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(swizzle_period_bytes(mode)));
  }
}

TEST(Swizzle, has_spans_of_16_to_128_bytes) {
  static_assert(swizzle_bytes(tma::Swizzle::none) == 16 && swizzle_bytes(tma::Swizzle::b32) == 32);
  static_assert(swizzle_bytes(tma::Swizzle::b64) == 64 && swizzle_bytes(tma::Swizzle::b128) == 128);
  static_assert(swizzle_period_bytes(tma::Swizzle::b32) == 256 &&
                swizzle_period_bytes(tma::Swizzle::b128) == 1024);
  EXPECT_STREQ(name(tma::Swizzle::b64), "b64");
  EXPECT_STREQ(name(static_cast<tma::Swizzle>(7)), "invalid");
}
TEST(Swizzle, granularity_counts_elements) {
  static_assert(swizzle_granularity(DType::bf16, tma::Swizzle::b128) == 64 &&
                swizzle_granularity(DType::f32, tma::Swizzle::b128) == 32);
  static_assert(swizzle_granularity(DType::i8, tma::Swizzle::b64) == 64 &&
                swizzle_granularity(DType::f16, tma::Swizzle::none) == 8);
  EXPECT_EQ(swizzle_granularity(DType::i4, tma::Swizzle::b32), 64);
  EXPECT_EQ(swizzle_granularity(DType::invalid, tma::Swizzle::b128), 0);
}
TEST(PaddedDepth, rounds_up_to_whole_chunks) {
  static_assert(padded_depth(DType::bf16, tma::Swizzle::b128, 72) == 128 &&
                padded_depth(DType::bf16, tma::Swizzle::b128, 64) == 64);
  EXPECT_EQ(padded_depth(DType::bf16, tma::Swizzle::none, 72), 72);
  EXPECT_EQ(padded_depth(DType::f8_e4m3, tma::Swizzle::b128, 576), 640);
  EXPECT_EQ(padded_depth(DType::f32, tma::Swizzle::b128, 80), 96);
  EXPECT_EQ(padded_depth(DType::bf16, tma::Swizzle::b32, 1), 16);
  EXPECT_EQ(padded_depth(DType::invalid, tma::Swizzle::b128, 64), 0);
}

}  // namespace
}  // namespace folio::test
