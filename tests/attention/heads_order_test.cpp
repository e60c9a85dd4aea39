// SPDX-License-Identifier: Apache-2.0
/// tests/attention/heads_order_test.cpp: in which order a kernel takes the heads of a decode step
/// follows from where their rows lie; its bits do not.
#include <gtest/gtest.h>

#include "support/attention_case.h"
#include "support/kernel_cases.h"
#include "support/random.h"

namespace folio::test {
namespace {

struct Shape {
  const char* name;
  int32_t q_heads, kv_heads;
  DType kv;
  Mask mask = Mask::causal();
  bool has_terms = false;
  int32_t head_size = 64;
  int32_t page_size = 16;
  int32_t gap_bytes = 0;
};

const Shape shapes[] = {
    {"a row of a head", 20, 20, DType::bf16},
    {"a row of more heads than a task takes", 200, 200, DType::bf16, Mask::causal(), false, 32},
    {"three rows of as many heads as a task takes", 144, 48, DType::bf16, Mask::causal(), false,
     16},
    {"two rows", 18, 9, DType::bf16, Mask::causal(), true},
    {"three rows", 15, 5, DType::bf16, Mask::sliding_window(70), false, 128, 64},
    {"four rows, a head size that ends inside a vector", 12, 3, DType::bf16, Mask::causal(), false,
     72, 32},
    {"seven rows", 84, 12, DType::bf16, Mask::causal(), false, 32, 64},
    {"eight rows", 64, 8, DType::bf16, Mask::causal(), true, 128, 64},
    {"float32", 12, 6, DType::f32, Mask::sliding_window(200)},
    {"f16", 16, 4, DType::f16},
    {"tokens 4 KB apart, a row of a head", 16, 16, DType::bf16, Mask::causal(), true, 128, 64},
    {"tokens 4 KB apart, three rows", 48, 16, DType::bf16, Mask::sliding_window(100), false, 128,
     64},
    {"tokens 4 KB apart, eight rows", 128, 16, DType::bf16, Mask::causal(), false, 128, 64},
    {"tokens 4 KB apart, of which half is used", 56, 7, DType::bf16, Mask::causal(), true, 128, 64,
     288},
    {"tokens 4 KB apart, of which half is used, three rows", 21, 7, DType::bf16, Mask::causal(),
     false, 128, 64, 288},
    {"float32, tokens 4 KB apart", 64, 8, DType::f32, Mask::sliding_window(200), false, 128, 64},
    {"f16, tokens 4 KB apart, of which half is used", 56, 7, DType::f16, Mask::causal(), false, 128,
     64, 288},
    {"8 bits, tokens 4 KB apart", 128, 16, DType::f8_e4m3, Mask::causal(), false, 256, 64},
    {"8 bits, a scale per token and head", 40, 10, DType::i8, Mask::causal(), false, 64, 64},
    {"8 bits, eight rows", 64, 8, DType::i8, Mask::causal(), true, 128, 64},
};

CaseOptions options_of(const Shape& shape, uint64_t seed) {
  CaseOptions options;
  options.sequences = {{1, 300}, {2, 133}, {1, 64}, {3, 90}};
  options.q_heads = shape.q_heads;
  options.kv_heads = shape.kv_heads;
  options.head_size = shape.head_size;
  options.page_size = shape.page_size;
  options.gap_bytes = shape.gap_bytes;
  options.q_dtype = shape.kv == DType::f32 ? DType::f32 : DType::bf16;
  options.key_dtype = options.value_dtype = shape.kv;
  if (bit_width(shape.kv) == 8)
    options.key_scales = options.value_scales = {ScaleKind::token_and_head, DType::f32};
  options.mask = shape.mask;
  options.softcap = shape.has_terms ? 5.0f : 0.0f;
  options.alibi = options.sink_logits = shape.has_terms;
  options.unassigned = seed % 2 == 0 ? 0.1 : 0.0;
  options.seed = seed;
  return options;
}

TEST(HeadsOrder, few_rows_have_the_same_bits_with_heads_side_by_side_and_apart) {
  uint64_t seed = test_seed();
  for (const Shape& shape : shapes) {
    for_each_kernel_case(options_of(shape, seed++),
                         [&](AttentionCase& tokens, const std::string& kernel) {
                           SCOPED_TRACE(shape.name);
                           ASSERT_TRUE(kernel_is_right(tokens, kernel));
                           CaseOptions apart = tokens.options();
                           apart.key_order = apart.value_order = StorageOrder::head_major;
                           AttentionCase heads(apart);
                           ASSERT_EQ(run_case(heads, kernel).message(), "");
                           EXPECT_EQ(heads.output_bits(), tokens.output_bits());
                         });
  }
}

}  // namespace
}  // namespace folio::test
