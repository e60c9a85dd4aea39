// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/mla_kernel_test.cpp: MLA decode in the emulator against the reference.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "cuda/cut_plane.h"
#include "cuda/mla_run.h"
#include "support/bias_cases.h"

namespace folio::test {
namespace {

using Plain = cuda::mla::Latent<DType::bf16, false>;
using General = cuda::mla::Latent<DType::bf16, true>;
using Small = cuda::mla::SmallLatent<DType::bf16, false>;
using SmallGeneral = cuda::mla::SmallLatent<DType::bf16, true>;

CaseOptions latent_case(std::vector<SequenceShape> sequences, int32_t heads = 16) {
  CaseOptions o;
  o.sequences = std::move(sequences);
  o.q_heads = heads;
  o.kv_heads = 1;
  o.head_size = 576;
  o.v_head_size = 512;
  o.value_in_key = true;
  o.q_dtype = o.key_dtype = o.value_dtype = o.out_dtype = DType::bf16;
  o.q_amplitude = 1.0f;
  return o;
}

/// No rule is broken, each visible row is fetched once for each tile of query rows, no bank is met
/// twice, and the output is right.
template <class Kernel>
::testing::AssertionResult is_right(AttentionCase& c, const MlaOptions& o = {}) {
  const MlaResult result = run_mla<Kernel>(c, o);
  const auto failure = [&] {
    return ::testing::AssertionFailure() << describe(c.options()) << "\n";
  };
  if (!result.fault.empty()) return failure() << result.fault;
  if (result.counts.copied_bytes != result.visible_rows * 1152)
    return failure() << result.counts.copied_bytes << " bytes are copied, of "
                     << result.visible_rows << " visible rows";
  if (result.counts.ldmatrix_extra_passes != 0) return failure() << "ldmatrix meets banks twice";
  const ::testing::AssertionResult right = matches_reference(c);
  return right ? right : failure() << right.message();
}

template <class Kernel>
::testing::AssertionResult is_right(const CaseOptions& options, const MlaOptions& o = {}) {
  AttentionCase c(options);
  return is_right<Kernel>(c, o);
}

TEST(MlaKernel, is_right_round_edges_of_tiles_and_spans) {
  for (const int32_t context : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 257})
    EXPECT_TRUE(is_right<Plain>(latent_case({{1, context}})));
}

TEST(MlaKernel, is_right_on_ragged_batches) {
  EXPECT_TRUE(is_right<Plain>(latent_case({{1, 77}, {2, 130}, {0, 9}, {1, 3}, {0, 0}, {1, 200}})));
  EXPECT_TRUE(is_right<Plain>(latent_case({{0, 0}})));
  EXPECT_TRUE(is_right<Small>(latent_case({{1, 77}, {2, 130}, {0, 9}, {1, 3}, {1, 200}})));
}

TEST(MlaKernel, is_right_for_any_number_of_rows) {
  for (const int32_t heads : {1, 3, 8, 15, 17, 31, 32, 40})
    EXPECT_TRUE(is_right<Plain>(latent_case({{1, 50}, {3, 40}}, heads)));
  EXPECT_TRUE(is_right<Plain>(latent_case({{7, 40}}, 5)));  // tokens across tasks
  EXPECT_TRUE(is_right<Small>(latent_case({{3, 40}}, 12)));
}

TEST(MlaKernel, is_right_for_pages_of_any_size) {
  for (const int32_t page_size : {1, 2, 3, 8, 16, 24, 64, unbounded_page_size}) {
    CaseOptions o = latent_case({{1, 70}, {2, 33}});
    o.page_size = page_size;
    EXPECT_TRUE(is_right<Plain>(o));
  }
}

TEST(MlaKernel, is_right_for_any_table_and_stride) {
  for (const TableForm table : {TableForm::csr, TableForm::rows_in_larger}) {
    CaseOptions o = latent_case({{1, 70}, {2, 33}, {1, 5}});
    o.table = table;
    o.gap_bytes = 48;
    EXPECT_TRUE(is_right<Plain>(o));
  }
}

TEST(MlaKernel, counts_keys_of_unassigned_pages_as_invisible) {
  CaseOptions o = latent_case({{1, 100}, {2, 64}, {1, 40}, {1, 16}});
  o.unassigned = 0.5;
  EXPECT_TRUE(is_right<Plain>(o));
  EXPECT_TRUE(is_right<General>(o));
}

TEST(MlaKernel, counts_keys_behind_a_plane_without_pages_as_invisible) {
  CaseOptions o = latent_case({{1, 70}, {2, 70}});
  o.page_size = unbounded_page_size;
  for (const int64_t rows : {1, 38, 39, 70}) {
    AttentionCase c(o);
    cut_plane(c, rows);
    EXPECT_TRUE(is_right<Plain>(c)) << rows;
  }
}

TEST(MlaKernel, is_right_for_every_mask) {
  const Mask masks[] = {Mask::full(),
                        Mask::sliding_window(1),
                        Mask::sliding_window(40),
                        Mask::sliding_window(20, 3),
                        Mask::sliding_window(9, 40),
                        Mask::chunked(24),
                        Mask::chunked(24, false),
                        {5, 3, 0, 0},
                        {-1, 7, 0, 0}};
  for (const Mask& mask : masks) {
    CaseOptions o = latent_case({{1, 150}, {3, 90}, {2, 30}}, 10);
    o.mask = mask;
    EXPECT_TRUE(is_right<Plain>(o));
  }
}

TEST(MlaKernel, is_right_for_positions_of_any_kind) {
  CaseOptions o = latent_case({{1, 90}, {3, 60}, {4, 2}}, 6);
  o.mask = Mask::sliding_window(30, 4);
  o.query_positions = o.key_positions = true;
  EXPECT_TRUE(is_right<Plain>(o));
}

TEST(MlaKernel, leaves_out_what_is_between_sinks_and_window) {
  CaseOptions o = latent_case({{1, 900}});
  o.mask = Mask::sliding_window(33, 5);
  for (const Reproducible level : {Reproducible::per_plan, Reproducible::per_query}) {
    o.reproducible = level;
    EXPECT_TRUE(is_right<Plain>(o, {.blocks = 2}));
  }
}

TEST(MlaKernel, is_right_in_f16) {
  CaseOptions o = latent_case({{1, 77}, {2, 130}, {1, 3}});
  o.q_dtype = o.key_dtype = o.value_dtype = DType::f16;
  for (const DType out : {DType::f32, DType::f16, DType::bf16}) {
    o.out_dtype = out;
    EXPECT_TRUE((is_right<cuda::mla::Latent<DType::f16, false>>(o)));
  }
  EXPECT_TRUE((is_right<cuda::mla::SmallLatent<DType::f16, true>>(o)));
}

TEST(MlaKernel, writes_sink_logits_into_the_denominator_once) {
  CaseOptions o = latent_case({{1, 300}, {2, 4}, {1, 0}});
  o.sink_logits = true;
  o.out_dtype = DType::f32;
  o.mask = Mask::sliding_window(200);
  EXPECT_TRUE(is_right<Plain>(o));
  o.reproducible = Reproducible::per_query;
  EXPECT_TRUE(is_right<General>(o));
}

TEST(MlaKernel, writes_no_lse_where_none_is_wanted) {
  CaseOptions o = latent_case({{1, 40}, {2, 4}});
  o.lse = false;
  EXPECT_TRUE(is_right<Plain>(o));
}

TEST(MlaKernel, is_right_for_intervals) {
  CaseOptions o = latent_case({{1, 100}, {6, 70}, {3, 20}}, 5);
  o.intervals = true;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    o.seed = seed;
    EXPECT_TRUE(is_right<General>(o));
  }
}

