// SPDX-License-Identifier: Apache-2.0
/// tests/attention/append_i4_test.cpp: scales of i4 that append computes: which element they make
/// -8, and what becomes of the others.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "folio/attention/append.h"
#include "reference/elements.h"
#include "support/random.h"

namespace folio::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr DType signed_scales[] = {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3};

/// One token of `heads` heads of 32 elements, with a scale for 16 of them.
class OneToken {
 public:
  explicit OneToken(DType dtype = DType::i4, DType scale_dtype = DType::f16, int32_t heads = 1)
      : values_(static_cast<size_t>(heads) * row), scales_(static_cast<size_t>(heads) * 2) {
    view.dtype = dtype;
    view.num_heads = heads;
    view.head_size = head_size;
    view.page_size = 1;
    view.num_pages = 1;
    view.data = values_.data();
    view.head_stride_bytes = row;
    view.slot_stride_bytes = view.page_stride_bytes = heads * row;
    ScaleView& s = view.scales;
    s.data = scales_.data();
    s.dtype = scale_dtype;
    s.granularity = head_size / 2;
    s.granule_stride_bytes = 4;
    s.head_stride_bytes = 8;
    s.slot_stride_bytes = s.page_stride_bytes = int64_t{heads} * 8;
  }

  /// Rows of all heads; what is not given is 0.
  void append_rows(std::vector<float> x) const {
    x.resize(static_cast<size_t>(view.num_heads) * head_size);
    const int64_t slot = 0;
    AppendArgs args;
    args.k = dense_tensor(x.data(), DType::f32, {1, int64_t{view.num_heads}, head_size});
    args.key = view;
    args.slots = &slot;
    ASSERT_EQ(append({}, args, serial_executor()).message(), "");
  }
  [[nodiscard]] double scale(size_t granule = 0) const {
    return reference::load(scales_.data() + granule, view.scales.dtype);
  }
  [[nodiscard]] std::vector<double> stored(size_t head = 0) const {
    std::vector<double> all(head_size);
    reference::load_row(values_.data() + head * row, view.dtype, head_size, all.data());
    return all;
  }
  /// The first few of them.
  [[nodiscard]] std::vector<double> codes(size_t count, size_t head = 0) const {
    std::vector<double> all = stored(head);
    all.resize(count);
    return all;
  }

  static constexpr int64_t head_size = 32, row = head_size / 2;
  PagedKVView view;

 private:
  std::vector<std::byte> values_;
  mutable std::vector<float> scales_;  // room for any type
};

using Codes = std::vector<double>;

TEST(AppendI4, the_element_of_the_largest_magnitude_becomes_minus_8) {
  for (const DType dtype : {DType::i4, DType::i4_halves}) {
    for (const DType scales : signed_scales) {
      SCOPED_TRACE(std::string(name(dtype)) + ", scales " + name(scales));
      const OneToken token(dtype, scales);
      token.append_rows({-3.0f, 1.0f, 2.625f, 2.9f, -2.9f});
      EXPECT_EQ(token.scale(), 0.375);
      EXPECT_EQ(token.codes(5), (Codes{-8, 3, 7, 7, -8}));
      token.append_rows({3.0f, -1.0f, -2.625f, -2.9f, 2.9f});
      EXPECT_EQ(token.scale(), -0.375);
      EXPECT_EQ(token.codes(5), (Codes{-8, 3, 7, 7, -8}));
    }
  }
}

TEST(AppendI4, a_magnitude_of_both_signs_has_a_positive_scale) {
  for (const bool is_negative_first : {false, true}) {
    const OneToken token;
    const float first = is_negative_first ? -2.0f : 2.0f;
    token.append_rows({first, 0.5f, -first});
    EXPECT_EQ(token.scale(), 0.25);
    EXPECT_EQ(token.codes(3), is_negative_first ? (Codes{-8, 2, 7}) : (Codes{7, 2, -8}));
  }
}

