// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/prefill_kernel_test.cpp: the prefill kernel, in the emulator, against the reference:
/// every option alone and with every other, and edges of rows, tiles and pages.
///
/// Every run also demands: no fault of order or memory, no bank conflicts, no table entry read but
/// those of pages with a visible key. Dead slots are NaN in all cases.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cuda/cut_plane.h"
#include "cuda/prefill_case.h"
#include "support/bias_cases.h"
#include "support/pairwise.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

::testing::AssertionResult prefill_is_right(AttentionCase& c, const PrefillRun& how = {}) {
  const PrefillResult result = run_prefill(c, how);
  if (!result.fault.empty())
    return ::testing::AssertionFailure() << result.fault << "\nin " << describe(c.options());
  if (result.counts.ldmatrix_extra_passes != 0)
    return ::testing::AssertionFailure()
           << result.counts.ldmatrix_extra_passes << " bank conflicts of ldmatrix";
  ::testing::AssertionResult right = matches_reference(c);
  if (!right) right << "\nin " << describe(c.options());
  return right;
}

CaseOptions base_options(uint64_t seed) {
  CaseOptions o;
  o.sequences = {{1, 77}, {5, 5}, {0, 9}, {1, 3}, {40, 130}};
  o.q_dtype = o.key_dtype = o.value_dtype = DType::bf16;
  o.seed = seed;
  return o;
}

struct Factor {
  const char* name;
  int levels;  ///< alone
  int pairs;   ///< of these, how many meet the levels of other factors
  void (*apply)(CaseOptions& o, int level);
};

constexpr Mask masks[] = {
    Mask::causal(),           Mask::full(), Mask::sliding_window(20, 5), Mask::chunked(48),
    {25, 3, 64, 2},           {0, 7},       Mask::chunked(40, false),    {10, -1},
    Mask::sliding_window(33), {3, 0, 0, 70}};

constexpr Factor factors[] = {
    {"type", 2, 2,
     [](CaseOptions& o, int i) {
       o.q_dtype = o.key_dtype = o.value_dtype = i == 0 ? DType::bf16 : DType::f16;
     }},
    {"out_dtype", 3, 3,
     [](CaseOptions& o, int i) {
       constexpr DType types[] = {DType::f32, DType::bf16, DType::f16};
       o.out_dtype = types[i];
     }},
    {"heads", 5, 5,
     [](CaseOptions& o, int i) {
       constexpr int32_t q[] = {4, 1, 3, 10, 33}, kv[] = {2, 1, 3, 2, 1};
       o.q_heads = q[i];
       o.kv_heads = kv[i];
     }},
    {"head_size", 3, 3, [](CaseOptions& o, int i) { o.head_size = 64 << i; }},
    {"page_size", 9, 6,
     [](CaseOptions& o, int i) {
       constexpr int32_t sizes[] = {16, 1, 3, 8, 64, unbounded_page_size, 2, 24, 100};
       o.page_size = sizes[i];
     }},
    {"key_order", 2, 2, [](CaseOptions& o, int i) { o.key_order = static_cast<StorageOrder>(i); }},
    {"value_order", 2, 2,
     [](CaseOptions& o, int i) { o.value_order = static_cast<StorageOrder>(i); }},
    {"gap", 2, 2, [](CaseOptions& o, int i) { o.gap_bytes = 48 * i; }},
    {"mask", 10, 6, [](CaseOptions& o, int i) { o.mask = masks[i]; }},
    {"intervals", 2, 2, [](CaseOptions& o, int i) { o.intervals = i == 1; }},
    {"scale", 3, 3,
     [](CaseOptions& o, int i) {
       constexpr float scales[] = {0.0f, 0.07f, -0.11f};
       o.scale = scales[i];
     }},
    {"softcap", 2, 2, [](CaseOptions& o, int i) { o.softcap = 2.5f * static_cast<float>(i); }},
    {"sink_logits", 2, 2, [](CaseOptions& o, int i) { o.sink_logits = i == 1; }},
    {"alibi", 2, 2, [](CaseOptions& o, int i) { o.alibi = i == 1; }},
    {"bias", 3, 3, [](CaseOptions& o, int i) { o.bias = static_cast<BiasForm>(i); }},
    {"tree", 4, 4, [](CaseOptions& o, int i) { o.tree = static_cast<TreeForm>(i); }},
    {"lse", 2, 2, [](CaseOptions& o, int i) { o.lse = i == 0; }},
    {"query_positions", 2, 2, [](CaseOptions& o, int i) { o.query_positions = i == 1; }},
    {"key_positions", 2, 2, [](CaseOptions& o, int i) { o.key_positions = i == 1; }},
    {"table", 3, 3, [](CaseOptions& o, int i) { o.table = static_cast<TableForm>(i); }},
    {"unassigned", 2, 2, [](CaseOptions& o, int i) { o.unassigned = 0.3 * i; }},
    {"reproducible", 2, 2,
     [](CaseOptions& o, int i) { o.reproducible = static_cast<Reproducible>(i); }},
};