TEST(MlaKernel, is_right_for_trees) {
  for (const TreeForm tree : {TreeForm::chain, TreeForm::random, TreeForm::bits}) {
    CaseOptions o = latent_case({{5, 70}, {1, 40}, {9, 33}, {3, 3}}, 3);
    o.tree = tree;
    EXPECT_TRUE(is_right<General>(o));
  }
}

TEST(MlaKernel, reads_keys_that_one_row_alone_sees) {
  CaseOptions o = latent_case({{1, 70}});
  o.bias = BiasForm::per_head;
  for (const int64_t head : {0, 7, 15}) {
    AttentionCase c(o);
    const ConstTensor<3>& bias = c.args().bias;
    for (int64_t h = 0; h < 16; ++h)
      for (int64_t key = 0; key < 70; ++key) {
        const bool is_seen = h == head || key % 2 == 0;
        const float value = is_seen ? 0.5f : -std::numeric_limits<float>::infinity();
        std::memcpy(c.bias_memory().data() + h * bias.stride_bytes[0] + key * bias.stride_bytes[2],
                    &value, sizeof value);
      }
    EXPECT_TRUE(is_right<General>(c)) << head;
  }
}

TEST(MlaKernel, is_right_for_terms_of_logits) {
  CaseOptions o = latent_case({{1, 90}, {3, 50}}, 6);
  o.softcap = 2.0f;
  EXPECT_TRUE(is_right<General>(o));
  o.alibi = true;
  EXPECT_TRUE(is_right<General>(o));
  o.bias = BiasForm::shared;
  EXPECT_TRUE(is_right<General>(o));
  o.bias = BiasForm::per_head;
  o.intervals = true;
  EXPECT_TRUE(is_right<SmallGeneral>(o));
}