TEST(AppendI4, halves_are_rounded_to_even_and_stay_within_minus_8_and_7) {
  const OneToken token;
  token.append_rows({-8.0f, 0.5f, 1.5f, 2.5f, -0.5f, -2.5f, -6.5f, -7.5f, 6.5f, 7.5f, 8.0f});
  EXPECT_EQ(token.scale(), 1.0);
  EXPECT_EQ(token.codes(11), (Codes{-8, 0, 2, 2, 0, -2, -6, -8, 6, 7, 7}));
}

TEST(AppendI4, scales_are_those_of_finite_elements) {
  const OneToken token;
  token.append_rows({4.0f, infinity, -infinity, not_a_number, -3.5f, 0.5f});
  EXPECT_EQ(token.scale(), -0.5);
  EXPECT_EQ(token.codes(6), (Codes{-8, -8, 7, 0, 7, -1}));
  token.append_rows({-infinity, infinity, 2.0f, -4.0f});
  EXPECT_EQ(token.scale(), 0.5);
  EXPECT_EQ(token.codes(4), (Codes{-8, 7, 4, -8}));
}

TEST(AppendI4, a_granule_of_zeros_or_without_finite_elements_has_scale_one) {
  for (const float zero : {0.0f, -0.0f}) {
    const OneToken token;
    std::vector<float> rows(16, zero);
    rows.insert(rows.end(), {infinity, -infinity, not_a_number});
    rows.resize(32, not_a_number);
    token.append_rows(rows);
    EXPECT_EQ(token.scale(0), 1.0);
    EXPECT_EQ(token.scale(1), 1.0);
    std::vector<double> expected(32, 0.0);
    expected[16] = 7.0;
    expected[17] = -8.0;
    EXPECT_EQ(token.stored(), expected);
  }
}

TEST(AppendI4, scales_without_a_sign_are_a_seventh_of_the_largest_magnitude) {
  const OneToken token(DType::i4, DType::f8_e8m0);
  token.append_rows({3.0f, -1.0f, 3.5f, -3.5f});
  EXPECT_EQ(token.scale(), 0.5);
  EXPECT_EQ(token.codes(4), (Codes{6, -2, 7, -7}));
}

TEST(AppendI4, magnitudes_of_scales_are_rounded_away_from_zero) {
  Rng rng(test_seed());
  for (const DType scales : signed_scales) {
    for (int round = 0; round < 200; ++round) {
      const OneToken token(DType::i4, scales);
      const float x = rng.uniform(-4.0f, 4.0f) * std::exp2(rng.uniform(-6.0f, 2.0f));
      token.append_rows({x});
      const double size = std::fabs(static_cast<double>(x)), scale = std::fabs(token.scale());
      ASSERT_EQ(token.scale() > 0.0, x < 0.0f) << x;
      ASSERT_GE(scale * 8.0, size) << name(scales);
      const uint32_t code = reference::encode(scales, scale);
      ASSERT_LT(reference::decode(scales, code - 1) * 8.0, size) << name(scales);
    }
  }
}

TEST(AppendI4, scales_beyond_their_type_are_its_largest_with_their_sign) {
  for (const auto& [scales, largest] :
       {std::pair{DType::f16, 65504.0}, std::pair{DType::f8_e4m3, 448.0}}) {
    const OneToken token(DType::i4, scales);
    token.append_rows({1e30f, -1e30f, 1e29f, static_cast<float>(-2.0 * largest)});
    EXPECT_EQ(token.scale(), largest) << "of -1e30";
    EXPECT_EQ(token.codes(4), (Codes{7, -8, 7, -2}));
    token.append_rows({1e30f, -1e29f, static_cast<float>(-2.0 * largest)});
    EXPECT_EQ(token.scale(), -largest);
    EXPECT_EQ(token.codes(3), (Codes{-8, 7, 2}));
  }
}

TEST(AppendI4, a_second_factor_divides_scales) {
  OneToken token(DType::i4, DType::f32);
  const float factor = 2.0f;
  token.view.scales.tensor_scale = &factor;
  token.append_rows({32.0f, -28.0f, 6.0f});
  EXPECT_EQ(token.scale(), -2.0);
  EXPECT_EQ(token.codes(3), (Codes{-8, 7, -2}));
}

