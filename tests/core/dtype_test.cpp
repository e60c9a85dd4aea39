// SPDX-License-Identifier: Apache-2.0
/// tests/core/dtype_test.cpp: every pattern of every element type, and every place where rounding
/// decides.
///
/// The definition used here is the formats' own sentence, value = (-1)^s * m * 2^e, in double
/// through ldexp; it shares no line with the conversions under test. Rounding is tested from the
/// sorted list of all values of a type: nearest is found by comparing distances, which are exact in
/// double.
#include "folio/core/dtype.h"
#include "folio/core/element.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace folio {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr float float_infinity = std::numeric_limits<float>::infinity();

/// sign | exponent | mantissa of a format with or without infinities ("fn": only the all-ones
/// pattern is NaN).
double ieee_value(uint32_t code, int exponent_bits, int mantissa_bits, bool has_infinity) {
  const uint32_t exponent = (code >> mantissa_bits) & ((1u << exponent_bits) - 1);
  const uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
  const double sign = (code >> (exponent_bits + mantissa_bits)) & 1 ? -1.0 : 1.0;
  const uint32_t all_ones = (1u << exponent_bits) - 1;
  if (exponent == all_ones && has_infinity) return mantissa == 0 ? sign * infinity : not_a_number;
  if (exponent == all_ones && mantissa == (1u << mantissa_bits) - 1) return not_a_number;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int lowest = 1 - bias - mantissa_bits;
  if (exponent == 0) return sign * std::ldexp(mantissa, lowest);
  return sign *
         std::ldexp(mantissa + (1u << mantissa_bits), lowest + static_cast<int>(exponent) - 1);
}

template <class T>
struct Format;
template <>
struct Format<f16> {
  static constexpr int codes = 65536;
  static constexpr bool saturates = false;
  static f16 make(uint32_t code) { return {static_cast<uint16_t>(code)}; }
  static double value(uint32_t code) { return ieee_value(code, 5, 10, true); }
};
template <>
struct Format<bf16> {
  static constexpr int codes = 65536;
  static constexpr bool saturates = false;
  static bf16 make(uint32_t code) { return {static_cast<uint16_t>(code)}; }
  static double value(uint32_t code) { return ieee_value(code, 8, 7, true); }
};
template <>
struct Format<f8_e4m3> {
  static constexpr int codes = 256;
  static constexpr bool saturates = true;
  static f8_e4m3 make(uint32_t code) { return {static_cast<uint8_t>(code)}; }
  static double value(uint32_t code) { return ieee_value(code, 4, 3, false); }
};
template <>
struct Format<f8_e5m2> {
  static constexpr int codes = 256;
  static constexpr bool saturates = true;
  static f8_e5m2 make(uint32_t code) { return {static_cast<uint8_t>(code)}; }
  static double value(uint32_t code) { return ieee_value(code, 5, 2, true); }
};

bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

/// All finite values >= 0 of T, ascending: entry c is the value of code c.
template <class T>
std::vector<double> magnitudes() {
  std::vector<double> values;
  for (uint32_t code = 0; std::isfinite(Format<T>::value(code)); ++code)
    values.push_back(Format<T>::value(code));
  return values;
}

template <class T>
uint32_t sign_bit() {
  return static_cast<uint32_t>(Format<T>::codes) / 2;
}

/// The code that round-to-nearest-even must give for x >= 0.
template <class T>
uint32_t expected_nearest(double x, const std::vector<double>& values) {
  const auto largest = static_cast<uint32_t>(values.size() - 1);
  const double step = values[largest] - values[largest - 1];
  if (Format<T>::saturates && x >= values[largest]) return largest;
  // the largest code is odd: a tie leaves it
  if (!Format<T>::saturates && x >= values[largest] + step / 2) return largest + 1;
  if (x >= values[largest]) return largest;
  const auto above =
      static_cast<uint32_t>(std::upper_bound(values.begin(), values.end(), x) - values.begin());
  const uint32_t below = above - 1;
  const double down = x - values[below];
  const double up = values[above] - x;
  if (down != up) return down < up ? below : above;
  return below % 2 == 0 ? below : above;
}

