// SPDX-License-Identifier: Apache-2.0
/// tests/attention/options_test.cpp: nothing is ignored: refuse() is null exactly where the result
/// is right, over the supported set.
///
/// Every value of every option meets every value of every other (a pairwise covering design), and
/// every option stands alone once. The portable kernels accept them all; others get each with the
/// nearest types and shapes that they accept. Outside the set each refusal has a reason.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "attention/check.h"
#include "attention/kernel_list.h"
#include "support/attention_case.h"
#include "support/kernel_cases.h"
#include "support/pairwise.h"

namespace folio::test {
namespace {

constexpr DType activations[] = {DType::f32, DType::bf16, DType::f16};
constexpr DType stored[] = {DType::f32,     DType::bf16,    DType::f16,
                            DType::f8_e4m3, DType::f8_e5m2, DType::i8};
constexpr DType scale_types[] = {DType::f32, DType::f16, DType::bf16, DType::f8_e8m0,
                                 DType::f8_e4m3};
constexpr ScaleKind kinds[] = {
    ScaleKind::none,           ScaleKind::tensor,        ScaleKind::head,
    ScaleKind::page,           ScaleKind::page_and_head, ScaleKind::calibrated_granule,
    ScaleKind::token_and_head, ScaleKind::granule,       ScaleKind::behind_row};
constexpr Mask masks[] = {Mask::causal(),           Mask::full(),
                          Mask::sliding_window(33), Mask::sliding_window(20, 5),
                          Mask::chunked(48),        {25, 3, 64, 2}};

/// The kernels that accept the whole supported set.
constexpr std::string_view portable_prefix = "attention_paged_any_";

bool is_quantised(DType dtype) {
  return dtype == DType::i8 || dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2;
}

/// append computes scales for quantised types only; others get the calibrated kind that looks most
/// alike.
void make_consistent(DType dtype, ScaleOptions& scales) {
  if (is_quantised(dtype)) return;
  if (scales.kind == ScaleKind::granule) scales.kind = ScaleKind::calibrated_granule;
  if (scales.kind == ScaleKind::token_and_head || scales.kind == ScaleKind::behind_row)
    scales.kind = ScaleKind::page_and_head;
}

/// One factor of the design: how many values, and what a value does to the options.
struct Factor {
  const char* name;
  int levels;
  void (*apply)(CaseOptions& o, int level);
};

constexpr Factor factors[] = {
    {"q_dtype", 3, [](CaseOptions& o, int i) { o.q_dtype = activations[i]; }},
    {"out_dtype", 3, [](CaseOptions& o, int i) { o.out_dtype = activations[i]; }},
    {"key_dtype", 6, [](CaseOptions& o, int i) { o.key_dtype = stored[i]; }},
    {"value_dtype", 6, [](CaseOptions& o, int i) { o.value_dtype = stored[i]; }},
    {"key_scales", 9, [](CaseOptions& o, int i) { o.key_scales.kind = kinds[i]; }},
    {"value_scales", 9, [](CaseOptions& o, int i) { o.value_scales.kind = kinds[i]; }},
    {"key_scale_dtype", 5, [](CaseOptions& o, int i) { o.key_scales.dtype = scale_types[i]; }},
    {"value_scale_dtype", 5, [](CaseOptions& o, int i) { o.value_scales.dtype = scale_types[i]; }},
    {"granularity", 5,
     [](CaseOptions& o, int i) {
       constexpr int32_t sizes[] = {16, 1, 7, 24, 1000};
       o.key_scales.granularity = sizes[i];
       o.value_scales.granularity = sizes[(i + 2) % 5];
     }},
    {"tensor_scale", 3,
     [](CaseOptions& o, int i) {
       o.key_scales.tensor_scale = i == 1;
       o.value_scales.tensor_scale = i == 2;
     }},
    {"heads", 5,
     [](CaseOptions& o, int i) {
       constexpr int32_t q[] = {4, 1, 3, 12, 70}, kv[] = {2, 1, 3, 2, 1};
       o.q_heads = q[i];
       o.kv_heads = kv[i];
     }},
    {"head_size", 5,
     [](CaseOptions& o, int i) {
       constexpr int32_t k[] = {64, 8, 72, 128, 200}, v[] = {64, 24, 8, 136, 128};
       o.head_size = k[i];
       o.v_head_size = v[i];
     }},
    {"value_in_key", 2,
     [](CaseOptions& o, int i) {
       o.value_in_key = i == 1;
       if (i == 1) o.v_head_size = std::min(o.v_head_size, o.head_size);
     }},
    {"page_size", 6,
     [](CaseOptions& o, int i) {
       constexpr int32_t sizes[] = {16, 1, 3, 8, 64, unbounded_page_size};
       o.page_size = sizes[i];
     }},
    {"key_order", 2, [](CaseOptions& o, int i) { o.key_order = static_cast<StorageOrder>(i); }},
    {"value_order", 2, [](CaseOptions& o, int i) { o.value_order = static_cast<StorageOrder>(i); }},
    {"gap", 2, [](CaseOptions& o, int i) { o.gap_bytes = 12 * i; }},
    {"mask", 6, [](CaseOptions& o, int i) { o.mask = masks[i]; }},
    {"intervals", 2, [](CaseOptions& o, int i) { o.intervals = i == 1; }},
    {"scale", 3,
     [](CaseOptions& o, int i) {
       constexpr float scales[] = {0.0f, 0.07f, -0.11f};
       o.scale = scales[i];
     }},
    {"softcap", 2, [](CaseOptions& o, int i) { o.softcap = 2.5f * static_cast<float>(i); }},
    {"sink_logits", 2, [](CaseOptions& o, int i) { o.sink_logits = i == 1; }},
    {"alibi", 2, [](CaseOptions& o, int i) { o.alibi = i == 1; }},
    {"bias", 3, [](CaseOptions& o, int i) { o.bias = static_cast<BiasForm>(i); }},
    {"sink_form", 6,
     [](CaseOptions& o, int i) {
       o.sink_per_query = i >= 3;
       o.sink_dtype = activations[i % 3];
     }},
    {"bias_form", 6,
     [](CaseOptions& o, int i) {
       o.bias_per_sequence = i >= 3;
       o.bias_dtype = activations[i % 3];
     }},
    {"alibi_positions", 2, [](CaseOptions& o, int i) { o.alibi_positions = i == 1; }},
    {"tree", 4, [](CaseOptions& o, int i) { o.tree = static_cast<TreeForm>(i); }},
    {"lse", 2, [](CaseOptions& o, int i) { o.lse = i == 0; }},
    {"query_positions", 2, [](CaseOptions& o, int i) { o.query_positions = i == 1; }},
    {"key_positions", 2, [](CaseOptions& o, int i) { o.key_positions = i == 1; }},
    {"table", 3, [](CaseOptions& o, int i) { o.table = static_cast<TableForm>(i); }},
    {"unassigned", 2, [](CaseOptions& o, int i) { o.unassigned = 0.3 * i; }},
    {"reproducible", 3,
     [](CaseOptions& o, int i) { o.reproducible = static_cast<Reproducible>(i); }},
    {"parallelism", 2, [](CaseOptions& o, int i) { o.parallelism = 1 + 3 * i; }},
};

CaseOptions base_options(uint64_t seed) {
  CaseOptions options;
  options.seed = seed;
  options.sequences = {{1, 77}, {5, 5}, {0, 9}, {1, 3}, {7, 190}};
  return options;
}

void expect_accepted_and_right(CaseOptions options) {
  make_consistent(options.key_dtype, options.key_scales);
  make_consistent(options.value_dtype, options.value_scales);
  const AttentionProblem problem = AttentionCase(options).problem();
  EXPECT_EQ(refuse(problem), nullptr) << refuse(problem);
  for (const Kernel& kernel : kernels()) {
    if (!kernel.name.starts_with(portable_prefix)) continue;
    EXPECT_EQ(refusal(kernel, resolve(problem).value(), kernel.needs), nullptr) << kernel.name;
  }
  expect_every_kernel_right(options);
}

TEST(Options, every_pair_of_values_is_accepted_and_right) {
  const uint64_t seed = test_seed();
  std::vector<int> levels;
  for (const Factor& factor : factors) levels.push_back(factor.levels);
  const PairwiseDesign design(levels, seed);
  RecordProperty("rows", static_cast<int>(design.rows().size()));
  for (size_t i = 0; i < design.rows().size(); ++i) {
    CaseOptions options = base_options(seed + i);
    for (size_t f = 0; f < std::size(factors); ++f) factors[f].apply(options, design.rows()[i][f]);
    expect_accepted_and_right(std::move(options));
    if (HasFatalFailure()) return;
  }
}

TEST(Options, every_value_alone_is_accepted_and_right) {
  for (const Factor& factor : factors) {
    for (int level = 0; level < factor.levels; ++level) {
      SCOPED_TRACE(std::string(factor.name) + " " + std::to_string(level));
      CaseOptions options = base_options(5);
      factor.apply(options, level);
      expect_accepted_and_right(std::move(options));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Options, every_value_changes_the_result) {
  // A case in which an option makes no difference could not tell whether a kernel ignores it.
  CaseOptions base = base_options(5);
  base.key_positions = base.query_positions = true;
  AttentionCase plain(base);
  const std::set<std::string> of_the_result = {"intervals", "tree",        "scale",
                                               "softcap",   "sink_logits", "alibi",
                                               "bias",      "mask",        "unassigned"};
  for (const Factor& factor : factors) {
    if (!of_the_result.contains(factor.name)) continue;
    CaseOptions options = base;
    factor.apply(options, factor.levels - 1);
    AttentionCase c(options);
    EXPECT_NE(c.expected(0, 1).lse, plain.expected(0, 1).lse) << factor.name;
  }
}

struct Refused {
  const char* word;  // the reason names it
  void (*break_it)(AttentionProblem& p);
};

constexpr Refused refused[] = {
    {"intervals", [](AttentionProblem& p) { p.selection = p.intervals = true; }},
    {"tree", [](AttentionProblem& p) { p.selection = p.tree = true; }},
    {"alibi", [](AttentionProblem& p) { p.selection = p.alibi = true; }},
    {"bias", [](AttentionProblem& p) { p.selection = p.bias = true; }},
    {"mask",
     [](AttentionProblem& p) {
       p.selection = true;
       p.mask.left = 9;
     }},
    {"mask",
     [](AttentionProblem& p) {
       p.selection = true;
       p.mask.sink_tokens = 4;
     }},
    {"mask",
     [](AttentionProblem& p) {
       p.selection = true;
       p.mask.chunk = 16;
     }},
    {"key_tail", [](AttentionProblem& p) { p.key_tail = p.key; }},
    {"q_dtype", [](AttentionProblem& p) { p.q_dtype = DType::f8_e4m3; }},
    {"q_dtype", [](AttentionProblem& p) { p.q_dtype = DType::i8; }},
    {"out_dtype", [](AttentionProblem& p) { p.out_dtype = DType::i8; }},
    {"key", [](AttentionProblem& p) { p.key.dtype = DType::f8_e8m0; }},
    {"value", [](AttentionProblem& p) { p.value.dtype = DType::f8_e8m0; }},
    {"head_size", [](AttentionProblem& p) { p.key.head_size = 4; }},
    {"head_size", [](AttentionProblem& p) { p.key.head_size = 60; }},
    {"head_size", [](AttentionProblem& p) { p.key.head_size = 584; }},
    {"v_head_size", [](AttentionProblem& p) { p.value.head_size = p.v_head_size = 12; }},
    {"v_head_size", [](AttentionProblem& p) { p.value.head_size = p.v_head_size = 1024; }},
};

TEST(Options, what_no_kernel_does_is_refused_with_a_reason) {
  const AttentionCase c(base_options(1));
  for (const Refused& row : refused) {
    AttentionProblem problem = c.problem();
    row.break_it(problem);
    const char* reason = refuse(problem);
    ASSERT_NE(reason, nullptr) << row.word;
    EXPECT_NE(std::strstr(reason, row.word), nullptr) << reason;
    const Result<Attention> attention = Attention::create(problem, {});
    ASSERT_FALSE(attention.has_value());
    EXPECT_EQ(attention.error().code(), Errc::unsupported);
    EXPECT_NE(attention.error().message().find(reason), std::string_view::npos)
        << attention.error().message();
  }
}

TEST(Options, another_device_is_refused_with_a_reason) {
  const AttentionCase c(base_options(1));
  const Device gpu{Device::Kind::cuda, 0};
  ASSERT_NE(refuse(c.problem(), gpu), nullptr);
  // without kernels for it, or without a driver
  const Errc code = Attention::create(c.problem(), {}, gpu).error().code();
  EXPECT_TRUE(code == Errc::unsupported || code == Errc::device);
}

}  // namespace
}  // namespace folio::test