/// What an MLA kernel takes of another's case.
CaseOptions as_latent(CaseOptions o) {
  o.kv_heads = 1;
  o.head_size = 576;
  o.v_head_size = 512;
  o.value_in_key = true;
  o.q_dtype = o.key_dtype = o.value_dtype = DType::bf16;
  o.key_scales = o.value_scales = {};
  o.gap_bytes = (o.gap_bytes + 15) / 16 * 16;
  o.row_gap_bytes = o.row_gap_bytes < 0 ? -1 : (o.row_gap_bytes + 15) / 16 * 16;
  return o;
}

TEST(MlaKernel, keeps_biases_at_both_ends_of_float) {
  for (const BiasCase& bias : bias_cases()) {
    SCOPED_TRACE(bias.name);
    CaseOptions o = as_latent(bias.options);
    o.sequences = {{1, 77}, {5, 140}};
    AttentionCase c(o);
    if (bias.arrange) bias.arrange(c);
    EXPECT_TRUE(is_right<General>(c, {.blocks = 5}));
  }
}

TEST(MlaKernel, keeps_other_terms_at_both_ends_of_float) {
  for (const BiasCase& one : term_cases()) {
    SCOPED_TRACE(one.name);
    AttentionCase c(as_latent(one.options));
    one.arrange(c);
    EXPECT_TRUE(is_right<General>(c, {.blocks = 5}));
  }
}

/// The bits of outputs and lse.
template <class Kernel>
std::vector<std::byte> bits_of(const CaseOptions& options, const MlaOptions& o, int32_t& splits) {
  AttentionCase c(options);
  const MlaResult result = run_mla<Kernel>(c, o);
  EXPECT_EQ(result.fault, "");
  EXPECT_TRUE(matches_reference(c));
  splits = result.splits;
  return c.output_bits();
}

TEST(MlaKernel, gives_the_same_bits_however_spans_are_cut) {
  CaseOptions o = latent_case({{1, 1300}, {2, 300}}, 4);
  o.out_dtype = DType::f32;
  o.page_size = 64;
  for (const Reproducible level : {Reproducible::per_sequence, Reproducible::per_query}) {
    o.reproducible = level;
    int32_t splits = 0;
    const std::vector<std::byte> whole = bits_of<Plain>(o, {.blocks = 1}, splits);
    EXPECT_EQ(splits, 0);
    for (const int blocks : {2, 3, 5}) {
      EXPECT_EQ(whole, bits_of<Plain>(o, {.blocks = blocks, .seed = 7}, splits)) << blocks;
      EXPECT_GT(splits, 0) << blocks;
    }
  }
}

