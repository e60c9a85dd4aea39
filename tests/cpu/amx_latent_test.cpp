// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/amx_latent_test.cpp: the AMX kernel for latent heads is right where there is no AMX;
/// where there is, the bits are the same.
///
/// Every case runs the kernel's own source on emulated tiles; with AMX also the shipped kernel,
/// whose output must be equal. Up to 32 heads V is multiplied in place, beyond that it is staged.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "cpu/amx_latent_entries.h"
#include "support/block_dtypes.h"
#include "support/emulated_test.h"

namespace folio::test {
namespace {

CaseOptions latent_options(int32_t q_heads) {
  CaseOptions options;
  options.q_heads = q_heads;
  options.kv_heads = 1;
  options.head_size = 96;
  options.v_head_size = 64;
  options.value_in_key = true;
  options.q_dtype = options.key_dtype = options.value_dtype = DType::bf16;
  options.page_size = 64;
  return options;
}

class AmxLatent : public EmulatedTest {
 protected:
  static void expect_right(const CaseOptions& options) {
    EmulatedTest::expect_right(emulated_latent, "attention_latent_amx_bf16", options);
  }
};

TEST_F(AmxLatent, any_number_of_heads_is_right) {
  for (const int32_t q_heads : {1, 15, 16, 17, 32, 33, 48, 64, 80, 128, 130}) {
    CaseOptions options = latent_options(q_heads);
    options.sequences = {{1, 150}, {2, 65}, {0, 3}, {1, 64}};
    expect_right(options);
  }
}

TEST_F(AmxLatent, sizes_that_are_no_multiples_of_32_are_padded) {
  for (const auto& [head_size, v_head_size] : {std::pair{96, 40}, {72, 64}, {40, 8}, {8, 8}})
    for (const int32_t q_heads : {4, 40}) {
      CaseOptions options = latent_options(q_heads);
      options.head_size = head_size;
      options.v_head_size = v_head_size;
      expect_right(options);
    }
}

TEST_F(AmxLatent, the_rows_of_deepseek_are_right) {
  for (const auto& [head_size, v_head_size] : {std::pair{576, 512}, {320, 256}})
    for (const int32_t q_heads : {16, 34}) {
      CaseOptions options = latent_options(q_heads);
      options.head_size = head_size;
      options.v_head_size = v_head_size;
      options.sequences = {{1, 77}};
      expect_right(options);
    }
}

TEST_F(AmxLatent, rows_of_other_types_are_converted) {
  std::vector<DType> types = {DType::i8, DType::f8_e4m3, DType::f8_e5m2, DType::f16, DType::f32};
  types.insert(types.end(), block_dtypes.begin(), block_dtypes.end());
  for (const DType stored : types)
    for (const int32_t q_heads : {4, 40}) {
      CaseOptions options = latent_options(q_heads);
      options.key_dtype = options.value_dtype = stored;
      options.q_dtype = stored == DType::f32 || stored == DType::f16 ? stored : DType::bf16;
      options.bf16_operands = true;
      options.page_size = q_heads == 4 ? 64 : 7;
      expect_right(options);
    }
}

TEST_F(AmxLatent, negative_positions_are_right) {
  for (const Mask& mask : {Mask::causal(), Mask::sliding_window(20), Mask::sliding_window(20, 3),
                           Mask::chunked(48), Mask{20, 0, 33, 3}})
    for (const int32_t q_heads : {16, 48}) {
      CaseOptions options = latent_options(q_heads);
      options.mask = mask;
      options.sequences = {{1, 129}, {7, 150}, {3, 300}};
      options.first_key_positions = {-129, -100, -160};
      expect_right(options);
    }
}

TEST_F(AmxLatent, biases_at_both_ends_of_float32_are_right) {
  expect_biases_right(emulated_latent);
}

TEST_F(AmxLatent, exact_logits_and_keys_that_are_hidden_give_what_the_headers_say) {
  expect_exact_logits_right(emulated_latent);
  expect_hidden_keys_kept_out(emulated_latent);
}

TEST_F(AmxLatent, pages_of_any_size_and_gaps_are_right) {
  for (const int32_t page_size : {1, 5, 16, 24, 128})
    for (const int32_t q_heads : {3, 40}) {
      CaseOptions options = latent_options(q_heads);
      options.page_size = page_size;
      options.gap_bytes = page_size % 2 == 0 ? 12 : 0;
      expect_right(options);
    }
}

TEST_F(AmxLatent, every_form_of_a_term_is_right) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const int32_t q_heads : {12, 40}) {
      CaseOptions options = latent_options(q_heads);
      options.sequences = {{1, 77}, {5, 40}, {3, 200}};
      options.alibi = options.alibi_positions = true;
      options.sink_logits = options.sink_per_query = true;
      options.sink_dtype = options.bias_dtype = type;
      options.bias = BiasForm::per_head;
      options.bias_per_sequence = true;
      expect_right(options);
    }
}

