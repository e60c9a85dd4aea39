// SPDX-License-Identifier: Apache-2.0
/// tests/attention/term_forms_test.cpp: the forms in which sink logits, biases and ALiBi come: for
/// each query, each sequence, each key, and in the types of queries.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string_view>

#include "reference/elements.h"
#include "support/attention_case.h"
#include "support/kernel_cases.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

constexpr DType types[] = {DType::f32, DType::bf16, DType::f16};

/// Decode, a chunk, many rows; a sequence without queries between them.
CaseOptions mixed(uint64_t seed) {
  CaseOptions options;
  options.sequences = {{1, 77}, {5, 40}, {0, 9}, {1, 130}, {37, 200}};
  options.seed = seed;
  return options;
}

TEST(TermForms, sink_logits_of_each_query_are_right_in_every_type) {
  for (const DType type : types)
    for (const bool per_query : {false, true}) {
      CaseOptions options = mixed(11);
      options.sink_logits = true;
      options.sink_per_query = per_query;
      options.sink_dtype = type;
      expect_every_kernel_right(options);
    }
}

TEST(TermForms, sink_logits_enter_once_however_many_spans_there_are) {
  CaseOptions options;
  options.sequences = {{2, 2200}, {1, 4300}};
  options.sink_logits = options.sink_per_query = true;
  options.sink_dtype = DType::f16;
  options.parallelism = 4;
  options.q_amplitude = 0.1f;
  expect_every_kernel_right(options);
}

TEST(TermForms, a_bias_of_each_sequence_is_right_in_every_type) {
  for (const DType type : types)
    for (const bool per_sequence : {false, true})
      for (const BiasForm form : {BiasForm::shared, BiasForm::per_head}) {
        CaseOptions options = mixed(12);
        options.bias = form;
        options.bias_dtype = type;
        options.bias_per_sequence = per_sequence;
        options.mask = Mask::sliding_window(60, 3);
        expect_every_kernel_right(options);
      }
}

TEST(TermForms, all_sequences_may_share_one_bias) {
  CaseOptions options;
  options.sequences = {{3, 90}, {3, 90}};
  options.bias = BiasForm::per_head;
  options.bias_per_sequence = true;
  options.bias_dtype = DType::bf16;
  expect_every_kernel_right(options, {Adapt::shapes, [](AttentionCase& c) {
                                        c.args().bias_sequence_stride_bytes = 0;
                                        c.forget_expected();
                                      }});
}

TEST(TermForms, minus_infinity_hides_a_key_in_every_type) {
  // of each query of sequence 1 every third key, whose slot nobody else sees
  for (const DType type : types) {
    CaseOptions options;
    options.sequences = {{1, 50}, {4, 140}};
    options.shared = 0.0;
    options.bias = BiasForm::per_head;
    options.bias_dtype = type;
    options.bias_per_sequence = true;
    const auto hide = [type](AttentionCase& c) {
      const ConstTensor<3>& bias = c.args().bias;
      for (int64_t head = 0; head < bias.extent[0]; ++head)
        for (int64_t row = 0; row < 4; ++row)
          for (int64_t key = 0; key < 140; key += 3)
            reference::store(c.bias_memory().data() + c.args().bias_sequence_stride_bytes +
                                 head * bias.stride_bytes[0] + row * bias.stride_bytes[1] +
                                 key * bias.stride_bytes[2],
                             type, -std::numeric_limits<double>::infinity());
      c.forget_expected();
    };
    expect_every_kernel_right(options, {Adapt::shapes, hide});
  }
}

TEST(TermForms, positions_of_single_keys_are_right_on_every_kernel) {
  for (const bool key_positions : {false, true}) {
    CaseOptions options = mixed(13);
    options.alibi = options.alibi_positions = true;
    options.key_positions = key_positions;
    options.softcap = 20.0f;
    expect_every_kernel_right(options);
  }
}