TEST(MlaKernel, gives_the_same_bits_to_a_query_on_its_own) {
  CaseOptions o = latent_case({{3, 600}}, 7);
  o.out_dtype = DType::f32;
  o.reproducible = Reproducible::per_query;
  AttentionCase together(o);
  ASSERT_EQ(run_mla<Plain>(together, {.blocks = 2}).fault, "");
  const std::vector<std::byte> expected = together.output_bits();
  // the last token alone: one new token, the same keys
  AttentionCase alone(o);
  const int32_t offsets[] = {0, 1};
  Batch batch = alone.batch();
  batch.query_offsets = offsets;
  alone.batch() = batch;
  alone.args().q.data =
      static_cast<const std::byte*>(alone.args().q.data) + 2 * alone.args().q.stride_bytes[0];
  alone.args().q.extent[0] = 1;
  ASSERT_EQ(run_mla<Plain>(alone, {.blocks = 3}).fault, "");
  const auto row = static_cast<size_t>(7 * 512 * 4);
  const std::vector<std::byte> bits = alone.output_bits();
  EXPECT_EQ(std::memcmp(bits.data(), expected.data() + 2 * row, row), 0);
}

TEST(MlaKernel, is_right_however_the_plan_cuts_it) {
  CaseOptions o = latent_case({{1, 700}, {2, 300}, {1, 60}});
  for (const int blocks : {1, 2, 4, 7}) EXPECT_TRUE(is_right<Plain>(o, {.blocks = blocks}));
  EXPECT_TRUE(is_right<Small>(o, {.blocks = 5}));
}

TEST(MlaKernel, is_right_on_any_schedule) {
  CaseOptions o = latent_case({{1, 300}, {2, 140}});
  for (uint64_t seed = 10; seed < 18; ++seed) {
    EXPECT_TRUE(is_right<Plain>(o, {.blocks = 4, .resident = 4, .seed = seed}));
    EXPECT_TRUE(is_right<Small>(o, {.blocks = 3, .resident = 1, .seed = seed}));
  }
}

TEST(MlaKernel, finds_pages_gigabytes_apart) {
  CaseOptions o = latent_case({{1, 40}, {2, 33}});
  AttentionCase c(o);
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
    EXPECT_TRUE(is_right<Plain>(c));
    plane = near;
    munmap(far, static_cast<size_t>(bytes));
  }
}

TEST(MlaKernel, finds_a_workspace_that_was_not_prepared) {
  AttentionCase c(latent_case({{1, 700}}));
  const MlaResult result = run_mla<Plain>(c, {.blocks = 3, .arrivals = 0xffffffffu});
  EXPECT_NE(result.fault.find("workspace not prepared"), std::string::npos) << result.fault;
}

TEST(MlaKernel, is_chosen_by_type_and_options) {
  AttentionCase c(latent_case({{1, 3}}));
  const AttentionProblem problem = resolve(c.problem()).value();
  EXPECT_EQ(unsupported(cuda::supports_mla, problem), nullptr);
  EXPECT_EQ(cuda::refuse_mla(problem), nullptr);
  EXPECT_STREQ(cuda::mla_kernel.instance(problem), "mla_bf16_576");
  EXPECT_STREQ(cuda::mla_small_kernel.instance(problem), "mla_bf16_576_small");
  EXPECT_EQ(cuda::mla_kernel.geometry(problem).rows, Plain::rows);
  EXPECT_EQ(cuda::mla_small_kernel.geometry(problem).rows, Small::rows);
  AttentionProblem other = problem;
  other.q_dtype = other.key.dtype = DType::f16;
  other.softcap = 3.0f;
  EXPECT_STREQ(cuda::mla_kernel.instance(other), "mla_f16_576_general");
  EXPECT_EQ(cuda::mla_kernel.geometry(other).rows, General::rows);
}

TEST(MlaKernel, refuses_other_shapes_and_types_by_name) {
  AttentionCase c(latent_case({{1, 3}}));
  AttentionProblem problem = resolve(c.problem()).value();
  problem.q_dtype = DType::f16;
  EXPECT_NE(std::string(cuda::refuse_mla(problem)).find("q_dtype"), std::string::npos);
  problem.q_dtype = DType::bf16;
  problem.v_head_size = 448;
  EXPECT_NE(std::string(cuda::refuse_mla(problem)).find("v_head_size"), std::string::npos);
  problem = resolve(c.problem()).value();
  problem.key.dtype = DType::f8_e4m3;
  EXPECT_NE(unsupported(cuda::supports_mla, problem), nullptr);
}

}  // namespace
}  // namespace folio::test