TEST(Prefill, every_instance_is_right_on_ragged_sequences) {
  for (const DType type : {DType::bf16, DType::f16})
    for (const int32_t head_size : {64, 128, 256})
      for (const float softcap : {0.0f, 2.5f}) {
        CaseOptions o = base_options(3);
        o.head_size = head_size;
        o.q_dtype = o.key_dtype = o.value_dtype = type;
        o.softcap = softcap;
        AttentionCase c(o);
        EXPECT_TRUE(prefill_is_right(c));
      }
}

TEST(Prefill, every_option_alone_is_right) {
  for (const Factor& factor : factors)
    for (int level = 0; level < factor.levels; ++level) {
      SCOPED_TRACE(std::string(factor.name) + " " + std::to_string(level));
      CaseOptions o = base_options(5);
      factor.apply(o, level);
      AttentionCase c(o);
      ASSERT_TRUE(prefill_is_right(c));
    }
}

TEST(Prefill, every_pair_of_options_is_right) {
  const uint64_t seed = test_seed();
  std::vector<int> levels;
  for (const Factor& factor : factors) levels.push_back(factor.pairs);
  const PairwiseDesign design(levels, seed);
  for (size_t i = 0; i < design.rows().size(); ++i) {
    CaseOptions o = base_options(seed + i);
    for (size_t f = 0; f < std::size(factors); ++f) factors[f].apply(o, design.rows()[i][f]);
    AttentionCase c(o);
    ASSERT_TRUE(prefill_is_right(c, {.seed = seed + i})) << "row " << i;
  }
}

TEST(Prefill, edges_of_warps_and_blocks_are_right) {
  for (const int32_t head_size : {64, 256})
    for (const int32_t group : {1, 3})
      for (const int32_t rows : {15, 16, 17, 63, 64, 65, 127, 128, 129}) {
        if (rows % group != 0) continue;
        CaseOptions o = base_options(static_cast<uint64_t>(rows));
        o.head_size = head_size;
        o.q_heads = group;
        o.kv_heads = 1;
        o.sequences = {{rows / group, rows / group + 5}};
        AttentionCase c(o);
        ASSERT_TRUE(prefill_is_right(c));
      }
}

TEST(Prefill, edges_of_tiles_and_pages_are_right) {
  for (const int32_t head_size : {128, 256})
    for (const int32_t page_size : {1, 3, 16, 64}) {
      CaseOptions o = base_options(static_cast<uint64_t>(page_size));
      o.head_size = head_size;
      o.page_size = page_size;
      o.q_heads = 2;
      o.kv_heads = 1;
      o.sequences.clear();
      for (const int32_t edge : {1, 16, 32, 64, 128})
        for (const int32_t context : {edge - 1, edge, edge + 1})
          o.sequences.push_back({3, context});
      AttentionCase causal(o);
      ASSERT_TRUE(prefill_is_right(causal));
      o.mask = Mask::full();
      AttentionCase full(o);
      ASSERT_TRUE(prefill_is_right(full));
    }
}

