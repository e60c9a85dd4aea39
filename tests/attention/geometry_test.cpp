// SPDX-License-Identifier: Apache-2.0
/// tests/attention/geometry_test.cpp: any geometry: head sizes, groups, page sizes, strides, planes that differ, latent heads.
#include <gtest/gtest.h>

#include "support/attention_case.h"
#include "support/random.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

void expect_right(const CaseOptions& options) {
  AttentionCase c(options);
  for_each_kernel([&](const std::string& kernel) { ASSERT_TRUE(kernel_is_right(c, kernel)); });
}

TEST(Geometry, every_head_size_of_the_supported_set) {
  uint64_t seed = test_seed();
  for (int32_t size = 8; size <= 576; size += 8) {
    CaseOptions options;
    options.seed = ++seed;
    options.head_size = size;
    options.v_head_size = 584 - size;
    options.q_heads = 2;
    options.kv_heads = 1;
    options.sequences = {{2, 70}, {1, 3}};
    options.out_dtype = DType::bf16;
    expect_right(options);
    if (HasFatalFailure()) return;
  }
}

TEST(Geometry, every_group_size_up_to_128) {
  for (const int32_t group : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 31, 32, 33, 63, 64, 65, 71, 96, 127, 128}) {
    CaseOptions options;
    options.q_heads = 2 * group;
    options.kv_heads = 2;
    options.head_size = 16;
    options.sequences = {{3, 70}, {1, 20}};
    expect_right(options);
    if (HasFatalFailure()) return;
  }
}

TEST(Geometry, every_page_size) {
  for (const int32_t page_size : {1, 2, 3, 5, 8, 16, 31, 64, 100, 128, 256, unbounded_page_size}) {
    for (const StorageOrder order : {StorageOrder::token_major, StorageOrder::head_major}) {
      CaseOptions options;
      options.page_size = page_size;
      options.key_order = order;
      options.value_order = order == StorageOrder::token_major ? StorageOrder::head_major : StorageOrder::token_major;
      options.head_size = 16;
      options.gap_bytes = 20;
      options.sequences = {{3, 270}, {1, 128}, {17, 64}, {1, 65}};
      expect_right(options);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Geometry, planes_may_differ_in_everything_but_heads_and_pages) {
  CaseOptions options;
  options.key_dtype = DType::i8;
  options.key_scales = {ScaleKind::behind_row, DType::f32, 0, true};
  options.value_dtype = DType::bf16;
  options.head_size = 40;
  options.v_head_size = 104;
  options.value_order = StorageOrder::head_major;
  options.gap_bytes = 4;
  expect_right(options);
}

TEST(Geometry, planes_may_be_aligned_to_an_element_only) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f8_e4m3, DType::i8}) {
    CaseOptions options;
    options.key_dtype = options.value_dtype = dtype;
    options.head_size = 24;
    options.q_heads = 3;
    options.kv_heads = 3;
    options.page_size = 5;
    options.gap_bytes = 4;
    expect_right(options);
  }
}

TEST(Geometry, latent_heads_of_deepseek) {
  for (const DType dtype : {DType::bf16, DType::f8_e4m3}) {
    CaseOptions options;
    options.q_heads = 128;
    options.kv_heads = 1;
    options.head_size = 576;
    options.v_head_size = 512;
    options.value_in_key = true;
    options.key_dtype = dtype;
    if (dtype == DType::f8_e4m3) options.key_scales = {ScaleKind::granule, DType::f32, 128, false};
    options.q_dtype = options.out_dtype = DType::bf16;
    options.page_size = 64;
    options.sequences = {{1, 150}, {2, 40}};
    expect_right(options);
  }
}

TEST(Geometry, the_latent_part_may_be_any_leading_columns) {
  for (const int32_t v_head_size : {8, 16, 40, 64}) {
    CaseOptions options;
    options.q_heads = 5;
    options.kv_heads = 1;
    options.head_size = 64;
    options.v_head_size = v_head_size;
    options.value_in_key = true;
    expect_right(options);
  }
}

TEST(Geometry, long_contexts_cross_every_tile_and_span) {
  for (const int32_t context : {63, 64, 65, 2047, 2048, 2049, 4097}) {
    CaseOptions options;
    options.head_size = 8;
    options.q_heads = options.kv_heads = 1;
    options.page_size = 48;
    options.sequences = {{2, context}};
    options.parallelism = 4;
    expect_right(options);
  }
}

}  // namespace
}  // namespace folio::test
