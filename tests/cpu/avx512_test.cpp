// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/avx512_test.cpp: the arithmetic of the AVX-512 kernels, part by part. The kernels are
/// tested with all others.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "cpu/avx512_entries.h"
#include "cpu/features.h"
#include "folio/core/element.h"
#include "support/random.h"

namespace folio::test {
namespace {

class Avx512 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!machine_has(Capability::x86_64_v4))
      GTEST_SKIP() << "this machine lacks the x86-64-v4 instructions";
  }
};

float exp2_of(int degree, float x) {
  std::vector<float> in(16, x), out(16);
  avx512_exp2(degree, in.data(), out.data());
  return out[0];
}

TEST_F(Avx512, powers_of_two_are_as_exact_as_their_degree) {
  for (const int degree : {3, 5}) {
    double worst = 0.0;
    for (float x = -125.9f; x < 9.0f; x += 0.00731f) {
      const double exact = std::exp2(static_cast<double>(x));
      worst = std::max(worst, std::fabs(static_cast<double>(exp2_of(degree, x)) / exact - 1.0));
    }
    EXPECT_LT(worst, degree == 3 ? 0x1p-13 : 2.5e-7) << "degree " << degree;
    EXPECT_EQ(exp2_of(degree, 0.0f), 1.0f);
    EXPECT_EQ(exp2_of(degree, -126.5f), 0.0f);
    EXPECT_EQ(exp2_of(degree, -std::numeric_limits<float>::infinity()), 0.0f);
    EXPECT_TRUE(std::isnan(exp2_of(degree, std::numeric_limits<float>::quiet_NaN())));
  }
}

template <class Element, class Bits>
void expect_widened(DType dtype, Element (*element_of)(Bits)) {
  for (uint32_t first = 0; first < (1u << (8 * sizeof(Bits))); first += 16) {
    Bits bits[16];
    float wide[16];
    for (uint32_t i = 0; i < 16; ++i) bits[i] = static_cast<Bits>(first + i);
    avx512_widen(dtype, bits, wide);
    for (int i = 0; i < 16; ++i) {
      const auto exact = static_cast<float>(to_float(element_of(bits[i])));
      if (std::isnan(exact)) {
        EXPECT_TRUE(std::isnan(wide[i])) << first;
      } else {
        EXPECT_EQ(wide[i], exact) << first;
        EXPECT_EQ(std::signbit(wide[i]), std::signbit(exact)) << first;
      }
    }
  }
}

TEST_F(Avx512, every_pattern_of_every_type_is_widened_exactly) {
  expect_widened<bf16, uint16_t>(DType::bf16, [](uint16_t b) { return bf16{b}; });
  expect_widened<f16, uint16_t>(DType::f16, [](uint16_t b) { return f16{b}; });
  expect_widened<f8_e4m3, uint8_t>(DType::f8_e4m3, [](uint8_t b) { return f8_e4m3{b}; });
  expect_widened<f8_e5m2, uint8_t>(DType::f8_e5m2, [](uint8_t b) { return f8_e5m2{b}; });
  expect_widened<int8_t, uint8_t>(DType::i8, [](uint8_t b) { return static_cast<int8_t>(b); });
}

TEST_F(Avx512, tiles_of_every_shape_give_the_same_bits) {
  Rng rng(test_seed());
  for (const int steps : {8, 24, 64, 200}) {
    std::vector<float> q(static_cast<size_t>(steps) * 64), keys(static_cast<size_t>(steps) * 16);
    for (float& x : q) x = static_cast<float>(rng.between(-1000, 1000)) * 0.00137f;
    for (float& x : keys) x = static_cast<float>(rng.between(-1000, 1000)) * 0.00173f;
    std::vector<float> narrow(256), wide(256), both(512);
    avx512_scores(1, q.data(), keys.data(), steps, narrow.data());
    for (const int vectors : {2, 3}) {
      avx512_scores(vectors, q.data(), keys.data(), steps, wide.data());
      EXPECT_EQ(std::memcmp(narrow.data(), wide.data(), 1024), 0)
          << vectors << " vectors, " << steps << " steps";
    }
    for (const int rows : {1, 2, 3, 4, 7, 8}) {
      for (const bool two_groups : {false, true}) {
        if (two_groups && rows <= 4) continue;
        avx512_scores_of_few(rows, two_groups, q.data(), keys.data(), steps, both.data());
        for (size_t at = 0; at < (two_groups ? 32 : 16); ++at) {
          const size_t key = at < 16 ? at : 31 - at;
          EXPECT_EQ(std::memcmp(&narrow[key * 16], &both[at * 16], static_cast<size_t>(rows) * 4),
                    0)
              << rows << " rows, " << steps << " steps, key " << at;
        }
      }
    }
    double exact = 0.0;
    for (int d = 0; d < steps; ++d)
      exact += static_cast<double>(q[static_cast<size_t>(d) * 64 + 3]) *
               static_cast<double>(keys[static_cast<size_t>(5 * steps + d)]);
    EXPECT_NEAR(static_cast<double>(narrow[5 * 16 + 3]), exact, 1e-4);
  }
}

}  // namespace
}  // namespace folio::test
