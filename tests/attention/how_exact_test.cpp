// SPDX-License-Identifier: Apache-2.0
/// tests/attention/how_exact_test.cpp: what folio/attention/problem.h says under *How exact*, where
/// nothing but exps and rounded weights can be off: logits are biases. Bounds of outputs follow the
/// header in support/tolerance.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "support/bias_cases.h"
#include "support/kernel_cases.h"
#include "support/tolerance.h"

namespace folio::test {
namespace {

/// Of float32's own rounding: lse is below 5 here, its sum has 100 terms.
constexpr double of_float32 = 2e-6;
/// 2^-13, the header's number.
constexpr double of_exps = 0x1p-13;

/// Of kernels that round weights to 8 bits some have exps of float32.
TEST(HowExact, lse_and_outputs_over_exact_logits_are_within_what_problem_h_says) {
  std::map<std::string, double> worst;
  for (const BiasCase& one : exact_logit_cases())
    for_each_kernel_case(one.options, {Adapt::shapes, one.arrange},
                         [&](AttentionCase& c, const std::string& kernel) {
                           ASSERT_TRUE(run_case(c, kernel).is_ok());
                           Accuracy found;
                           EXPECT_TRUE(matches_reference(c, {}, &found)) << one.name;
                           const bool is_coarse = c.precision().weights != DType::f32;
                           EXPECT_LE(found.lse, of_float32 + (is_coarse ? of_exps : 0.0))
                               << one.name;
                           if (is_coarse && c.precision().weights != DType::i8)
                             worst[kernel] = std::max(worst[kernel], found.lse);
                         });
  for (const auto& [kernel, lse] : worst)
    EXPECT_GT(lse, 2 * of_float32) << kernel << " is as exact as float32: the header says less";
}

}  // namespace
}  // namespace folio::test
