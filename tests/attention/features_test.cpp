// SPDX-License-Identifier: Apache-2.0
/// tests/attention/features_test.cpp: a kernel takes what it names and refuses everything else, for
/// each kernel, each feature and each type.
#include <gtest/gtest.h>

#include <string>

#include "attention/check.h"
#include "attention/kernel_list.h"
#include "support/attention_case.h"

namespace folio::test {
namespace {

/// The machine that has all that kernels of such a kind may need.
Capabilities machine_of(const Kernel& kernel) {
  return kernel.device != nullptr ? needs_tensor_maps : needs_amx_bf16;
}

/// Of the types that the kernel takes bf16, or else its first.
DType type_of(DTypes types) {
  if (types.is_empty() || types.has(DType::bf16)) return DType::bf16;
  int i = 0;
  while (!types.has(static_cast<DType>(i))) ++i;
  return static_cast<DType>(i);
}

/// Of the kernel's types; latent rows of the sizes that it takes.
AttentionProblem problem_of(const Kernel& kernel, bool is_latent) {
  CaseOptions options;
  options.sequences = {{1, 1}};
  options.q_dtype = type_of(kernel.supports.q);
  options.key_dtype = type_of(kernel.supports.key);
  options.value_dtype = is_latent ? options.key_dtype : type_of(kernel.supports.value);
  options.mask = Mask::causal();
  options.value_in_key = is_latent;
  options.int8_operands = kernel.weights == DType::i8;
  const bool is_wide = is_latent && kernel.device != nullptr;
  options.head_size = is_wide ? 576 : is_latent ? 96 : 64;
  options.v_head_size = is_wide ? 512 : 64;
  if (is_wide) options.kv_heads = 1;
  return AttentionCase(options).problem();
}

/// The plainest problem that the kernel takes.
AttentionProblem plain_problem(const Kernel& kernel) {
  return problem_of(kernel, !kernel.supports.features.has(Feature::value_plane));
}

const char* refusal_of(const Kernel& kernel, const AttentionProblem& problem) {
  const Result<AttentionProblem> resolved = resolve(problem);
  if (!resolved) return "broken";
  return refusal(kernel, *resolved, machine_of(kernel));
}

void add_scales(PagedKVView& plane, int32_t granularity) {
  plane.scales.dtype = DType::f32;
  plane.scales.granularity = granularity;
  plane.scales.granule_stride_bytes = 4;
}

/// Packed types have scales.
void set_dtype(PagedKVView& plane, DType dtype) {
  plane.dtype = dtype;
  if (folio::detail::is_packed(dtype)) add_scales(plane, 32);
}

/// Makes the problem need the feature, and as little else as may be. A feature that is not here
/// does not compile.
void need(Feature feature, const Kernel& kernel, AttentionProblem& p) {
  switch (feature) {
    case Feature::value_plane: p = problem_of(kernel, false); return;
    case Feature::value_in_key: p = problem_of(kernel, true); return;
    case Feature::key_tail: p.key_tail = p.key; return;
    case Feature::key_scales: add_scales(p.key, p.key.head_size); return;
    case Feature::key_granules: add_scales(p.key, 16); return;
    case Feature::value_scales:
      p = problem_of(kernel, false);
      add_scales(p.value, 64);
      return;
    case Feature::value_granules:
      p = problem_of(kernel, false);
      add_scales(p.value, 16);
      return;
    case Feature::zero_points:
      p = problem_of(kernel, false);
      set_dtype(p.value, DType::u4);
      p.value.scales.zeros = Zeros::patterns;
      p.value.scales.zero_offset_bytes = 4;
      return;
    case Feature::key_turned: p.key.hadamard.block = 32; return;
    case Feature::value_turned:
      p = problem_of(kernel, false);
      p.value.has_channel_scales = true;
      return;
    case Feature::window: p.mask.left = 9; return;
    case Feature::lookahead: p.mask.right = -1; return;
    case Feature::chunks: p.mask.chunk = 32; return;
    case Feature::sink_tokens: p.mask.sink_tokens = 4; return;
    case Feature::intervals: p.intervals = true; return;
    case Feature::tree: p.tree = true; return;
    case Feature::selection: p.selection = true; return;
    case Feature::selection_per_head: p.selection = p.selection_per_head = true; return;
    case Feature::softcap: p.softcap = 20.0f; return;
    case Feature::sink_logits: p.sink_logits = true; return;
    case Feature::alibi: p.alibi = true; return;
    case Feature::bias: p.bias = true; return;
    case Feature::sink_per_query: p.sink_logits = p.sink_per_query = true; return;
    case Feature::sink_dtype:
      p.sink_logits = true;
      p.sink_dtype = DType::bf16;
      return;
    case Feature::bias_per_sequence: p.bias = p.bias_per_sequence = true; return;
    case Feature::bias_dtype:
      p.bias = true;
      p.bias_dtype = DType::f16;
      return;
    case Feature::alibi_positions: p.alibi = p.alibi_positions = true; return;
  }
}

std::string missing_in(const Status& status) {
  const std::string message(status.message());
  const size_t at = message.find("missing: ");
  return at == std::string::npos ? "" : message.substr(at);
}

TEST(Features, every_kernel_takes_the_features_that_it_names_and_refuses_the_others) {
  for (const Kernel& kernel : kernels()) {
    for (int i = 0; i < num_features; ++i) {
      const auto feature = static_cast<Feature>(i);
      SCOPED_TRACE(std::string(kernel.name) + ", " + name(feature));
      AttentionProblem problem = plain_problem(kernel);
      ASSERT_EQ(refusal_of(kernel, problem), nullptr);
      need(feature, kernel, problem);
      problem = resolve(problem).value();
      ASSERT_TRUE(features_of(problem).has(feature));
      const bool is_supported = kernel.supports.features.has_all(features_of(problem));
      const Result<const Kernel*> selected =
          select(problem, machine_of(kernel), machine_profile(), kernel.name);
      EXPECT_EQ(selected.has_value(), is_supported);
      if (selected) continue;
      EXPECT_EQ(selected.error().code(), Errc::unsupported);
      if (kernel.supports.features.has(feature)) continue;  // another one is missing
      EXPECT_NE(missing_in(selected.error()).find(name(feature)), std::string::npos)
          << selected.error().message();
    }
  }
}

TEST(Features, what_a_kernel_does_not_name_it_refuses) {
  for (const Kernel& listed : kernels()) {
    for (int i = 0; i < num_features; ++i) {
      const auto feature = static_cast<Feature>(i);
      if (!listed.supports.features.has(feature)) continue;
      AttentionProblem problem = plain_problem(listed);
      need(feature, listed, problem);
      problem = resolve(problem).value();
      if (!listed.supports.features.has_all(features_of(problem))) continue;
      Kernel silent = listed;
      silent.supports.features = listed.supports.features.without(feature);
      EXPECT_EQ(refusal_of(listed, problem), nullptr) << listed.name << ", " << name(feature);
      EXPECT_NE(refusal_of(silent, problem), nullptr) << listed.name << ", " << name(feature);
    }
    Kernel silent = listed;
    silent.supports = {};
    EXPECT_NE(refusal_of(silent, plain_problem(listed)), nullptr) << listed.name;
  }
}

TEST(Features, every_kernel_takes_the_types_that_it_names_and_refuses_the_others) {
  struct Place {
    const char* name;
    DTypes Support::*types;
    void (*set)(AttentionProblem& p, DType dtype);
  };
  const Place places[] = {
      {"q_dtype", &Support::q, [](AttentionProblem& p, DType t) { p.q_dtype = t; }},
      {"out_dtype", &Support::out, [](AttentionProblem& p, DType t) { p.out_dtype = t; }},
      {"key.dtype", &Support::key, [](AttentionProblem& p, DType t) { set_dtype(p.key, t); }},
      {"value.dtype", &Support::value,
       [](AttentionProblem& p, DType t) { set_dtype(p.value, t); }}};
  for (const Kernel& kernel : kernels()) {
    for (const Place& place : places) {
      for (int i = static_cast<int>(DType::f32); i < folio::detail::num_dtypes; ++i) {
        const auto dtype = static_cast<DType>(i);
        SCOPED_TRACE(std::string(kernel.name) + ", " + place.name + " " + name(dtype));
        AttentionProblem problem = plain_problem(kernel);
        if (problem.value_in_key && place.types == &Support::value) continue;
        place.set(problem, dtype);
        const Result<const Kernel*> selected =
            select(resolve(problem).value(), machine_of(kernel), machine_profile(), kernel.name);
        EXPECT_EQ(selected.has_value(), (kernel.supports.*place.types).has(dtype));
        if (selected) continue;
        if (folio::detail::is_packed(dtype) &&
            !kernel.supports.features.has(Feature::value_granules))
          continue;  // the scales that these have are refused
        EXPECT_NE(selected.error().message().find(std::string(place.name) + " is " + name(dtype)),
                  std::string_view::npos)
            << selected.error().message();
      }
    }
  }
}

TEST(Features, a_refusal_says_what_is_needed_supported_and_missing) {
  AttentionProblem problem = plain_problem(kernels().back());
  problem.bias = true;
  problem.key_tail = problem.key;
  const Status refused =
      select(resolve(problem).value(), needs_x86_64_v4, machine_profile(), "attention_avx512_f32")
          .error();
  const std::string message(refused.message());
  EXPECT_NE(message.find("needs value_plane, key_tail, bias; attention_avx512_f32 supports "),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("; missing: key_tail"), std::string::npos) << message;
  EXPECT_EQ(missing_in(refused), "missing: key_tail") << message;
}

TEST(Features, names_are_unique) {
  for (int i = 0; i < num_features; ++i)
    for (int k = 0; k < i; ++k)
      EXPECT_STRNE(name(static_cast<Feature>(i)), name(static_cast<Feature>(k)));
}

}  // namespace
}  // namespace folio::test
