// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/prefill_kernel_test.cpp: the prefill kernel, in the emulator, against the reference.
#include <gtest/gtest.h>

#include "cuda/prefill_case.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

CaseOptions options_of(int32_t head_size, DType type = DType::bf16) {
  CaseOptions o;
  o.sequences = {{1, 77}, {5, 5}, {0, 9}, {1, 3}, {17, 130}};
  o.head_size = head_size;
  o.q_dtype = o.key_dtype = o.value_dtype = type;
  return o;
}

::testing::AssertionResult prefill_is_right(AttentionCase& c, const PrefillRun& how = {}) {
  const PrefillResult result = run_prefill(c, how);
  if (!result.fault.empty())
    return ::testing::AssertionFailure() << result.fault << "\nin " << describe(c.options());
  if (result.counts.ldmatrix_extra_passes != 0)
    return ::testing::AssertionFailure() << "bank conflicts: " << result.counts.ldmatrix_extra_passes;
  ::testing::AssertionResult right = matches_reference(c);
  if (!right) right << "\nin " << describe(c.options());
  return right;
}

TEST(Prefill, every_instance_is_right_on_ragged_sequences) {
  for (const DType type : {DType::bf16, DType::f16})
    for (const int32_t head_size : {64, 128, 256}) {
      CaseOptions o = options_of(head_size, type);
      AttentionCase plain(o);
      EXPECT_TRUE(prefill_is_right(plain));
      o.softcap = 2.5f;
      AttentionCase general(o);
      EXPECT_TRUE(prefill_is_right(general));
    }
}

}  // namespace
}  // namespace folio::test
