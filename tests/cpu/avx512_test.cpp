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

float exp2_of(bool looked_up, float x) {
  std::vector<float> in(16, x), out(16);
  avx512_exp2(looked_up, in.data(), out.data());
  return out[0];
}

TEST_F(Avx512, powers_of_two_are_as_exact_as_their_methods_say) {
  for (const bool looked_up : {true, false}) {
    double worst = 0.0;
    for (float x = -125.9f; x < 9.0f; x += 0.00731f) {
      const double exact = std::exp2(static_cast<double>(x));
      worst = std::max(worst, std::fabs(static_cast<double>(exp2_of(looked_up, x)) / exact - 1.0));
    }
    EXPECT_LT(worst, looked_up ? 0x1p-14 : 2.5e-7) << (looked_up ? "looked up" : "polynomial");
    for (const float n : {-126.0f, -1.0f, 0.0f, 1.0f, 8.0f})
      EXPECT_EQ(exp2_of(looked_up, n), std::exp2(n));
    EXPECT_EQ(exp2_of(looked_up, -126.5f), 0.0f);
    EXPECT_EQ(exp2_of(looked_up, -std::numeric_limits<float>::infinity()), 0.0f);
    EXPECT_TRUE(std::isnan(exp2_of(looked_up, std::numeric_limits<float>::quiet_NaN())));
  }
}

/// Every entry, from below, at and above its multiple of 1 / 32.
TEST_F(Avx512, every_entry_of_looked_up_powers_is_met) {
  for (int i = -64; i < 64; ++i) {
    for (const double off : {-1.0 / 65, 0.0, 1.0 / 65}) {
      const auto x = static_cast<float>(i / 32.0 + off);
      const double exact = std::exp2(static_cast<double>(x));
      EXPECT_NEAR(exp2_of(true, x) / exact, 1.0, 5.95e-5) << x;
    }
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
    std::vector<float> q(static_cast<size_t>(steps) * 64), keys(static_cast<size_t>(steps) * 48);
    for (float& x : q) x = static_cast<float>(rng.between(-1000, 1000)) * 0.00137f;
    for (float& x : keys) x = static_cast<float>(rng.between(-1000, 1000)) * 0.00173f;
    std::vector<float> narrow(256), wide(256);
    avx512_scores(1, q.data(), keys.data(), steps, narrow.data());
    for (const int vectors : {2, 3}) {
      avx512_scores(vectors, q.data(), keys.data(), steps, wide.data());
      EXPECT_EQ(std::memcmp(narrow.data(), wide.data(), 1024), 0)
          << vectors << " vectors, " << steps << " steps";
    }
    std::vector<float> all(768), few(768);
    for (size_t g = 0; g < 3; ++g)
      avx512_scores(1, q.data(), &keys[g * 16 * static_cast<size_t>(steps)], steps, &all[g * 256]);
    for (const int rows : {1, 2, 3, 4, 7, 8}) {
      avx512_scores_of_few(rows, q.data(), keys.data(), steps, few.data());
      for (size_t key = 0; key < 48; ++key)
        EXPECT_EQ(std::memcmp(&all[key * 16], &few[key * 16], static_cast<size_t>(rows) * 4), 0)
            << rows << " rows, " << steps << " steps, key " << key;
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
