// SPDX-License-Identifier: Apache-2.0
/// tests/core/convert_test.cpp: the conversions that devices have instructions for: what PTX says
/// of each instruction, computed here from the definition of the formats, against the exact
/// tables of element.h.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "folio/core/convert.h"
#include "folio/core/vec.h"
#include "support/random.h"

namespace folio::test {
namespace {

/// A format by its definition: 1 sign bit, exponent, mantissa.
struct Format {
  int exponent_bits, mantissa_bits;
  bool has_infinity;

  [[nodiscard]] int bits() const { return 1 + exponent_bits + mantissa_bits; }
  [[nodiscard]] double value(uint32_t code) const {
    const int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
    const double sign = code >> (bits() - 1) & 1 ? -1.0 : 1.0;
    const int exponent = static_cast<int>(code >> mantissa_bits) & top;
    const int mantissa = static_cast<int>(code) & ((1 << mantissa_bits) - 1);
    if (has_infinity && exponent == top)
      return mantissa == 0 ? sign * HUGE_VAL : std::numeric_limits<double>::quiet_NaN();
    if (!has_infinity && exponent == top && mantissa == (1 << mantissa_bits) - 1)
      return std::numeric_limits<double>::quiet_NaN();
    if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
  }
  /// The non-negative finite values, ascending: code i has value i.
  [[nodiscard]] std::vector<double> magnitudes() const {
    std::vector<double> all;
    for (uint32_t code = 0; code < 1u << (bits() - 1) && std::isfinite(value(code)); ++code)
      all.push_back(value(code));
    return all;
  }
};
constexpr Format half{5, 10, true}, brain{8, 7, true}, e4m3{4, 3, false}, e5m2{5, 2, true};

/// cvt.rn: the nearest value, of two as near the one with an even code. `satfinite`: what is
/// beyond the largest becomes the largest, else infinity from half a step beyond it on.
struct Rounding {
  Rounding(const Format& f, bool saturates)
      : format(f), magnitudes(f.magnitudes()), satfinite(saturates) {}

  /// The value that x becomes. x is no NaN.
  [[nodiscard]] double operator()(double x) const {
    const double size = std::fabs(x);
    const size_t last = magnitudes.size() - 1;
    const double step = magnitudes[last] - magnitudes[last - 1];
    double nearest = magnitudes[last];
    if (size >= magnitudes[last] + step / 2) {
      // The code of the largest value is odd in IEEE formats: a tie goes beyond it.
      if (!satfinite) nearest = HUGE_VAL;
    } else if (size < magnitudes[last]) {
      size_t above = 1;
      for (size_t low = 1, high = last; low <= high;) {
        const size_t middle = (low + high) / 2;
        if (magnitudes[middle] >= size) {
          above = middle;
          high = middle - 1;
        } else {
          low = middle + 1;
        }
      }
      const double up = magnitudes[above] - size, down = size - magnitudes[above - 1];
      const bool goes_up = up < down || (up == down && above % 2 == 0);
      nearest = goes_up ? magnitudes[above] : magnitudes[above - 1];
    }
    return std::copysign(nearest, x);
  }

  Format format;
  std::vector<double> magnitudes;
  bool satfinite;
};

void expect_same(float expected, double found, uint32_t code) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(found)) << "code " << code;
  } else {
    EXPECT_EQ(expected, found) << "code " << code;
    EXPECT_EQ(std::signbit(expected), std::signbit(found)) << "code " << code;
  }
}

/// cvt.rn.f16x2.eXmYx2, then cvt.f32.f16.
template <class T>
void expect_table(const Format& format) {
  const Rounding to_half(half, false);
  for (uint32_t code = 0; code < 256; ++code) {
    const double value = format.value(code);
    expect_same(to_float(T{static_cast<uint8_t>(code)}), std::isnan(value) ? value : to_half(value),
                code);
  }
}

TEST(Convert, f8_through_f16_is_the_exact_table_of_all_256_codes) {
  expect_table<f8_e4m3>(e4m3);
  expect_table<f8_e5m2>(e5m2);
}

TEST(Convert, f16_and_bf16_widen_to_the_exact_table_of_all_codes) {
  for (uint32_t code = 0; code < 65536; ++code) {
    const auto bits = static_cast<uint16_t>(code);
    expect_same(to_float(f16{bits}), half.value(code), code);
    expect_same(to_float(bf16{bits}), brain.value(code), code);
  }
}

/// Every value, every middle of two neighbours and the floats next to both, what lies beyond the
/// largest, and random bits.
template <class T>
void expect_rounding(const Format& format, bool saturates) {
  const Rounding round(format, saturates);
  std::vector<float> inputs = {0.0f, HUGE_VALF, std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::denorm_min()};
  for (size_t i = 0; i < round.magnitudes.size(); ++i) {
    const double next = i + 1 < round.magnitudes.size()
                            ? round.magnitudes[i + 1]
                            : 2 * round.magnitudes[i] - round.magnitudes[i - 1];
    for (const double x : {round.magnitudes[i], (round.magnitudes[i] + next) / 2}) {
      const auto at = static_cast<float>(x);
      inputs.insert(inputs.end(), {at, std::nextafter(at, 0.0f), std::nextafter(at, HUGE_VALF)});
    }
  }
  Rng rng(test_seed());
  for (int i = 0; i < 20000; ++i)
    inputs.push_back(__builtin_bit_cast(float, static_cast<uint32_t>(rng.next())));
  int wrong = 0;
  for (const float x : inputs) {
    for (const float signed_x : {x, -x}) {
      T pair[2];
      detail::elements_of<T>(signed_x, -signed_x, pair);
      const float low = to_float(pair[0]), high = to_float(pair[1]);
      const bool is_right = std::isnan(x) ? std::isnan(low) && std::isnan(high)
                                          : low == round(static_cast<double>(signed_x)) &&
                                                high == round(-static_cast<double>(signed_x)) &&
                                                std::signbit(low) == std::signbit(signed_x);
      if (!is_right && ++wrong <= 3) ADD_FAILURE() << signed_x << " became " << low;
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Convert, floats_round_as_the_instructions_do) {
  expect_rounding<f16>(half, false);
  expect_rounding<bf16>(brain, false);
  expect_rounding<f8_e4m3>(e4m3, true);
  expect_rounding<f8_e5m2>(e5m2, true);
}

TEST(Convert, casts_keep_the_order_of_elements_of_any_number) {
  const Vec<float, 5> from{{1.0f, -2.0f, 3.0f, -4.0f, 5.0f}};
  EXPECT_EQ((cast<float>(cast<bf16>(from))), from);
  EXPECT_EQ((cast<float>(cast<int8_t>(from))), from);
  EXPECT_EQ((cast<float>(cast<f8_e4m3>(Vec<float, 1>{{7.0f}}))), (Vec<float, 1>{{7.0f}}));
}

}  // namespace
}  // namespace folio::test
