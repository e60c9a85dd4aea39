// SPDX-License-Identifier: Apache-2.0
/// tests/attention/int8_operands_test.cpp: the kernel that rounds q and weights to 8 bits: by
/// AttentionProblem::int8_operands alone, within its bound, and never under per_query.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "attention/check.h"
#include "attention/kernel_list.h"
#include "support/kernel_cases.h"
#include "support/test_device.h"

namespace folio::test {
namespace {

constexpr std::string_view kernel_name = "attention_avx512_int8";
constexpr ScaleOptions of_rows = {ScaleKind::token_and_head, DType::f32, 16, false};

CaseOptions case_of(const ScaleOptions& scales = of_rows) {
  CaseOptions options;
  options.q_dtype = DType::bf16;
  options.key_dtype = options.value_dtype = DType::i8;
  options.key_scales = options.value_scales = scales;
  options.head_size = 128;
  options.int8_operands = true;
  options.seed = test_seed();
  return options;
}

bool is_here() {
  for (const std::string& name : kernel_names())
    if (name == kernel_name) return true;
  return false;
}

TEST(Int8Operands, every_group_and_head_size_is_right_within_the_bound) {
  for (const int32_t group : {1, 2, 3, 4, 5, 8, 12, 16})
    for (const int32_t head_size : {64, 128, 192, 256}) {
      CaseOptions options = case_of();
      options.head_size = head_size;
      options.v_head_size = head_size == 192 ? 128 : head_size;
      options.kv_heads = 2;
      options.q_heads = 2 * group;
      options.seed += static_cast<uint64_t>(group * 1000 + head_size);
      options.key_order = group % 2 == 0 ? StorageOrder::head_major : StorageOrder::token_major;
      options.value_order = group % 4 == 0 ? StorageOrder::head_major : StorageOrder::token_major;
      expect_every_kernel_right(options);
    }
}

TEST(Int8Operands, every_form_of_scales_and_type_of_q_is_right_within_the_bound) {
  const ScaleKind kinds[] = {
      ScaleKind::none,          ScaleKind::tensor,         ScaleKind::head,      ScaleKind::page,
      ScaleKind::page_and_head, ScaleKind::token_and_head, ScaleKind::behind_row};
  for (const ScaleKind kind : kinds)
    for (const DType q : {DType::f32, DType::bf16, DType::f16}) {
      CaseOptions options = case_of({kind, DType::f16, 16, q != DType::f32});
      options.q_dtype = q;
      options.out_dtype = q;
      options.seed += static_cast<uint64_t>(kind);
      expect_every_kernel_right(options);
    }
}

TEST(Int8Operands, every_length_at_an_edge_is_right_within_the_bound) {
  for (const int32_t page_size : {1, 16, 64}) {
    CaseOptions options = case_of();
    options.page_size = page_size;
    options.q_heads = 8;
    options.kv_heads = 1;
    options.sequences.clear();
    for (const int32_t context : {1, 15, 16, 17, 63, 64, 65, 79, 80, 127, 128, 129, 2047, 2049})
      options.sequences.push_back({1, context});
    expect_every_kernel_right(options);
    options.sequences = {{9, 70}, {65, 65}, {33, 200}};
    expect_every_kernel_right(options);
  }
}

void negate_some_scales(AttentionCase& c) {
  const PagedKVView& view = c.args().value;
  for (int64_t page = 0; page < view.num_pages; ++page)
    for (int64_t slot = page % 2; slot < view.page_size; slot += 3)
      for (int64_t head = 0; head < view.num_heads; ++head) {
        auto* const at =
            static_cast<std::byte*>(view.scales.data) + page * view.scales.page_stride_bytes +
            slot * view.scales.slot_stride_bytes + head * view.scales.head_stride_bytes;
        *reinterpret_cast<float*>(at) *= -1.0f;
      }
}

TEST(Int8Operands, scales_of_either_sign_are_right) {
  for (const StorageOrder order : {StorageOrder::token_major, StorageOrder::head_major}) {
    CaseOptions options = case_of();
    options.page_size = 32;
    options.key_order = options.value_order = order;
    expect_every_kernel_right(options, {Adapt::nothing, negate_some_scales});
  }
}

TEST(Int8Operands, no_number_in_a_scale_or_a_query_reaches_the_output) {
  if (!is_here()) GTEST_SKIP() << "this machine lacks the instructions";
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (const int which : {0, 1, 2}) {
    CaseOptions options = case_of({ScaleKind::tensor, DType::f32, 16, false});
    options.q_dtype = DType::f32;
    options.sequences = {{1, 70}};
    AttentionCase c(options);
    void* const place[] = {c.args().key.scales.data, c.args().value.scales.data,
                           const_cast<void*>(c.args().q.data)};
    *static_cast<float*>(place[which]) = nan;
    ASSERT_TRUE(run_case(c, kernel_name).is_ok());
    EXPECT_TRUE(std::isnan(c.output(0, 0, 0))) << which;
  }
}

TEST(Int8Operands, the_kernel_is_selected_by_the_option_alone_and_refuses_with_a_reason) {
  const Kernel* const built = find_kernel(kernel_name);
  if (built == nullptr)
    GTEST_SKIP() << "this build lacks the kernel: sanitizers, on a machine without";
  const Kernel& kernel = *built;
  const auto refusal_by = [&](const CaseOptions& options) -> std::string {
    const AttentionProblem problem = resolve(AttentionCase(options).problem()).value();
    const char* const reason = refusal(kernel, problem, kernel.needs | needs_cpu);
    return reason != nullptr ? reason : "";
  };
  const auto expect_refused = [&](const char* word, void (*change)(CaseOptions& o)) {
    CaseOptions options = case_of();
    options.sequences = {{1, 5}};
    change(options);
    EXPECT_NE(refusal_by(options).find(word), std::string::npos) << refusal_by(options);
  };
  EXPECT_EQ(refusal_by(case_of()), "");
  expect_refused("int8_operands", [](CaseOptions& o) { o.int8_operands = false; });
  expect_refused("reproducible", [](CaseOptions& o) { o.reproducible = Reproducible::per_query; });
  expect_refused("key.dtype", [](CaseOptions& o) { o.key_dtype = DType::f8_e4m3; });
  expect_refused("value.dtype", [](CaseOptions& o) { o.value_dtype = DType::f8_e4m3; });
  expect_refused("key.scales", [](CaseOptions& o) { o.key_scales.kind = ScaleKind::granule; });
  expect_refused("value.scales", [](CaseOptions& o) { o.value_scales.kind = ScaleKind::granule; });
  expect_refused("head_size", [](CaseOptions& o) { o.head_size = 72; });
  expect_refused("v_head_size", [](CaseOptions& o) { o.v_head_size = 32; });
  expect_refused("value_in_key", [](CaseOptions& o) {
    o.value_in_key = true;
    o.v_head_size = 64;
  });
  const MachineProfile& profile = profile_of({Vendor::amd, 26, 2, kernel.needs});
  AttentionProblem problem = resolve(AttentionCase(case_of()).problem()).value();
  EXPECT_EQ(select(problem, kernel.needs, profile, "").value()->name, kernel_name);
  problem.int8_operands = false;
  EXPECT_NE(select(problem, kernel.needs, profile, "").value()->name, kernel_name);
}

TEST(Int8Operands, it_changes_no_bit_under_per_query) {
  CaseOptions with = case_of();
  with.reproducible = Reproducible::per_query;
  CaseOptions without = with;
  without.int8_operands = false;
  EXPECT_TRUE(give_the_same_bits(with, without));
}

}  // namespace
}  // namespace folio::test
