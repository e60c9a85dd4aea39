// SPDX-License-Identifier: Apache-2.0
/// tests/attention/amx_emulated_test.cpp: the AMX kernels are right where there is no AMX, and
/// where there is, they give the same bits.
///
/// Every case runs the kernel's own source on emulated tiles; with AMX also the shipped kernel,
/// whose output must be equal.
#include <gtest/gtest.h>

#include "attention/amx_emulated_kernels.h"
#include "support/block_dtypes.h"
#include "support/emulated_test.h"

namespace folio::test {
namespace {

class AmxEmulated : public EmulatedTest {
 protected:
  static void expect_right(CaseOptions options) {
    options.q_dtype = DType::bf16;
    EmulatedTest::expect_right(emulated_grouped, "attention_grouped_amx_bf16", options);
  }
  /// With heads of one tile of rows, of a few and of many: each is a way of its own.
  static CaseOptions options_of(DType stored) {
    CaseOptions options;
    options.sequences = {{1, 77}, {5, 5}, {0, 9}, {1, 3}, {17, 130}, {40, 70}};
    options.key_dtype = options.value_dtype = stored;
    return options;
  }
};

TEST_F(AmxEmulated, every_pair_of_depths_is_right) {
  for (const auto& [head_size, v_head_size] :
       {std::pair{64, 64}, {40, 8}, {96, 72}, {128, 128}, {192, 128}, {256, 136}, {512, 512}}) {
    CaseOptions options = options_of(DType::bf16);
    options.head_size = head_size;
    options.v_head_size = v_head_size;
    expect_right(options);
  }
}

TEST_F(AmxEmulated, stored_types_with_a_scale_per_token_and_head_are_right) {
  for (const DType stored : {DType::i8, DType::f8_e4m3, DType::f8_e5m2})
    for (const ScaleKind scales : {ScaleKind::token_and_head, ScaleKind::head}) {
      CaseOptions options = options_of(stored);
      options.key_scales.kind = options.value_scales.kind = scales;
      options.key_scales.tensor_scale = true;
      expect_right(options);
    }
}

TEST_F(AmxEmulated, latent_rows_with_scales_are_right) {
  for (const ScaleKind scales : {ScaleKind::token_and_head, ScaleKind::head, ScaleKind::tensor}) {
    CaseOptions options = options_of(DType::f8_e4m3);
    options.q_heads = 24;
    options.kv_heads = 1;
    options.head_size = 320;
    options.v_head_size = 256;
    options.value_in_key = true;
    options.key_scales.kind = scales;
    expect_right(options);
  }
}

TEST_F(AmxEmulated, blocks_of_32_elements_are_right) {
  for (const DType stored : block_dtypes) {
    CaseOptions options = options_of(stored);
    options.sequences = {{1, 77}, {20, 130}, {40, 70}};
    options.head_size = 96;
    options.page_size = 5;
    expect_right(options);
    options.head_size = 512;
    options.value_dtype = DType::bf16;
    expect_right(options);
  }
}

TEST_F(AmxEmulated, elements_that_may_be_rounded_are_right) {
  for (const DType q : {DType::f32, DType::f16, DType::bf16})
    for (const DType stored : {DType::f32, DType::f16, DType::i8}) {
      CaseOptions options = options_of(stored);
      options.q_dtype = q;
      options.bf16_operands = true;
      options.head_size = 72;
      options.v_head_size = 40;
      EmulatedTest::expect_right(emulated_grouped, "attention_grouped_amx_bf16", options);
    }
}

TEST_F(AmxEmulated, masks_and_logit_terms_are_right) {
  CaseOptions options = options_of(DType::bf16);
  options.mask = Mask::sliding_window(20, 3);
  options.softcap = 5.0f;
  options.alibi = options.sink_logits = true;
  options.bias = BiasForm::per_head;
  expect_right(options);
  CaseOptions intervals = options_of(DType::bf16);
  intervals.intervals = true;
  intervals.unassigned = 0.3;
  intervals.shared = 0.0;
  intervals.scale = -0.2f;
  expect_right(intervals);
}

TEST_F(AmxEmulated, every_form_of_a_term_is_right) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    CaseOptions options = options_of(DType::bf16);
    options.sequences = {{1, 77}, {5, 40}, {37, 200}};
    options.alibi = options.alibi_positions = true;
    options.sink_logits = options.sink_per_query = true;
    options.sink_dtype = options.bias_dtype = type;
    options.bias = BiasForm::per_head;
    options.bias_per_sequence = true;
    expect_right(options);
  }
}

TEST_F(AmxEmulated, lists_of_keys_are_right) {
  for (const DType stored : {DType::bf16, DType::i8})
    for (const int32_t q_heads : {4, 80}) {
      CaseOptions options = options_of(stored);
      options.sequences = {{1, 77}, {5, 40}, {0, 9}, {1, 1}, {9, 300}};
      options.q_heads = q_heads;
      options.selected = 150;
      expect_right(options);
    }
}

TEST_F(AmxEmulated, negative_positions_are_right) {
  for (const Mask& mask : {Mask::causal(), Mask::sliding_window(20), Mask::sliding_window(20, 3),
                           Mask::chunked(48), Mask{20, 0, 33, 3}}) {
    CaseOptions options = options_of(DType::bf16);
    options.mask = mask;
    options.sequences = {{1, 129}, {40, 150}, {3, 300}};
    options.first_key_positions = {-129, -100, -160};
    expect_right(options);
  }
}

TEST_F(AmxEmulated, biases_at_both_ends_of_float32_are_right) {
  expect_biases_right(emulated_grouped);
}

TEST_F(AmxEmulated, exact_logits_and_keys_that_are_hidden_give_what_the_headers_say) {
  expect_exact_logits_right(emulated_grouped);
  expect_hidden_keys_kept_out(emulated_grouped);
}

TEST_F(AmxEmulated, decode_over_spans_and_chunks_of_many_rows_are_right) {
  CaseOptions options = options_of(DType::bf16);
  options.q_heads = 16;
  options.sequences = {{1, 2500}, {40, 300}, {3, 64}};
  options.key_order = options.value_order = StorageOrder::head_major;
  expect_right(options);
}

}  // namespace
}  // namespace folio::test