TEST(AppendI4, granules_that_share_a_scale_share_the_extreme) {
  OneToken token(DType::i4, DType::f16, 2);
  token.view.scales.granule_stride_bytes = 0;
  const auto rows = [](float first, float second) {
    std::vector<float> x(64, 0.0f);
    x[3] = x[32 + 3] = first;
    x[17] = second;
    return x;
  };
  token.append_rows(rows(3.0f, -4.0f));
  EXPECT_EQ(token.scale(0), 0.5);
  EXPECT_EQ(token.stored(0)[3], 6.0);
  EXPECT_EQ(token.stored(0)[17], -8.0);
  EXPECT_EQ(token.scale(2), -0.375) << "the other head's";
  EXPECT_EQ(token.stored(1)[3], -8.0);
  token.append_rows(rows(3.0f, 4.0f));
  EXPECT_EQ(token.scale(0), -0.5);
  EXPECT_EQ(token.stored(0)[3], -6.0);
  EXPECT_EQ(token.stored(0)[17], -8.0);
  token.append_rows(rows(4.0f, -4.0f));
  EXPECT_EQ(token.scale(0), 0.5) << "as much of either sign";
  EXPECT_EQ(token.stored(0)[3], 7.0);
}

TEST(AppendI4, calibrated_scales_of_either_sign_are_read) {
  OneToken token;
  token.view.scales.slot_stride_bytes = 0;
  reference::store(token.view.scales.data, DType::f16, -0.5);
  token.append_rows({4.0f, 2.0f, -3.5f, -9.0f, 100.0f, 0.3f});
  EXPECT_EQ(token.scale(), -0.5);
  EXPECT_EQ(token.codes(6), (Codes{-8, -4, 7, 7, -8, -1}));
}

/// The sum of squares that rows lose where the largest magnitude is 7.
double lost_by_sevenths(const float* x, int64_t n) {
  double amax = 0.0, lost = 0.0;
  for (int64_t i = 0; i < n; ++i) amax = std::max(amax, std::fabs(static_cast<double>(x[i])));
  const double scale = reference::decode(DType::f16, reference::encode_up(DType::f16, amax / 7.0));
  for (int64_t i = 0; i < n; ++i) {
    const auto value = static_cast<double>(x[i]);
    lost += std::pow(std::nearbyint(value / scale) * scale - value, 2.0);
  }
  return lost;
}

TEST(AppendI4, rows_with_heavy_tails_lose_less_than_by_sevenths) {
  Rng rng(test_seed());
  double lost = 0.0, by_sevenths = 0.0;
  for (int round = 0; round < 500; ++round) {
    const OneToken token;
    std::vector<float> x(OneToken::head_size);
    for (float& value : x) {
      const float wide = rng.uniform(-1.0f, 1.0f);
      value = wide * wide * wide * std::exp2(rng.uniform(0.0f, 3.0f));
    }
    token.append_rows(x);
    const std::vector<double> stored = token.stored();
    for (size_t i = 0; i < x.size(); ++i) {
      const double scale = token.scale(i / 16), value = static_cast<double>(x[i]);
      const double off = std::fabs(stored[i] * scale - value);
      ASSERT_LE(off, std::fabs(scale) * (stored[i] == 7.0 ? 1.0001 : 0.5001)) << i;
      lost += off * off;
    }
    for (const size_t first : {size_t{0}, size_t{16}}) {
      const auto extreme = std::max_element(
          x.begin() + static_cast<int64_t>(first), x.begin() + static_cast<int64_t>(first) + 16,
          [](float a, float b) { return std::fabs(a) < std::fabs(b); });
      ASSERT_EQ(stored[static_cast<size_t>(extreme - x.begin())], -8.0);
      by_sevenths += lost_by_sevenths(x.data() + first, 16);
    }
  }
  EXPECT_LT(lost, 0.9 * by_sevenths);
}

}  // namespace
}  // namespace folio::test