TEST_F(AmxLatent, lists_of_keys_are_right) {
  for (const int32_t q_heads : {12, 40, 128}) {
    CaseOptions options = latent_options(q_heads);
    options.sequences = {{1, 77}, {3, 300}, {1, 1}};
    options.selected = 250;
    expect_right(options);
  }
}

TEST_F(AmxLatent, several_latent_heads_are_right) {
  for (const StorageOrder order : {StorageOrder::token_major, StorageOrder::head_major}) {
    CaseOptions options = latent_options(12);
    options.kv_heads = 3;
    options.key_order = order;
    expect_right(options);
  }
}

TEST_F(AmxLatent, windows_and_logit_terms_are_right) {
  for (const int32_t q_heads : {4, 36}) {
    CaseOptions options = latent_options(q_heads);
    options.mask = Mask::sliding_window(20, 3);
    options.softcap = 5.0f;
    options.alibi = options.sink_logits = true;
    options.bias = BiasForm::per_head;
    expect_right(options);
  }
}

TEST_F(AmxLatent, intervals_and_unassigned_pages_are_right) {
  for (const int32_t q_heads : {4, 36}) {
    CaseOptions options = latent_options(q_heads);
    options.intervals = true;
    options.unassigned = 0.3;
    options.shared = 0.0;
    options.scale = -0.2f;
    options.out_dtype = DType::bf16;
    expect_right(options);
  }
}

TEST_F(AmxLatent, trees_are_right) {
  for (const int32_t q_heads : {4, 36}) {
    CaseOptions options = latent_options(q_heads);
    options.tree = TreeForm::random;
    options.sequences = {{1, 77}, {7, 90}, {20, 150}};
    expect_right(options);
  }
}

TEST_F(AmxLatent, maxima_that_rise_late_rescale_what_came_before) {
  for (const int32_t q_heads : {4, 70}) {
    CaseOptions options = latent_options(q_heads);
    options.q_amplitude = 60.0f;
    options.sequences = {{1, 2300}, {5, 700}};
    expect_right(options);
  }
}

TEST_F(AmxLatent, refuses_with_the_reason_what_it_cannot_do) {
  const auto reason = [](auto&& change) {
    CaseOptions options = latent_options(4);
    change(options);
    const AttentionProblem problem = resolve(AttentionCase(options).problem()).value();
    return std::string(refusal(emulated_latent, problem, needs_avx512_bf16));
  };
  EXPECT_NE(reason([](CaseOptions& o) { o.value_in_key = false; }).find("value_in_key"),
            std::string::npos);
  EXPECT_NE(reason([](CaseOptions& o) { o.q_dtype = DType::f32; }).find("q_dtype"),
            std::string::npos);
  EXPECT_NE(
      reason([](CaseOptions& o) { o.key_dtype = o.value_dtype = DType::f16; }).find("key.dtype"),
      std::string::npos);
  EXPECT_NE(reason([](CaseOptions& o) { o.head_size = 128; }).find("head_size"), std::string::npos);
}

TEST_F(AmxLatent, rows_with_scales_are_refused_by_name_and_taken_by_others) {
  // Sanitized builds leave kernels out that the processor cannot run.
  const bool has_grouped = std::ranges::any_of(
      kernels(), [](const Kernel& kernel) { return kernel.name == "attention_grouped_amx_bf16"; });
  for (const auto& [head_size, v_head_size, taker] :
       {std::tuple{320, 256, has_grouped ? "attention_grouped_amx_bf16" : "attention_avx512_bf16"},
        {576, 512, "attention_avx512_bf16"}}) {
    CaseOptions options = latent_options(16);
    options.head_size = head_size;
    options.v_head_size = v_head_size;
    options.key_dtype = options.value_dtype = DType::f8_e4m3;
    options.key_scales.kind = ScaleKind::token_and_head;
    const AttentionProblem problem = resolve(AttentionCase(options).problem()).value();
    EXPECT_STREQ(refusal(emulated_latent, problem, needs_avx512_bf16),
                 "key.scales: scales of K are unsupported");
    MachineProfile profile = machine_profile();
    profile.bf16_dot_is_slow = false;
    const Result<const Kernel*> selected = select(problem, needs_amx_bf16, profile, "");
    ASSERT_TRUE(selected.has_value()) << selected.error().message();
    EXPECT_EQ((*selected)->name, taker);
  }
}

}  // namespace
}  // namespace folio::test
