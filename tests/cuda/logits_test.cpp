// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/logits_test.cpp: the one function that makes a logit of a product: at both ends of
/// float32, and of positions.
#include "cuda/attention/logits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace folio::test {
namespace {

using cuda::LogitTerms;
using cuda::RowTerms;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float largest = std::numeric_limits<float>::max();

/// As much of a machine as a logit asks for.
struct HostThread {
  float tanh(float x) const { return std::tanh(x); }
  float fma(float x, float y, float z) const { return std::fma(x, y, z); }
  float read(const float* at) const { return *at; }
};

AttentionProblem of_scale(float scale) {
  AttentionProblem problem;
  problem.scale = scale;
  return problem;
}

/// Of the first key of `row`, and of the one `key` behind it.
float logit(const AttentionProblem& problem, const RowTerms& row, float product, int key = 0) {
  HostThread t;
  return cuda::logit(
      t, problem, cuda::inverse_softcap(problem), [&] { return row.from(problem, 0); }, key,
      product);
}

TEST(Logits, are_scaled_products_where_nothing_is_added) {
  for (const float product : {0.0f, 1.0f, -3.5f, 1e30f})
    EXPECT_EQ(logit(of_scale(0.125f), {}, product), cuda::log2_units(product * 0.125f));
}

TEST(Logits, beyond_float32_are_the_largest_float) {
  AttentionProblem problem = of_scale(1.0f);
  problem.alibi = true;
  EXPECT_EQ(logit(problem, {1e38f, 1000, nullptr}, 1.0f), cuda::log2_units(-largest));
  EXPECT_EQ(logit(problem, {-1e38f, 1000, nullptr}, 1.0f), cuda::log2_units(largest));
  EXPECT_TRUE(std::isfinite(cuda::log2_units(-largest)));
  problem.alibi = false;
  EXPECT_EQ(logit(problem, {}, -infinity), cuda::log2_units(-largest));
}

TEST(Logits, are_hidden_by_a_bias_of_minus_infinity_alone) {
  AttentionProblem problem = of_scale(1.0f);
  problem.bias = true;
  for (const float product : {0.0f, largest, infinity, nan}) {
    const float bias = -infinity;
    EXPECT_EQ(logit(problem, {0.0f, 0, &bias}, product), -infinity);
  }
  const float biases[] = {2.0f, -largest};
  EXPECT_EQ(logit(problem, {0.0f, 0, biases}, 1.0f), cuda::log2_units(3.0f));
  EXPECT_EQ(logit(problem, {0.0f, 0, biases}, -1e38f, 1), cuda::log2_units(-largest));
}

TEST(Logits, that_are_not_a_number_stay_so) {
  AttentionProblem problem = of_scale(1.0f);
  EXPECT_TRUE(std::isnan(logit(problem, {}, nan)));
  problem.alibi = true;
  EXPECT_TRUE(std::isnan(logit(problem, {1.0f, 3, nullptr}, nan)));
  problem.softcap = 2.0f;
  EXPECT_TRUE(std::isnan(logit(problem, {1.0f, 3, nullptr}, nan)));
}

TEST(Logits, know_distances_as_exactly_as_a_float_can) {
  AttentionProblem problem = of_scale(1.0f);
  problem.alibi = true;
  for (const int64_t distance :
       {int64_t{0}, int64_t{5}, int64_t{-5}, int64_t{1} << 24, (int64_t{1} << 31) + 300,
        (int64_t{1} << 32) - 1, 1 - (int64_t{1} << 32)})
    for (const int key : {0, 1, 7, 63}) {
      const double exact = static_cast<double>(std::abs(distance - key));
      const float logit_at = logit(problem, {1.0f, distance, nullptr}, 0.0f, key);
      const float expected = cuda::log2_units(-static_cast<float>(exact));
      const float ulp = std::fabs(expected) * 0x1p-23f;
      EXPECT_NEAR(logit_at, expected, exact < 0x1p24 ? 0.0f : ulp) << distance << " " << key;
    }
  const RowTerms row{1.0f, (int64_t{1} << 32) - 1, nullptr};
  EXPECT_EQ(row.from(problem, INT32_MAX).distance, 0x1p31f);
}

TEST(Logits, are_right_for_a_subnormal_softcap) {
  for (const float softcap : {1e-45f, 1e-39f, 1e-37f}) {
    AttentionProblem problem = of_scale(1.0f);
    problem.softcap = softcap;
    EXPECT_EQ(logit(problem, {}, 0.0f), 0.0f);
    EXPECT_EQ(logit(problem, {}, 1.0f), cuda::log2_units(softcap));
    EXPECT_EQ(logit(problem, {}, -infinity), cuda::log2_units(-softcap));
  }
}

}  // namespace
}  // namespace folio::test