TEST(Prefill, edges_of_windows_are_right) {
  for (const int32_t left : {0, 14, 15, 16, 62, 63, 64, 65, 127}) {
    CaseOptions o = base_options(static_cast<uint64_t>(left));
    o.sequences = {{140, 140}, {20, 200}};
    o.q_heads = o.kv_heads = 1;
    o.mask = {left, 0};
    AttentionCase c(o);
    ASSERT_TRUE(prefill_is_right(c));
  }
}

TEST(Prefill, keys_in_front_of_sink_tokens_are_seen) {
  CaseOptions o = base_options(8);
  o.sequences = {{40, 231}};  // positions from -200 to 30: the first queries see keys below 0 alone
  o.first_key_positions = {-200};
  for (const int32_t head_size : {64, 256})
    for (const int32_t window : {15, 150}) {
      o.head_size = head_size;
      o.mask = Mask::sliding_window(window, 5);
      AttentionCase c(o);
      EXPECT_TRUE(prefill_is_right(c));
    }
}

TEST(Prefill, more_queries_than_keys_are_right) {
  for (const Mask& mask : {Mask::causal(), Mask::full(), Mask::sliding_window(4, 2)}) {
    CaseOptions o = base_options(9);
    o.sequences = {{150, 20}, {40, 0}, {70, 65}};
    o.mask = mask;
    AttentionCase c(o);
    EXPECT_TRUE(prefill_is_right(c));
    o.sink_logits = true;
    AttentionCase sinks(o);
    EXPECT_TRUE(prefill_is_right(sinks));
  }
}

TEST(Prefill, the_sum_of_a_long_context_is_right) {
  CaseOptions o = base_options(4);
  o.sequences = {{2, 3000}};
  o.q_heads = o.kv_heads = 1;
  AttentionCase c(o);
  EXPECT_TRUE(prefill_is_right(c));
}

TEST(Prefill, logits_far_from_zero_are_right) {
  for (const float amplitude : {40.0f, 3e3f, 1e12f})
    for (const float softcap : {0.0f, 1e6f}) {
      CaseOptions o = base_options(6);
      o.q_amplitude = amplitude;
      o.softcap = softcap;
      AttentionCase c(o);
      EXPECT_TRUE(prefill_is_right(c)) << amplitude;
    }
}

TEST(Prefill, keys_behind_a_plane_without_pages_are_invisible) {
  CaseOptions o = base_options(5);
  o.sequences = {{9, 70}, {20, 70}};
  o.page_size = unbounded_page_size;
  for (const int64_t rows : {0, 1, 38, 39, 70}) {
    AttentionCase c(o);
    cut_plane(c, rows);
    EXPECT_TRUE(prefill_is_right(c)) << rows;
  }
}

TEST(Prefill, a_bias_at_either_end_of_float32_is_right) {
  for (const BiasCase& one : bias_cases()) {
    CaseOptions o = one.options;
    o.q_dtype = o.key_dtype = o.value_dtype = DType::bf16;
    o.head_size = o.v_head_size = 64;
    o.gap_bytes = o.row_gap_bytes = 0;
    AttentionCase c(o);
    if (one.arrange) one.arrange(c);
    EXPECT_TRUE(prefill_is_right(c)) << one.name;
  }
}

TEST(Prefill, other_terms_at_either_end_of_float32_are_right) {
  for (const BiasCase& one : term_cases()) {
    CaseOptions o = one.options;
    o.q_dtype = o.key_dtype = o.value_dtype = DType::bf16;
    o.head_size = o.v_head_size = 64;
    AttentionCase c(o);
    one.arrange(c);
    EXPECT_TRUE(prefill_is_right(c)) << one.name;
  }
}

}  // namespace
}  // namespace folio::test
