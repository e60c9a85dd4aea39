// SPDX-License-Identifier: Apache-2.0
/// tests/support/emulated_test.h: tests that run an AMX kernel's own source on emulated tiles, and
/// beside it the shipped kernel.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "attention/check.h"
#include "attention/kernel_list.h"
#include "cpu/features.h"
#include "support/attention_case.h"
#include "support/bias_cases.h"
#include "support/hidden_keys.h"
#include "support/kernel_cases.h"
#include "support/run_case.h"

namespace folio::test {

class EmulatedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!machine_has(Capability::avx512_bf16))
      GTEST_SKIP() << "this machine lacks the AVX512-BF16 instructions";
  }
  /// `emulated` accepts the case and is right; with AMX, the kernel named `shipped` gives the same
  /// bits.
  static void expect_right(const Kernel& emulated, const char* shipped,
                           const CaseOptions& options) {
    AttentionCase c(options);
    ASSERT_EQ(refusal(emulated, resolve(c.problem()).value(), machine_capabilities()), nullptr)
        << describe(options);
    ASSERT_TRUE(run_kernel(c, emulated).is_ok());
    EXPECT_TRUE(matches_reference(c)) << describe(options);
    if (!machine_has(Capability::amx_bf16)) return;
    const std::vector<std::byte> bits = c.output_bits();
    ASSERT_TRUE(run_case(c, shipped).is_ok());
    EXPECT_EQ(c.output_bits(), bits) << "hardware differs: " << describe(options);
  }
  /// `emulated` is right on all of bias_cases().
  static void expect_biases_right(const Kernel& emulated) {
    for (const BiasCase& one : bias_cases()) expect_right(emulated, one);
  }
  /// As tests/attention/how_exact_test.cpp.
  static void expect_exact_logits_right(const Kernel& emulated) {
    for (const BiasCase& one : exact_logit_cases()) expect_right(emulated, one);
  }
  /// As tests/attention/hidden_keys_test.cpp.
  static void expect_hidden_keys_kept_out(const Kernel& emulated) {
    for (const HiddenKeyCase& one : hidden_key_cases()) {
      const auto c = accepted_case(emulated, one.options, {Adapt::shapes, one.arrange});
      ASSERT_NE(c, nullptr) << one.name;
      ASSERT_TRUE(run_kernel(*c, emulated).is_ok());
      EXPECT_TRUE(keeps_hidden_keys_out(*c, one)) << one.name;
    }
  }

 private:
  static void expect_right(const Kernel& emulated, const BiasCase& one) {
    const auto c = accepted_case(emulated, one.options, {Adapt::shapes, one.arrange});
    ASSERT_NE(c, nullptr) << one.name;
    ASSERT_TRUE(run_kernel(*c, emulated).is_ok());
    EXPECT_TRUE(matches_reference(*c)) << one.name;
  }
};

}  // namespace folio::test