/// The code of the smallest value >= x, for x >= 0 within the range.
uint32_t expected_up(double x, const std::vector<double>& values) {
  return static_cast<uint32_t>(std::lower_bound(values.begin(), values.end(), x) - values.begin());
}

/// Largest code with value <= x: what rounding -x toward +infinity keeps of the magnitude.
uint32_t expected_truncated(double x, const std::vector<double>& values) {
  return static_cast<uint32_t>(std::upper_bound(values.begin(), values.end(), x) - values.begin()) -
         1;
}

/// Floats around every value and every midpoint of T: the thing itself and its neighbours.
template <class T>
std::vector<float> places_where_rounding_decides(const std::vector<double>& values) {
  std::vector<float> places;
  const auto around = [&](double x) {
    const auto f = static_cast<float>(x);
    for (const float g : {std::nextafter(f, -1.0f), f, std::nextafter(f, float_infinity)}) {
      if (g >= 0.0f && std::isfinite(g)) places.push_back(g);
    }
  };
  for (size_t i = 0; i < values.size(); ++i) {
    around(values[i]);
    if (i + 1 < values.size()) around((values[i] + values[i + 1]) / 2);
  }
  const double largest = values.back();
  const double step = largest - values[values.size() - 2];
  for (const double x : {largest + step / 2, largest + step, 2 * largest}) around(x);
  places.push_back(std::numeric_limits<float>::max());
  return places;
}

template <class T>
class EightAndSixteenBits : public testing::Test {};
using Formats = testing::Types<f16, bf16, f8_e4m3, f8_e5m2>;
TYPED_TEST_SUITE(EightAndSixteenBits, Formats);

TYPED_TEST(EightAndSixteenBits, every_pattern_widens_to_its_definition) {
  using F = Format<TypeParam>;
  for (uint32_t code = 0; code < F::codes; ++code) {
    const double expected = F::value(code);
    const float got = to_float(F::make(code));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(got)) << code;
    } else {
      EXPECT_EQ(static_cast<double>(got), expected) << code;
      EXPECT_EQ(std::signbit(got), std::signbit(expected)) << code;
    }
  }
}

TYPED_TEST(EightAndSixteenBits, every_value_survives_the_round_trip) {
  using F = Format<TypeParam>;
  for (uint32_t code = 0; code < F::codes; ++code) {
    const double value = F::value(code);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(from_float<TypeParam>(to_float(F::make(code)))))) << code;
    } else if (std::isinf(value) && F::saturates) {
      EXPECT_EQ(std::fabs(to_float(from_float<TypeParam>(to_float(F::make(code))))),
                magnitudes<TypeParam>().back())
          << code;
    } else {
      EXPECT_EQ(from_float<TypeParam>(static_cast<float>(value)), F::make(code)) << code;
      EXPECT_EQ(from_float_up<TypeParam>(static_cast<float>(value)), F::make(code)) << code;
    }
  }
}

TYPED_TEST(EightAndSixteenBits, rounds_to_nearest_even_at_every_value_and_midpoint) {
  const std::vector<double> values = magnitudes<TypeParam>();
  for (const float x : places_where_rounding_decides<TypeParam>(values)) {
    const uint32_t expected = expected_nearest<TypeParam>(x, values);
    EXPECT_EQ(from_float<TypeParam>(x).bits, expected) << x;
    EXPECT_EQ(from_float<TypeParam>(-x).bits, expected | sign_bit<TypeParam>()) << -x;
  }
}

