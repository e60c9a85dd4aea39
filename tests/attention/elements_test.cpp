// SPDX-License-Identifier: Apache-2.0
/// tests/attention/elements_test.cpp: the reference's element types against those of the library:
/// two definitions, the same values.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "folio/core/dtype.h"
#include "folio/core/element.h"
#include "reference/elements.h"
#include "reference/quantise.h"
#include "support/random.h"

namespace folio::test {
namespace {

template <class T>
T of_code(uint32_t code) {
  if constexpr (std::is_same_v<T, int8_t>) {
    return static_cast<int8_t>(static_cast<uint8_t>(code));
  } else {
    return T{static_cast<decltype(T{}.bits)>(code)};
  }
}

template <class T>
uint32_t code_of(T x) {
  if constexpr (std::is_same_v<T, int8_t>) {
    return static_cast<uint8_t>(x);
  } else {
    return x.bits;
  }
}

template <class T>
class Elements : public ::testing::Test {};
using Types = ::testing::Types<f16, bf16, f8_e4m3, f8_e5m2, f8_e8m0, int8_t>;
TYPED_TEST_SUITE(Elements, Types);

TYPED_TEST(Elements, every_pattern_has_the_same_value) {
  constexpr DType dtype = dtype_of<TypeParam>;
  for (uint32_t code = 0; code < 1u << bit_width(dtype); ++code) {
    const double exact = reference::decode(dtype, code);
    const auto value = static_cast<double>(to_float(of_code<TypeParam>(code)));
    ASSERT_TRUE(value == exact || (std::isnan(value) && std::isnan(exact))) << code;
    ASSERT_EQ(std::signbit(value),
              std::signbit(exact) || (std::isnan(value) && std::signbit(value)))
        << code;
  }
}

/// Floats where rounding is decided: all values of the type, midpoints of neighbours, one step
/// beside both, extremes, random bits.
std::vector<float> inputs(DType dtype) {
  std::vector<float> xs = {0.0f,
                           -0.0f,
                           std::numeric_limits<float>::infinity(),
                           -std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::max(),
                           std::numeric_limits<float>::denorm_min(),
                           std::nanf("")};
  for (uint32_t code = 0; code < 1u << bit_width(dtype); ++code) {
    const double x = reference::decode(dtype, code),
                 next = reference::decode(dtype, (code + 1) % (1u << bit_width(dtype)));
    for (const double base : {x, (x + next) / 2}) {
      const auto f = static_cast<float>(base);
      if (!std::isfinite(f)) continue;
      xs.insert(xs.end(), {f, std::nextafter(f, INFINITY), std::nextafter(f, -INFINITY)});
    }
  }
  Rng rng(test_seed());
  for (int i = 0; i < 100000; ++i)
    xs.push_back(std::bit_cast<float>(static_cast<uint32_t>(rng.next())));
  return xs;
}

bool same(DType dtype, uint32_t a, uint32_t b) {
  return a == b ||
         (std::isnan(reference::decode(dtype, a)) && std::isnan(reference::decode(dtype, b)));
}

TYPED_TEST(Elements, floats_round_to_the_same_pattern) {
  constexpr DType dtype = dtype_of<TypeParam>;
  for (const float x : inputs(dtype)) {
    ASSERT_TRUE(same(dtype, code_of(from_float<TypeParam>(x)),
                     reference::encode(dtype, static_cast<double>(x))))
        << x;
    if (x >= 0.0f) {
      ASSERT_TRUE(same(dtype, code_of(from_float_up<TypeParam>(x)),
                       reference::encode_up(dtype, static_cast<double>(x))))
          << x;
    }
  }
}

TEST(Quantise, a_scale_reaches_the_largest_input_and_is_the_smallest_that_does) {
  Rng rng(test_seed());
  for (const DType stored : {DType::i8, DType::f8_e4m3, DType::f8_e5m2}) {
    for (const DType scale_dtype :
         {DType::f32, DType::f16, DType::bf16, DType::f8_e8m0, DType::f8_e4m3}) {
      for (int i = 0; i < 200; ++i) {
        const float x[] = {rng.uniform(-9.0f, 9.0f), rng.uniform(-9.0f, 9.0f), std::nanf("")};
        const double amax =
            std::fmax(std::fabs(static_cast<double>(x[0])), std::fabs(static_cast<double>(x[1])));
        const double scale = reference::scale_of(x, stored, scale_dtype);
        ASSERT_GE(scale * reference::largest_stored(stored), amax);
        const uint32_t code = reference::encode(scale_dtype, scale);
        ASSERT_TRUE(code <= 1 ||
                    reference::decode(scale_dtype, code - 1) * reference::largest_stored(stored) <
                        amax);
      }
    }
  }
}

TEST(Quantise, zero_inputs_have_scale_1_and_nan_is_stored_as_the_type_says) {
  const float zeros[] = {0.0f, -0.0f, std::nanf(""), INFINITY};
  EXPECT_EQ(reference::scale_of(zeros, DType::i8, DType::f16), 1.0);
  EXPECT_EQ(reference::quantised(std::nanf(""), DType::i8, 1.0), 0.0);
  EXPECT_TRUE(std::isnan(reference::quantised(std::nanf(""), DType::f8_e4m3, 1.0)));
  EXPECT_EQ(reference::quantised(1e9f, DType::i8, 0.5), 127.0);
}

}  // namespace
}  // namespace folio::test
