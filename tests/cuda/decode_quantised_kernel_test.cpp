// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/decode_quantised_kernel_test.cpp: decode over 8-bit K and V in the emulator against
/// the reference.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <string>

#include "cuda/decode/quantised_kernels.h"
#include "cuda/quantised_case.h"
#include "support/bias_cases.h"

namespace folio::test {
namespace {

TEST(QuantisedDecode, is_right_for_each_type_and_head_size) {
  for (const DType stored : {DType::f8_e4m3, DType::f8_e5m2, DType::i8})
    EXPECT_TRUE(is_right(byte_case({{1, 77}, {2, 130}, {0, 9}, {1, 3}}, stored)));
  for (const DType stored : {DType::f8_e4m3, DType::f8_e5m2})
    EXPECT_TRUE(is_right(byte_case({{1, 77}, {2, 130}, {1, 3}}, stored, per_token, 64)));
}

TEST(QuantisedDecode, is_right_round_edges_of_slabs_and_spans) {
  for (const int32_t context : {1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 255, 256, 257})
    EXPECT_TRUE(is_right(byte_case({{1, context}})));
}

TEST(QuantisedDecode, is_right_for_heads_of_256) {
  for (const DType stored : {DType::f8_e4m3, DType::i8})
    for (const DType q : {DType::bf16, DType::f16}) {
      CaseOptions o = byte_case({{1, 77}, {2, 130}, {0, 9}, {1, 3}}, stored, per_token, 256);
      o.q_dtype = q;
      EXPECT_TRUE(is_right(o));
      o.reproducible = Reproducible::per_query;
      EXPECT_TRUE(is_right(o, {.blocks = 3, .seed = 5}));
    }
  CaseOptions o = byte_case({{1, 60}, {5, 50}}, DType::f8_e4m3, per_token, 256);
  o.softcap = 3.0f;
  o.bias = BiasForm::per_head;
  o.unassigned = 0.3;
  EXPECT_TRUE(is_right(o));
  for (const int32_t granularity : {16, 32, 128}) {
    o.key_scales = o.value_scales = {ScaleKind::granule, DType::f32, granularity, false};
    EXPECT_TRUE(is_right(o));
  }
}

TEST(QuantisedDecode, is_right_for_pages_of_any_size) {
  for (const int32_t page_size : {1, 2, 3, 8, 16, 24, 64, unbounded_page_size}) {
    CaseOptions o = byte_case({{1, 70}, {2, 33}});
    o.page_size = page_size;
    EXPECT_TRUE(is_right(o));
    o.key_order = StorageOrder::head_major;
    o.gap_bytes = 32;
    EXPECT_TRUE(is_right(o));
  }
}

TEST(QuantisedDecode, counts_keys_of_unassigned_pages_as_invisible) {
  CaseOptions o = byte_case({{1, 100}, {2, 64}, {1, 40}, {1, 16}});
  o.unassigned = 0.5;
  EXPECT_TRUE(is_right(o));
  o.key_scales = o.value_scales = {ScaleKind::granule, DType::f32, 16, false};
  EXPECT_TRUE(is_right(o));
}

TEST(QuantisedDecode, is_right_for_f16_queries_and_every_output) {
  CaseOptions o = byte_case({{1, 70}, {2, 33}});
  o.q_dtype = DType::f16;
  for (const DType out : {DType::f32, DType::f16, DType::bf16}) {
    o.out_dtype = out;
    EXPECT_TRUE(is_right(o));
  }
}

TEST(QuantisedDecode, takes_bf16_queries_of_any_size) {
  for (const float amplitude : {1e-30f, 1e-6f, 1e6f, 1e30f}) {
    CaseOptions o = byte_case({{1, 40}, {2, 20}});
    o.q_amplitude = amplitude;
    o.scale = 0.3f / amplitude;
    EXPECT_TRUE(is_right(o));
  }
}

TEST(QuantisedDecode, is_right_for_every_mask) {
  const Mask masks[] = {Mask::full(),
                        Mask::sliding_window(1),
                        Mask::sliding_window(40),
                        Mask::sliding_window(20, 3),
                        Mask::chunked(24),
                        {5, 3, 0, 0}};
  for (const Mask& mask : masks) {
    CaseOptions o = byte_case({{1, 150}, {3, 90}, {2, 30}});
    o.mask = mask;
    EXPECT_TRUE(is_right(o));
  }
}

TEST(QuantisedDecode, is_right_for_intervals_trees_and_terms) {
  CaseOptions o = byte_case({{1, 60}, {5, 50}, {3, 20}}, DType::i8, per_token, 64);
  o.softcap = 3.0f;
  o.alibi = true;
  EXPECT_TRUE(is_right(o));
  o.intervals = true;
  o.bias = BiasForm::per_head;
  EXPECT_TRUE(is_right(o));
  CaseOptions tree = byte_case({{5, 70}, {1, 40}, {9, 33}});
  tree.tree = TreeForm::random;
  tree.sink_logits = true;
  EXPECT_TRUE(is_right(tree));
  tree.key_scales = tree.value_scales = {ScaleKind::granule, DType::f32, 32, false};
  EXPECT_TRUE(is_right(tree));
}

TEST(QuantisedDecode, is_right_for_terms_at_both_ends_of_float) {
  for (const BiasCase& one : term_cases()) {
    SCOPED_TRACE(one.name);
    CaseOptions o = byte_case(one.options.sequences);
    o.mask = one.options.mask;
    o.alibi = one.options.alibi;
    o.softcap = one.options.softcap;
    o.scale = one.options.scale;
    o.lse = one.options.lse;
    o.first_query_positions = one.options.first_query_positions;
    o.first_key_positions = one.options.first_key_positions;
    AttentionCase c(o);
    one.arrange(c);
    EXPECT_TRUE(is_right(c));
  }
}

TEST(QuantisedDecode, is_right_however_the_plan_cuts_it) {
  const CaseOptions o = byte_case({{1, 700}, {2, 300}, {1, 60}});
  for (const int blocks : {1, 2, 5, 9}) EXPECT_TRUE(is_right(o, {.blocks = blocks}));
}

TEST(QuantisedDecode, gives_the_same_bits_however_spans_are_cut) {
  for (const Reproducible level : {Reproducible::per_sequence, Reproducible::per_query}) {
    CaseOptions o = byte_case({{1, 1100}, {2, 600}});
    o.out_dtype = DType::f32;
    o.reproducible = level;
    AttentionCase whole(o);
    EXPECT_TRUE(is_right(whole, {.blocks = 1}));
    for (const int blocks : {2, 5}) {
      AttentionCase cut(o);
      EXPECT_TRUE(is_right(cut, {.blocks = blocks, .seed = 3}));
      EXPECT_EQ(whole.output_bits(), cut.output_bits()) << blocks;
    }
  }
}

TEST(QuantisedDecode, is_right_on_any_schedule) {
  CaseOptions o = byte_case({{1, 200}, {2, 140}});
  for (uint64_t seed = 10; seed < 18; ++seed) {
    o.key_scales = o.value_scales = per_token;
    EXPECT_TRUE(is_right(o, {.blocks = 4, .resident = 4, .seed = seed}));
    o.key_scales = o.value_scales = {ScaleKind::granule, DType::f32, 16, false};
    EXPECT_TRUE(is_right(o, {.blocks = 3, .resident = 1, .seed = seed}));
  }
}

TEST(QuantisedDecode, finds_pages_gigabytes_apart) {
  AttentionCase c(byte_case({{1, 40}, {2, 33}}));
  PagedKVView& plane = c.args().key;
  for (const int64_t stride : {(int64_t{1} << 31) + 4096, (int64_t{1} << 32) + 16}) {
    const int64_t bytes = plane.num_pages * stride;
    void* const far = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(far, MAP_FAILED);
    const PagedKVView near = plane;
    for (int64_t page = 0; page < plane.num_pages; ++page)
      std::memcpy(static_cast<std::byte*>(far) + page * stride,
                  static_cast<std::byte*>(near.data) + page * near.page_stride_bytes,
                  static_cast<size_t>(near.page_size * near.slot_stride_bytes));
    plane.data = far;
    plane.page_stride_bytes = stride;
    EXPECT_TRUE(is_right(c));
    plane = near;
    munmap(far, static_cast<size_t>(bytes));
  }
}

AttentionProblem problem_of(const CaseOptions& options) {
  return resolve(AttentionCase(options).problem()).value();
}

TEST(QuantisedDecode, refuses_by_name_what_it_lacks) {
  const auto refusal = [](const AttentionProblem& problem) {
    const char* const why = cuda::refuse_quantised_decode(problem);
    return std::string(why == nullptr ? "" : why);
  };
  AttentionProblem problem = problem_of(byte_case({{1, 3}}));
  EXPECT_EQ(refusal(problem), "");
  problem.value.dtype = DType::i8;
  EXPECT_NE(refusal(problem).find("value.dtype"), std::string::npos);
  problem = problem_of(byte_case({{1, 3}}, DType::i8, per_token, 96));
  EXPECT_NE(refusal(problem).find("head_size"), std::string::npos);
  problem = problem_of(byte_case({{1, 3}}));
  problem.key.dtype = DType::bf16;
  EXPECT_NE(unsupported(cuda::supports_quantised_decode, problem), nullptr);
}

}  // namespace
}  // namespace folio::test
