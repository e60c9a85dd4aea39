// SPDX-License-Identifier: Apache-2.0
/// tests/seed_members/scales_operand_test.cpp: one compile-time line and one behaviour for every
/// heading of KVCacheScalesMHAOperand.
///
/// The suite Type_member tests the heading Type.member; tests/lint/seed_headings.py compares the
/// suites with the headings.
#include <gtest/gtest.h>

#include <string_view>
#include <type_traits>
#include <utility>

#include "folio/attention/operand.h"
#include "folio/cache/static_view.h"
#include "folio/core/element.h"
#include "support/seed_caches.h"

namespace folio::test {
namespace {

TEST(KVCacheScalesMHAOperand, presents_the_scales_as_data) {
  static_assert(MHAOperand<Operand> && std::is_trivially_copyable_v<Operand>);
  const auto& cache = paged<Collection>();
  cache.key().store_scale(0, 1, 6, 16, Vec<f16, 1>{{half(9.0f)}});
  EXPECT_EQ((*Operand{cache.key()}.block_paged_ptr<1>(0, 6, 1, 19)), half(9.0f));
}
TEST(KVCacheScalesMHAOperand_cache_t_parameter, is_a_quantised_cache) {
  static_assert(std::is_same_v<decltype(Operand::cache), Cache>);
  EXPECT_EQ(Operand{paged<Collection>().key()}.cache.quantization_enabled, true);
}
TEST(KVCacheScalesMHAOperand_cache, is_held_by_value) {
  static_assert(sizeof(Operand) == sizeof(Cache));
  const auto& cache = paged<Collection>();
  EXPECT_EQ(Operand{cache.value(2)}.cache.scales_raw_ptr(), cache.value(2).scales_raw_ptr());
}
TEST(KVCacheScalesMHAOperand_device_type, is_the_type_itself) {
  static_assert(std::is_same_v<Operand::device_type, Operand>);
  EXPECT_EQ(Operand::device_type{}.num_kv_rows(), 0);
}
TEST(KVCacheScalesMHAOperand_dtype, is_the_cache_s_scale_type) {
  static_assert(Operand::dtype == DType::f16);
  EXPECT_EQ(sizeof(Operand::element_type), sizeof(Cache::scale_type));
}
TEST(KVCacheScalesMHAOperand_page_size, is_the_cache_s) {
  static_assert(Operand::page_size == 4);
  EXPECT_EQ((Operand{paged<Collection>().key()}.run(0, 1, 0).rows), Operand::page_size - 1);
}
TEST(KVCacheScalesMHAOperand_quantization_enabled, is_the_cache_s) {
  static_assert(Operand::quantization_enabled);
  EXPECT_EQ(Operand::quantization_enabled, Cache::quantization_enabled);
}
TEST(KVCacheScalesMHAOperand_quantization_granularity, is_the_cache_s) {
  static_assert(Operand::quantization_granularity == 8);
  const Operand operand{paged<Collection>().key()};
  EXPECT_EQ(operand.block_paged_ptr<1>(0, 0, 0, 7), operand.block_paged_ptr<1>(0, 0, 0));
}
TEST(KVCacheScalesMHAOperand_scale_dtype, is_invalid_since_scales_have_none) {
  static_assert(Operand::scale_dtype == DType::invalid);
  EXPECT_EQ(Operand{paged<Collection>().key()}.scales_raw_ptr(), nullptr);
}
TEST(KVCacheScalesMHAOperand_init, takes_the_cache) {
  static_assert(std::is_aggregate_v<Operand>);
  const auto& cache = paged<Collection>();
  EXPECT_EQ(Operand{cache.key(1)}.row_idx(0, 5), 1 * 24 + 1);
}
TEST(KVCacheScalesMHAOperand_get_type_name, names_the_template) {
  static_assert(std::string_view(Operand::get_type_name()) == "KVCacheScalesMHAOperand");
  EXPECT_STREQ(Operand::get_type_name(), "KVCacheScalesMHAOperand");
}
TEST(KVCacheScalesMHAOperand_block_paged_ptr, is_the_cache_s_scale_pointer) {
  static_assert(
      std::is_same_v<decltype(std::declval<Operand>().block_paged_ptr<4>(0u, 0u, 0u)), const f16*>);
  static_assert(HasTilesOf<Operand, 4> && !HasTilesOf<Operand, 8>);
  const auto& cache = paged<Collection>();
  const Operand operand{cache.key(1)};
  EXPECT_EQ(operand.block_paged_ptr<2>(0, 6, 1, 9),
            cache.key(1).scales_block_paged_ptr(0, 6, 1, 9));
  EXPECT_EQ(operand.block_paged_ptr<2>(1, 8, 0), nullptr);
}
TEST(KVCacheScalesMHAOperand_scales_block_paged_ptr, is_null) {
  static_assert(std::is_same_v<decltype(std::declval<Operand>().scales_block_paged_ptr(0, 0, 0)),
                               const detail::no_element*>);
  EXPECT_EQ((Operand{paged<Collection>().key()}.scales_block_paged_ptr(0, 0, 0)), nullptr);
}
TEST(KVCacheScalesMHAOperand_load_scale, gives_values_without_content) {
  static_assert(std::is_same_v<decltype(std::declval<Operand>().load_scale<4>(0, 0, 0, 0)),
                               Vec<detail::no_element, 4>>);
  EXPECT_EQ((Operand{paged<Collection>().key()}.load_scale<4>(0, 0, 0, 0)),
            (Vec<detail::no_element, 4>{}));
}
TEST(KVCacheScalesMHAOperand_cache_length, is_the_cache_s) {
  static_assert(std::is_same_v<decltype(std::declval<Operand>().cache_length(0)), int64_t>);
  EXPECT_EQ(Operand{paged<Collection>().key()}.cache_length(0), 7);
}
TEST(KVCacheScalesMHAOperand_max_context_length, is_the_cache_s) {
  static_assert(std::is_same_v<decltype(std::declval<Operand>().max_context_length()), uint32_t>);
  EXPECT_EQ(Operand{paged<Collection>().key()}.max_context_length(), 12u);
}
TEST(KVCacheScalesMHAOperand_num_kv_rows, counts_rows_of_scales) {
  static_assert(std::is_same_v<decltype(std::declval<Operand>().num_kv_rows()), int64_t>);
  EXPECT_EQ(Operand{paged<Collection>().key()}.num_kv_rows(), 4 * 24 + 4);
}
TEST(KVCacheScalesMHAOperand_row_idx, addresses_the_row_of_scales) {
  static_assert(std::is_same_v<decltype(std::declval<Operand>().row_idx(0u, 0u)), int64_t>);
  const auto& cache = paged<Collection>();
  const Operand operand{cache.key(1)};
  EXPECT_EQ(cache.key(1).scales_raw_ptr() + operand.row_idx(1, 6) * 6,
            (operand.block_paged_ptr<1>(1, 6, 0)));
  EXPECT_EQ(operand.row_idx(1, 8), operand.num_kv_rows());
}
TEST(KVCacheScalesMHAOperand_get_tma_row, goes_from_slots_to_rows_of_scales) {
  static_assert(std::is_same_v<decltype(std::declval<Operand>().get_tma_row(0)), int64_t>);
  const Operand operand{paged<Collection>().key()};
  EXPECT_EQ(operand.get_tma_row(4 * 3 + 1), 24 * 3 + 1);
  EXPECT_EQ(operand.get_tma_row(-1), -1);
}
TEST(KVCacheScalesMHAOperand_scales_raw_ptr, is_null) {
  static_assert(std::is_same_v<decltype(std::declval<Operand>().scales_raw_ptr()),
                               const detail::no_element*>);
  EXPECT_EQ(Operand{paged<Collection>().key()}.scales_raw_ptr(), nullptr);
}

}  // namespace
}  // namespace folio::test
