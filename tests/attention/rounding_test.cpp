// SPDX-License-Identifier: Apache-2.0
/// tests/attention/rounding_test.cpp: q, K and V of f32 and f16 on kernels that multiply bf16: by
/// AttentionProblem::bf16_operands alone, within its bound, and never under per_query.
#include <gtest/gtest.h>

#include <string>

#include "attention/check.h"
#include "attention/kernel_list.h"
#include "support/kernel_cases.h"
#include "support/test_device.h"

namespace folio::test {
namespace {

constexpr DType wide_types[] = {DType::f32, DType::f16};

CaseOptions case_of(DType q, DType stored) {
  CaseOptions options;
  options.q_dtype = q;
  options.key_dtype = options.value_dtype = stored;
  options.bf16_operands = true;
  options.seed = test_seed();
  return options;
}

bool multiplies_bf16(const Kernel& kernel) {
  return kernel.device == nullptr && kernel.operands == DType::bf16;
}

TEST(Rounding, every_kernel_is_right_within_the_bound) {
  for (const DType q : {DType::f32, DType::f16, DType::bf16})
    for (const DType stored : {DType::f32, DType::f16, DType::bf16, DType::i8, DType::q4_1}) {
      CaseOptions options = case_of(q, stored);
      expect_every_kernel_right(options);
      options.sequences = {{40, 300}, {1, 200}};
      options.q_heads = 16;
      options.head_size = stored == DType::q4_1 ? 96 : 72;
      options.key_order = StorageOrder::head_major;
      expect_every_kernel_right(options);
    }
}

TEST(Rounding, values_in_keys_and_scales_along_the_row_are_rounded_once) {
  CaseOptions options = case_of(DType::f16, DType::f16);
  options.value_in_key = true;
  options.kv_heads = 1;
  options.v_head_size = 48;
  expect_every_kernel_right(options);
  options = case_of(DType::f32, DType::f16);
  options.key_scales = options.value_scales = {ScaleKind::calibrated_granule, DType::f32, 16, true};
  expect_every_kernel_right(options);
}

/// The reason of a kernel's refusal, whatever the machine has; empty where it takes the problem.
std::string refusal_by(const Kernel& kernel, AttentionProblem problem) {
  problem = resolve(problem).value();
  const char* reason = unsupported(kernel.supports, problem);
  return reason != nullptr ? reason : "";
}

TEST(Rounding, kernels_of_bf16_take_other_types_by_the_option_alone) {
  for (const Kernel& kernel : kernels()) {
    if (!multiplies_bf16(kernel)) continue;
    for (const DType type : wide_types) {
      CaseOptions options = case_of(type, DType::bf16);
      options.value_in_key = !kernel.supports.features.has(Feature::value_plane);
      if (options.value_in_key) options.kv_heads = 1;
      AttentionProblem problem = AttentionCase(options).problem();
      EXPECT_EQ(refusal_by(kernel, problem), "") << kernel.name;
      problem.bf16_operands = false;
      EXPECT_NE(refusal_by(kernel, problem).find("q_dtype"), std::string::npos) << kernel.name;
      problem.bf16_operands = true;
      problem.reproducible = Reproducible::per_query;
      EXPECT_NE(refusal_by(kernel, problem).find("q_dtype"), std::string::npos) << kernel.name;

      options.q_dtype = DType::bf16;
      options.key_dtype = options.value_dtype = type;
      problem = AttentionCase(options).problem();
      EXPECT_EQ(refusal_by(kernel, problem), "") << kernel.name;
      problem.bf16_operands = false;
      EXPECT_NE(refusal_by(kernel, problem).find("key.dtype"), std::string::npos) << kernel.name;
      problem.out_dtype = DType::i8;
      problem.bf16_operands = true;
      EXPECT_NE(refusal_by(kernel, problem).find("out_dtype"), std::string::npos) << kernel.name;
    }
  }
}

TEST(Rounding, it_changes_no_bit_under_per_query) {
  CaseOptions with = case_of(DType::f32, DType::f16);
  with.reproducible = Reproducible::per_query;
  CaseOptions without = with;
  without.bf16_operands = false;
  EXPECT_TRUE(give_the_same_bits(with, without));
}

}  // namespace
}  // namespace folio::test