TYPED_TEST(EightAndSixteenBits, rounds_up_to_the_smallest_value_not_below) {
  const std::vector<double> values = magnitudes<TypeParam>();
  for (const float x : places_where_rounding_decides<TypeParam>(values)) {
    if (x > values.back()) continue;
    EXPECT_EQ(from_float_up<TypeParam>(x).bits, expected_up(x, values)) << x;
    EXPECT_EQ(from_float_up<TypeParam>(-x).bits,
              expected_truncated(x, values) | sign_bit<TypeParam>())
        << -x;
  }
}

TYPED_TEST(EightAndSixteenBits, rounds_random_floats_to_nearest_even) {
  const std::vector<double> values = magnitudes<TypeParam>();
  const uint32_t seed = 20240611;
  std::cout << "seed " << seed << '\n';
  std::mt19937 random(seed);
  for (int i = 0; i < 200000; ++i) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(random()) & 0x7fffffffu);
    if (!std::isfinite(x)) continue;
    ASSERT_EQ(from_float<TypeParam>(x).bits, expected_nearest<TypeParam>(x, values))
        << x << ", seed " << seed;
  }
}

TYPED_TEST(EightAndSixteenBits, overflow_infinity_and_nan_follow_the_table) {
  using F = Format<TypeParam>;
  const double largest = magnitudes<TypeParam>().back();
  const double beyond = F::saturates ? largest : infinity;
  for (const float x : {std::numeric_limits<float>::max(), float_infinity}) {
    EXPECT_EQ(to_float(from_float<TypeParam>(x)), beyond);
    EXPECT_EQ(to_float(from_float<TypeParam>(-x)), -beyond);
    EXPECT_EQ(to_float(from_float_up<TypeParam>(x)), beyond);
  }
  EXPECT_EQ(to_float(from_float_up<TypeParam>(-std::numeric_limits<float>::max())), -largest)
      << "toward +inf stays finite";
  EXPECT_TRUE(std::isnan(to_float(from_float<TypeParam>(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(
      std::isnan(to_float(from_float<TypeParam>(-std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(
      std::isnan(to_float(from_float_up<TypeParam>(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::signbit(to_float(from_float<TypeParam>(-0.0f))));
  EXPECT_EQ(from_float_up<TypeParam>(std::numeric_limits<float>::denorm_min()), F::make(1))
      << "not lost";
}

TEST(DType, largest_finite_values_are_those_of_the_standards) {
  EXPECT_EQ(magnitudes<f16>().back(), 65504.0);
  EXPECT_EQ(magnitudes<bf16>().back(), std::ldexp(255.0, 120));
  EXPECT_EQ(magnitudes<f8_e4m3>().back(), 448.0);
  EXPECT_EQ(magnitudes<f8_e5m2>().back(), 57344.0);
}

TEST(DType, f8_e8m0_is_a_power_of_two_for_every_pattern_but_nan) {
  for (int code = 0; code < 255; ++code) {
    const f8_e8m0 element{static_cast<uint8_t>(code)};
    const auto value = static_cast<float>(std::ldexp(1.0, code - 127));
    EXPECT_TRUE(same_bits(to_float(element), value)) << code;
    EXPECT_EQ(from_float<f8_e8m0>(value), element) << code;
    EXPECT_EQ(from_float_up<f8_e8m0>(value), element) << code;
    if (code == 254) continue;
    const float middle = value * 1.5f;
    EXPECT_EQ(from_float<f8_e8m0>(middle).bits, code + 1) << code;
    EXPECT_EQ(from_float<f8_e8m0>(std::nextafter(middle, 0.0f)).bits, code) << code;
    EXPECT_EQ(from_float<f8_e8m0>(std::nextafter(middle, float_infinity)).bits, code + 1) << code;
    EXPECT_EQ(from_float_up<f8_e8m0>(std::nextafter(value, float_infinity)).bits, code + 1) << code;
  }
  EXPECT_TRUE(std::isnan(to_float(f8_e8m0{255})));
}

TEST(DType, f8_e8m0_clamps_and_has_no_negative_values) {
  EXPECT_EQ(from_float<f8_e8m0>(0.0f).bits, 0);
  EXPECT_EQ(from_float<f8_e8m0>(-0.0f).bits, 0);
  EXPECT_EQ(from_float_up<f8_e8m0>(std::numeric_limits<float>::denorm_min()).bits, 0);
  EXPECT_EQ(from_float<f8_e8m0>(float_infinity).bits, 254);
  EXPECT_EQ(from_float_up<f8_e8m0>(std::numeric_limits<float>::max()).bits, 254);
  EXPECT_EQ(from_float<f8_e8m0>(-1.0f).bits, 255);
  EXPECT_EQ(from_float<f8_e8m0>(-float_infinity).bits, 255);
  EXPECT_EQ(from_float<f8_e8m0>(std::numeric_limits<float>::quiet_NaN()).bits, 255);
}

/// What folio/core/element.h says of PyTorch's float8_e8m0fnu and of ml_dtypes'. Their codes are
/// what torch 2.15.0 and ml_dtypes 0.6.0 gave:
///   torch.tensor(x).to(torch.float8_e8m0fnu).view(torch.uint8)
///   numpy.float32(x).astype(ml_dtypes.float8_e8m0fnu).view(numpy.uint8)
TEST(DType, f8_e8m0_rounds_as_element_h_says_beside_torch_and_ml_dtypes) {
  constexpr int nan = 255;
  const float smallest = std::ldexp(1.0f, -127), largest = std::ldexp(1.0f, 127);
  const struct {
    float x;
    int folio, torch, ml_dtypes;
  } rows[] = {
      {1.0f, 127, 127, 127},
      {1.25f, 127, 127, 127},
      {1.4999999f, 127, 127, 127},
      {1.5f, 128, 128, 128},
      {2.9999998f, 128, 128, 128},
      {3.0f, 129, 129, 129},
      {3.0000002f, 129, 129, 129},
      {6.0f, 130, 130, 130},
      {12.0f, 131, 131, 131},
      {0.375f, 126, 126, 126},
      {0.75f, 127, 127, 127},
      {1.5f * smallest, 1, 1, 1},
      {3.0f * smallest, 2, 2, 2},
      {0.75f * smallest, 0, 0, 0},
      {0.25f * smallest, 0, 0, 0},
      {largest, 254, 254, 254},
      {1.25f * largest, 254, 254, 254},
      {std::numeric_limits<float>::quiet_NaN(), nan, nan, nan},
      // where they differ
      {0.0f, 0, 0, nan},
      {-0.0f, 0, 0, nan},
      {-3.0f, nan, 129, nan},
      {1.25f * smallest, 0, 1, 1},
      {1.5f * largest, 254, nan, nan},
      {float_infinity, 254, nan, nan},
      {-float_infinity, nan, nan, nan},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(from_float<f8_e8m0>(row.x).bits, row.folio) << row.x;
    const bool is_told = row.x <= 0.0f || row.x == 1.25f * smallest || row.x >= 1.5f * largest;
    if (is_told) continue;
    EXPECT_EQ(row.folio, row.torch) << row.x << ": the header must tell";
    EXPECT_EQ(row.folio, row.ml_dtypes) << row.x << ": the header must tell";
  }
}

TEST(DType, i8_rounds_to_nearest_even_and_saturates_symmetrically) {
  for (int k = -128; k <= 127; ++k) {
    const auto element = static_cast<int8_t>(k);
    EXPECT_EQ(to_float(element), static_cast<float>(k));
    EXPECT_EQ(from_float<int8_t>(static_cast<float>(k)), std::max(k, -127));
    if (k < -126 || k == 127) continue;
    const float middle = static_cast<float>(k) + 0.5f;
    EXPECT_EQ(from_float<int8_t>(middle), k % 2 == 0 ? k : k + 1) << k;
    EXPECT_EQ(from_float<int8_t>(std::nextafter(middle, -1000.0f)), k) << k;
    EXPECT_EQ(from_float<int8_t>(std::nextafter(middle, 1000.0f)), k + 1) << k;
    EXPECT_EQ(from_float_up<int8_t>(middle), k + 1) << k;
    EXPECT_EQ(from_float_up<int8_t>(static_cast<float>(k)), k) << k;
  }
  EXPECT_EQ(from_float<int8_t>(1e30f), 127);
  EXPECT_EQ(from_float<int8_t>(-1e30f), -127);
  EXPECT_EQ(from_float<int8_t>(float_infinity), 127);
  EXPECT_EQ(from_float<int8_t>(-float_infinity), -127);
  EXPECT_EQ(from_float<int8_t>(std::numeric_limits<float>::quiet_NaN()), 0);
}

TEST(DType, f32_is_itself) {
  for (const uint32_t bits : {0u, 0x80000000u, 1u, 0x7f800000u, 0x7fc00001u, 0x3f800000u}) {
    const float x = std::bit_cast<float>(bits);
    EXPECT_TRUE(same_bits(from_float<float>(x), x));
    EXPECT_TRUE(same_bits(from_float_up<float>(x), x));
    EXPECT_TRUE(same_bits(to_float(x), x));
  }
}

TEST(DType, conversions_are_constant_expressions) {
  static_assert(from_float<bf16>(1.0f).bits == 0x3f80);
  static_assert(from_float<f16>(65519.996f).bits == 0x7bff &&
                from_float<f16>(65520.0f).bits == 0x7c00);
  static_assert(from_float<f8_e4m3>(1000.0f).bits == 0x7e);
  static_assert(from_float_up<f8_e8m0>(1.001f).bits == 128);
  static_assert(to_float(f8_e5m2{0x3c}) == 1.0f);
}

TEST(DType, four_bit_types_have_a_name_and_a_width_and_nothing_else) {
  EXPECT_STREQ(name(DType::f4_e2m1), "f4_e2m1");
  EXPECT_STREQ(name(DType::i4), "i4");
  EXPECT_EQ(bit_width(DType::f4_e2m1), 4);
  EXPECT_EQ(bit_width(DType::i4), 4);
  for (const DType dtype : {DType::f4_e2m1, DType::i4, DType::invalid, static_cast<DType>(200)}) {
    EXPECT_FALSE(detail::is_supported(dtype));
    EXPECT_TRUE(detail::visit_dtype(dtype, []<class T>(std::type_identity<T>) {
      return std::is_same_v<T, detail::no_element>;
    }));
  }
}

TEST(DType, names_widths_and_elements_agree) {
  const struct {
    DType dtype;
    const char* text;
    int bits;
  } rows[] = {{DType::f32, "f32", 32},
              {DType::f16, "f16", 16},
              {DType::bf16, "bf16", 16},
              {DType::f8_e4m3, "f8_e4m3", 8},
              {DType::f8_e5m2, "f8_e5m2", 8},
              {DType::f8_e8m0, "f8_e8m0", 8},
              {DType::i8, "i8", 8}};
  for (const auto& row : rows) {
    EXPECT_STREQ(name(row.dtype), row.text);
    EXPECT_EQ(bit_width(row.dtype), row.bits);
    EXPECT_TRUE(detail::is_supported(row.dtype));
    detail::visit_dtype(row.dtype, [&]<class T>(std::type_identity<T>) {
      if constexpr (Element<T>) {
        EXPECT_EQ(static_cast<int>(sizeof(T)) * 8, row.bits);
        EXPECT_EQ(dtype_of<T>, row.dtype);
      } else {
        ADD_FAILURE() << row.text << " has no element";
      }
    });
  }
  EXPECT_STREQ(name(DType::invalid), "invalid");
  EXPECT_STREQ(name(static_cast<DType>(99)), "invalid");
  EXPECT_EQ(bit_width(DType::invalid), 0);
}

}  // namespace
}  // namespace folio