TEST(TermForms, positions_at_both_ends_of_32_bits_are_right) {
  CaseOptions options;
  options.sequences = {{1, 70}, {2, 130}};
  options.alibi = options.alibi_positions = true;
  expect_every_kernel_right(
      options, {Adapt::shapes, [](AttentionCase& c) {
                  auto* const positions = const_cast<int32_t*>(c.batch().alibi_positions);
                  const int64_t stride = c.batch().alibi_positions_stride;
                  for (int64_t j = 0; j < stride; ++j)
                    positions[j] = j % 2 == 0 ? std::numeric_limits<int32_t>::min()
                                              : std::numeric_limits<int32_t>::max();
                  c.forget_expected();
                }});
}

struct Mistake {
  const char* words;
  void (*break_it)(AttentionCase& c);
};

TEST(TermForms, a_hostile_caller_is_told_the_argument) {
  CaseOptions options;
  options.sequences = {{2, 40}, {3, 20}};
  options.sink_logits = options.sink_per_query = options.alibi = options.alibi_positions = true;
  options.sink_dtype = options.bias_dtype = DType::bf16;
  options.bias = BiasForm::per_head;
  options.bias_per_sequence = true;
  const Mistake mistakes[] = {
      {"sink_stride is 3, expected 0 or at least 4",
       [](AttentionCase& c) { c.args().sink_stride = 3; }},
      {"sink_stride is -4", [](AttentionCase& c) { c.args().sink_stride = -4; }},
      {"sink_stride is 9223372036854775807 over 5 queries, expected a reach of at most 2^56 bytes",
       [](AttentionCase& c) { c.args().sink_stride = std::numeric_limits<int64_t>::max(); }},
      {"sink_logits is not aligned, expected a multiple of 2",
       [](AttentionCase& c) {
         c.args().sink_logits = static_cast<const std::byte*>(c.args().sink_logits) + 1;
       }},
      {"batch.alibi_positions is not aligned, expected a multiple of 4 bytes",
       [](AttentionCase& c) {
         c.batch().alibi_positions = reinterpret_cast<const int32_t*>(
             reinterpret_cast<const std::byte*>(c.batch().alibi_positions) + 1);
       }},
      {"bias has dtype f32", [](AttentionCase& c) { c.args().bias.dtype = DType::f32; }},
      {"bias has 2 rows, expected at least 3",
       [](AttentionCase& c) { c.args().bias.extent[1] = 2; }},
      {"bias has 39 keys", [](AttentionCase& c) { c.args().bias.extent[2] = 39; }},
      {"bias_sequence_stride_bytes is 1, expected a multiple of 2",
       [](AttentionCase& c) { c.args().bias_sequence_stride_bytes = 1; }},
      {"bias_sequence_stride_bytes is -9223372036854775808 over 2 sequences",
       [](AttentionCase& c) {
         c.args().bias_sequence_stride_bytes = std::numeric_limits<int64_t>::min();
       }},
      {"batch.alibi_positions is null",
       [](AttentionCase& c) { c.batch().alibi_positions = nullptr; }},
      {"batch.alibi_positions_stride is 39",
       [](AttentionCase& c) { c.batch().alibi_positions_stride = 39; }},
      {"batch.alibi_positions_stride is -1",
       [](AttentionCase& c) { c.batch().alibi_positions_stride = -1; }},
      {"batch.alibi_positions_stride is 9223372036854775807 over 2 sequences",
       [](AttentionCase& c) {
         c.batch().alibi_positions_stride = std::numeric_limits<int64_t>::max();
       }}};
  for (const Mistake& mistake : mistakes) {
    AttentionCase c(options);
    mistake.break_it(c);
    const Status status = run_case(c, {});
    ASSERT_FALSE(status.is_ok()) << mistake.words;
    EXPECT_EQ(status.code(), Errc::invalid_argument);
    EXPECT_NE(status.message().find(mistake.words), std::string_view::npos)
        << status.message() << "\nhas not: " << mistake.words;
  }
}

}  // namespace
}  // namespace folio::test
