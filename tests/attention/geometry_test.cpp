// SPDX-License-Identifier: Apache-2.0
/// tests/attention/geometry_test.cpp: any geometry: head sizes, groups, page sizes, strides, planes
/// that differ, latent heads.
#include <gtest/gtest.h>

#include <vector>

#include "support/attention_case.h"
#include "support/kernel_cases.h"
#include "support/random.h"

namespace folio::test {
namespace {

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
    expect_every_kernel_right(options, {Adapt::types, nullptr});
    if (HasFatalFailure()) return;
  }
}

/// K and V head sizes of models that are served.
TEST(Geometry, the_head_sizes_of_models_in_every_type) {
  constexpr int32_t sizes[][2] = {{64, 64},   {80, 80},   {96, 96},   {112, 112},
                                  {128, 128}, {192, 128}, {256, 256}, {576, 512}};
  uint64_t seed = test_seed();
  for (const auto& [size, v_size] : sizes) {
    for (const DType dtype :
         {DType::f32, DType::bf16, DType::f16, DType::i8, DType::f8_e4m3, DType::f8_e5m2}) {
      for (const StorageOrder order : {StorageOrder::token_major, StorageOrder::head_major}) {
        CaseOptions options;
        options.seed = ++seed;
        options.head_size = size;
        options.v_head_size = v_size;
        options.q_heads = 8;
        options.kv_heads = size == 576 ? 1 : 2;
        options.value_in_key = size == 576;
        options.key_order = options.value_order = order;
        options.key_dtype = options.value_dtype = dtype;
        options.q_dtype = bit_width(dtype) == 8 ? DType::bf16 : dtype;
        if (bit_width(dtype) == 8)
          options.key_scales.kind = options.value_scales.kind = ScaleKind::token_and_head;
        options.sequences = {{2, 70}, {1, 150}, {9, 33}};
        expect_every_kernel_right(options, {Adapt::types, nullptr});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Geometry, every_group_size_up_to_128) {
  for (const int32_t group :
       {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 31, 32, 33, 63, 64, 65, 71, 96, 127, 128}) {
    CaseOptions options;
    options.kv_heads = group == 71 ? 1 : 2;  // 71 heads over one: Falcon
    options.q_heads = options.kv_heads * group;
    options.head_size = 16;
    options.sequences = {{3, 70}, {1, 20}};
    expect_every_kernel_right(options);
    if (HasFatalFailure()) return;
  }
}

TEST(Geometry, every_page_size) {
  for (const int32_t page_size :
       {1, 2, 3, 5, 8, 16, 17, 31, 32, 64, 100, 128, 256, unbounded_page_size}) {
    for (const StorageOrder order : {StorageOrder::token_major, StorageOrder::head_major}) {
      CaseOptions options;
      options.page_size = page_size;
      options.key_order = order;
      options.value_order =
          order == StorageOrder::token_major ? StorageOrder::head_major : StorageOrder::token_major;
      options.head_size = 16;
      options.gap_bytes = 20;
      options.sequences = {{3, 270}, {1, 128}, {17, 64}, {1, 65}};
      expect_every_kernel_right(options);
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
  expect_every_kernel_right(options);
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
    expect_every_kernel_right(options);
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
    expect_every_kernel_right(options);
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
    expect_every_kernel_right(options);
  }
}

TEST(Geometry, long_contexts_cross_every_tile_and_span) {
  for (const int32_t context : {63, 64, 65, 2047, 2048, 2049, 4097}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      CaseOptions options;
      options.head_size = 8;
      options.q_dtype = options.key_dtype = options.value_dtype = dtype;
      options.q_heads = options.kv_heads = 1;
      options.page_size = 48;
      options.sequences = {{2, context}};
      options.parallelism = 4;
      expect_every_kernel_right(options);
    }
  }
}

/// As many queries as a row tile holds, one less and one more, decode and prefill, short and with a
/// long prefix.
TEST(Geometry, every_number_of_queries) {
  std::vector<int32_t> numbers = {31, 32, 33, 63, 64, 65, 127, 128, 130};
  for (int32_t n = 1; n <= 17; ++n) numbers.push_back(n);
  uint64_t seed = test_seed();
  for (const int32_t queries : numbers) {
    const std::vector<int32_t> groups =
        queries <= 4 ? std::vector<int32_t>{1, 2, 4, 5, 8} : std::vector<int32_t>{1, 5};
    for (const int32_t group : groups) {
      CaseOptions options;
      options.seed = ++seed;
      options.q_heads = 2 * group;
      options.head_size = 32;
      options.key_dtype = options.value_dtype = DType::bf16;
      options.sequences = {{queries, queries}, {queries, queries + 67}};
      options.parallelism = 1 + queries % 3;
      expect_every_kernel_right(options);
      if (HasFatalFailure()) return;
    }
  }
}

/// Prompts longer than any tile of rows, alone, behind a prefix, and beside decodes; planes in
/// every type.
TEST(Geometry, long_prompts_cross_every_row_tile) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i8}) {
    CaseOptions options;
    options.q_heads = 4;
    options.kv_heads = 1;
    options.head_size = 64;
    options.q_dtype = bit_width(dtype) == 8 ? DType::bf16 : dtype;
    options.key_dtype = options.value_dtype = dtype;
    if (dtype == DType::i8)
      options.key_scales.kind = options.value_scales.kind = ScaleKind::token_and_head;
    options.sequences = {{300, 300}, {1, 100}, {140, 700}};
    options.parallelism = 2;
    expect_every_kernel_right(options);
  }
}

}  // namespace
}  // namespace folio::test
