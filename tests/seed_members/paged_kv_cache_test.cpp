// SPDX-License-Identifier: Apache-2.0
/// tests/seed_members/paged_kv_cache_test.cpp: one compile-time line and one behaviour for every
/// heading of the seed's PagedKVCache.
///
/// The suite Type_member tests the heading Type.member; tests/lint/seed_headings.py compares the
/// suites with the headings.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

#include "folio/attention/operand.h"
#include "folio/cache/static_view.h"
#include "folio/core/element.h"
#include "support/seed_caches.h"

namespace folio::test {
namespace {

TEST(PagedKVCache, is_a_plain_value_for_host_and_device) {
  static_assert(std::is_trivially_copyable_v<Cache> && std::is_standard_layout_v<Cache>);
  const auto& cache = paged<Collection>();
  Cache bytes;
  const Cache original = cache.key();
  std::memcpy(&bytes, &original, sizeof bytes);
  EXPECT_EQ(bytes.row_idx(0, 5), original.row_idx(0, 5));
}
TEST(PagedKVCache_dtype_parameter, decides_the_element) {
  static_assert(std::is_same_v<PagedKVCache<DType::f8_e5m2, params, 4>::element_type, f8_e5m2>);
  EXPECT_EQ(sizeof(Plain::element_type), 2u);
}
TEST(PagedKVCache_kv_params_parameter, decides_the_row) {
  static_assert(PagedKVCache<DType::i8, KVCacheStaticParams{3, 7}, 4>::row_size == 21);
  EXPECT_EQ(paged<Collection>().key().blocks.stride(1), 40);
}
TEST(PagedKVCache_page_size_parameter, decides_where_a_page_ends) {
  static_assert(PagedKVCache<DType::i8, params, 7>::page_size_ == 7);
  const auto cache = paged<Collection>().key();
  EXPECT_EQ(cache.row_idx(0, 4) - cache.row_idx(0, 3), 24 * 1 - (24 * 4 + 3));
}
TEST(PagedKVCache_blocks_origin_parameter, blocks_are_mutable_and_not_owned) {
  static_assert(!std::is_const_v<Cache::blocks_tt_type::value_type>);
  const auto& cache = paged<Collection>();
  cache.key().blocks(0, 0, 0, 0) = 5;
  EXPECT_EQ(*cache.elements(), 5);
}
TEST(PagedKVCache_cache_lengths_origin_parameter, lengths_are_read_only_and_not_owned) {
  static_assert(std::is_const_v<Cache::cache_lengths_tt_type::value_type>);
  const auto& cache = paged<Collection>();
  cache.lengths()[1] = 9;
  EXPECT_EQ(cache.key().cache_length(1), 9);
}
TEST(PagedKVCache_lookup_table_origin_parameter, the_table_is_read_only_and_not_owned) {
  static_assert(std::is_const_v<Cache::lookup_table_tt_type::value_type>);
  const auto& cache = paged<Collection>();
  cache.table()[0] = 3;
  EXPECT_EQ(cache.key().row_idx(0, 0), 3 * 24);
}
TEST(PagedKVCache_scales_origin_parameter, scales_are_mutable_and_not_owned) {
  static_assert(!std::is_const_v<Cache::scales_tt_type::value_type>);
  const auto& cache = paged<Collection>();
  cache.key().scales(0, 0, 0, 0) = half(4.0f);
  EXPECT_EQ(*cache.scales.as<f16>(), half(4.0f));
}
TEST(PagedKVCache_scale_dtype_parameter, decides_the_scale) {
  static_assert(
      std::is_same_v<PagedKVCache<DType::i8, params, 4, DType::f8_e8m0, 8>::scale_type, f8_e8m0>);
  EXPECT_EQ(sizeof(Cache::scale_type), 2u);
}
TEST(PagedKVCache_quantization_granularity_parameter, decides_which_elements_share_a_scale) {
  static_assert(PagedKVCache<DType::i8, params, 4, DType::f32, 3>::quantization_granularity == 3);
  const auto cache = paged<Collection>().key();
  EXPECT_EQ(cache.scales_block_paged_ptr(0, 0, 0, 7), cache.scales_block_paged_ptr(0, 0, 0, 0));
  EXPECT_EQ(cache.scales_block_paged_ptr(0, 0, 0, 8), cache.scales_block_paged_ptr(0, 0, 0, 0) + 1);
}
TEST(PagedKVCache_blocks, begin_at_the_plane_of_the_layer) {
  static_assert(std::is_same_v<decltype(Cache::blocks), Cache::blocks_tt_type>);
  const auto& cache = paged<Collection>();
  EXPECT_EQ(cache.value(2).blocks.data, cache.elements() + (1 * 3 + 2) * 4 * 40);
}
TEST(PagedKVCache_cache_lengths, are_those_of_the_tables) {
  static_assert(std::is_same_v<decltype(Cache::cache_lengths), Cache::cache_lengths_tt_type>);
  const auto& cache = paged<Collection>();
  EXPECT_EQ(cache.key().cache_lengths.data, cache.lengths());
}
TEST(PagedKVCache_lookup_table, has_the_tables_columns_and_stride) {
  static_assert(std::is_same_v<decltype(Cache::lookup_table), Cache::lookup_table_tt_type>);
  const auto table = paged<Collection>().key().lookup_table;
  EXPECT_EQ(table.extent(0), 2);
  EXPECT_EQ(table.extent(1), 24);
  EXPECT_EQ(table.stride(0), 24);
}
TEST(PagedKVCache_max_seq_length, is_a_plain_field) {
  static_assert(std::is_same_v<decltype(Cache::max_seq_length), uint32_t>);
  EXPECT_EQ(paged<Collection>().key().max_seq_length, 3u);
}
TEST(PagedKVCache_max_cache_length, is_a_plain_field) {
  static_assert(std::is_same_v<decltype(Cache::max_cache_length), uint32_t>);
  EXPECT_EQ(paged<Collection>().key().max_cache_length, 12u);
}
TEST(PagedKVCache_scales, are_absent_without_quantisation) {
  static_assert(std::is_same_v<decltype(Cache::scales), Cache::scales_tt_type>);
  EXPECT_EQ(paged<PlainCollection>().key().scales.data, nullptr);
  const auto& cache = paged<Collection>();
  EXPECT_EQ(cache.value(2).scales.data, cache.scales.as<f16>() + (1 * 3 + 2) * 4 * 6);
}
TEST(PagedKVCache_blocks_layout, addresses_with_a_run_time_page_stride) {
  static_assert(Cache::blocks_layout::num_run_time_values == 2);
  EXPECT_EQ(Cache::blocks_layout(5, 960)(2, 3, 1, 7), 2 * 960 + 3 * 40 + 20 + 7);
}
TEST(PagedKVCache_blocks_shape, knows_all_but_the_number_of_pages) {
  static_assert(std::is_same_v<Cache::blocks_shape, IntTuple<-1, 4, 2, 20>>);
  EXPECT_EQ(paged<Collection>().key().blocks.extent(0), 5);
}
TEST(PagedKVCache_blocks_strides, knows_all_but_the_page_stride) {
  static_assert(std::is_same_v<Cache::blocks_strides, IntTuple<-1, 40, 20, 1>>);
  EXPECT_EQ(paged<Collection>().key().blocks.stride(0), 2 * 3 * 4 * 40);
}
TEST(PagedKVCache_blocks_tt_layout, is_that_of_the_field) {
  static_assert(std::is_same_v<Cache::blocks_tt_layout, Cache::blocks_layout>);
  EXPECT_EQ(paged<Collection>().key().blocks.layout(1, 0, 0, 0), 960);
}
TEST(PagedKVCache_blocks_tt_type, views_stored_elements) {
  static_assert(std::is_same_v<Cache::blocks_tt_type, TensorView<int8_t, Cache::blocks_tt_layout>>);
  EXPECT_EQ(paged<Collection>().key().blocks.size(), 5 * 4 * 40);
}
TEST(PagedKVCache_cache_lengths_tt_layout, is_one_packed_dimension) {
  static_assert(Cache::cache_lengths_tt_layout::rank == 1);
  EXPECT_EQ(Cache::cache_lengths_tt_layout(9)(8), 8);
}
TEST(PagedKVCache_cache_lengths_tt_type, views_unsigned_lengths) {
  static_assert(std::is_same_v<Cache::cache_lengths_tt_type,
                               TensorView<const uint32_t, Cache::cache_lengths_tt_layout>>);
  EXPECT_EQ(paged<Collection>().key().cache_lengths.size(), 2);
}
TEST(PagedKVCache_device_type, is_the_type_itself) {
  static_assert(std::is_same_v<Cache::device_type, Cache>);
  EXPECT_EQ(Cache::device_type{}.num_kv_rows(), 0);
}
TEST(PagedKVCache_dtype, is_the_parameter) {
  static_assert(Cache::dtype == DType::i8);
  EXPECT_EQ(view_of(paged<Collection>().key()).dtype, Cache::dtype);
}
TEST(PagedKVCache_head_dim_granularity, counts_a_short_last_granule) {
  static_assert(Cache::head_dim_granularity == 3 &&
                PagedKVCache<DType::i8, params, 4, DType::f32, 256>::head_dim_granularity == 1);
  EXPECT_EQ(paged<Collection>().key().scales.extent(3), 3);
}
TEST(PagedKVCache_kv_params, are_the_parameter) {
  static_assert(Cache::kv_params == params);
  EXPECT_EQ(view_of(paged<Collection>().key()).num_heads, Cache::kv_params.num_heads);
}
TEST(PagedKVCache_lookup_table_tt_layout, has_a_run_time_row_stride) {
  static_assert(Cache::lookup_table_tt_layout::num_run_time_values == 3);
  EXPECT_EQ(Cache::lookup_table_tt_layout(2, 24, 32)(1, 5), 37);
}
TEST(PagedKVCache_lookup_table_tt_type, views_page_ids) {
  static_assert(std::is_same_v<Cache::lookup_table_tt_type,
                               TensorView<const uint32_t, Cache::lookup_table_tt_layout>>);
  EXPECT_EQ(paged<Collection>().key().lookup_table(1, 1), 3u);
}
TEST(PagedKVCache_page_size, is_the_parameter) {
  static_assert(Cache::page_size_ == 4);
  EXPECT_EQ(paged<Collection>().key().blocks.extent(1), Cache::page_size_);
}
TEST(PagedKVCache_quantization_enabled, follows_from_the_scale_type) {
  static_assert(Cache::quantization_enabled && !Plain::quantization_enabled);
  EXPECT_NE(paged<Collection>().key().scales_raw_ptr(), nullptr);
}
TEST(PagedKVCache_quantization_granularity, is_the_parameter) {
  static_assert(Cache::quantization_granularity == 8);
  EXPECT_EQ(view_of(paged<Collection>().key()).scales.granularity, 8);
}
TEST(PagedKVCache_scale_dtype, is_the_parameter) {
  static_assert(Cache::scale_dtype == DType::f16);
  EXPECT_EQ(view_of(paged<Collection>().key()).scales.dtype, Cache::scale_dtype);
}
TEST(PagedKVCache_scales_tt_layout, has_scales_in_place_of_elements) {
  static_assert(Cache::scales_tt_layout::num_run_time_values == 2);
  EXPECT_EQ(Cache::scales_tt_layout(5, 144)(2, 3, 1, 2), 2 * 144 + 3 * 6 + 3 + 2);
}
TEST(PagedKVCache_scales_tt_type, views_scales) {
  static_assert(std::is_same_v<Cache::scales_tt_type, TensorView<f16, Cache::scales_tt_layout>>);
  EXPECT_EQ(paged<Collection>().key().scales.stride(0), 2 * 3 * 4 * 6);
}
TEST(PagedKVCache_init, takes_the_seeds_arguments_in_their_order) {
  static_assert(std::is_constructible_v<Cache, Cache::blocks_tt_type, Cache::cache_lengths_tt_type,
                                        Cache::lookup_table_tt_type, uint32_t, uint32_t,
                                        Cache::scales_tt_type> ||
                std::is_aggregate_v<Cache>);
  const Cache from = paged<Collection>().key(2);
  const Cache cache{from.blocks, from.cache_lengths, from.lookup_table, 3, 12, from.scales};
  EXPECT_EQ(cache.max_context_length(), 12u);
  EXPECT_EQ(cache.scales_raw_ptr(), from.scales_raw_ptr());
  const Cache without{from.blocks, from.cache_lengths, from.lookup_table, 3, 12};
  EXPECT_EQ(without.scales_raw_ptr(), nullptr);
}
TEST(PagedKVCache_get_type_name, names_the_template) {
  static_assert(std::string_view(Cache::get_type_name()) == "PagedKVCache");
  EXPECT_STREQ(paged<Collection>().key().get_type_name(), "PagedKVCache");
}
TEST(PagedKVCache_max_tile_size, is_the_page) {
  static_assert(Cache::max_tile_size() == 4);
  EXPECT_EQ(paged<Collection>().key().max_tile_size(), 4);
}
TEST(PagedKVCache_cache_lengths_nd, is_the_field) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().cache_lengths_nd()),
                               Cache::cache_lengths_tt_type>);
  const auto& cache = paged<Collection>();
  EXPECT_EQ(cache.key().cache_lengths_nd().data, cache.lengths());
}
TEST(PagedKVCache_cache_length, reads_the_lengths) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().cache_length(0)), int64_t>);
  EXPECT_EQ(paged<Collection>().key().cache_length(0), 7);
}
TEST(PagedKVCache_get_tma_row, goes_from_slots_to_rows) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().get_tma_row(0)), int64_t>);
  const auto cache = paged<Collection>().key();
  EXPECT_EQ(cache.get_tma_row(4 * 4 + 2), 4 * 24 + 2);
  EXPECT_EQ(cache.get_tma_row(-3), -3);
  EXPECT_EQ(cache.get_tma_row(5 * 4), -1);
}
TEST(PagedKVCache_num_kv_rows, spans_all_pages_of_the_plane) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().num_kv_rows()), int64_t>);
  EXPECT_EQ(paged<Collection>().value(2).num_kv_rows(), 4 * 24 + 4);
}
TEST(PagedKVCache_row_idx, is_out_of_bounds_for_an_unassigned_page) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().row_idx(0u, 0u)), int64_t>);
  const auto cache = paged<Collection>().key();
  EXPECT_EQ(cache.row_idx(1, 6), 3 * 24 + 2);
  EXPECT_EQ(cache.row_idx(1, 9), cache.num_kv_rows());
}
TEST(PagedKVCache_populate, resolves_a_tile_and_counts_its_leading_pages) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().populate<16, 8, true, false>(0u, 0u)),
                               PagedRowIndices<16, 4, true, false>>);
  const auto rows = paged<Collection>().key().populate<16, 8>(1, 0);
  EXPECT_EQ(rows.rows[0], 0u);
  EXPECT_EQ(rows.rows[1], 3u * 24u);
  EXPECT_EQ(rows.rows[2], 4u * 24u + 4u);
  EXPECT_EQ(rows.valid_pages, 2);
}
TEST(PagedKVCache_load, multiplies_each_element_by_its_own_scale) {
  static_assert(!LoadsStorageType<Cache> && LoadsStorageType<Plain>);
  const auto cache = paged<Collection>().key(1);
  cache.store(0, 1, 5, 6, counted<4>(1));
  cache.store_scale(0, 1, 5, 6, Vec<f16, 2>{{half(0.5f), half(10.0f)}});
  EXPECT_EQ((cache.load<4, DType::f32>(0, 1, 5, 6)), (Vec<float, 4>{{0.5f, 1.0f, 30.0f, 40.0f}}));
}
TEST(PagedKVCache_store, skips_an_unassigned_page) {
  static_assert(Stores<Cache, Vec<int8_t, 16>> && !Stores<Cache, Vec<bf16, 16>>);
  const auto& cache = paged<Collection>();
  cache.key().store(1, 0, 8, 0, counted<4>(1));
  EXPECT_EQ(std::count(cache.elements(), cache.elements() + cache.blocks.bytes(), int8_t{-1}),
            cache.blocks.bytes());
}
TEST(PagedKVCache_load_scale, begins_at_the_element_s_granule) {
  static_assert(
      std::is_same_v<decltype(std::declval<Cache>().load_scale<1>(0, 0, 0, 0)), Vec<f16, 1>>);
  const auto cache = paged<Collection>().key();
  cache.store_scale(0, 0, 2, 0, Vec<f16, 3>{{half(1.0f), half(2.0f), half(3.0f)}});
  EXPECT_EQ((cache.load_scale<1>(0, 0, 2, 15)[0]), half(2.0f));
}
TEST(PagedKVCache_store_scale, skips_an_unassigned_page) {
  static_assert(StoresScales<Cache> && !StoresScales<Plain>);
  const auto& cache = paged<Collection>();
  cache.key().store_scale(1, 0, 8, 0, Vec<f16, 1>{{half(1.0f)}});
  EXPECT_EQ(std::count(cache.scales.as<f16>(), cache.scales.as<f16>() + cache.scales.bytes() / 2,
                       half(1.0f)),
            0);
}
TEST(PagedKVCache_load_quantized, leaves_scales_aside) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().load_quantized<2>(0, 0, 0, 0)),
                               Vec<int8_t, 2>>);
  const auto cache = paged<Collection>().key();
  cache.store(0, 0, 2, 7, counted<2>(-3));
  EXPECT_EQ((cache.load_quantized<2>(0, 0, 2, 7)), counted<2>(-3));
}
TEST(PagedKVCache_empty_cache, looks_at_every_length) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().empty_cache()), bool>);
  const auto& cache = paged<Collection>();
  cache.lengths()[0] = 0;
  EXPECT_TRUE(cache.key().empty_cache());
  cache.lengths()[1] = 1;
  EXPECT_FALSE(cache.key().empty_cache());
}
TEST(PagedKVCache_max_prompt_length, is_the_field) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().max_prompt_length()), uint32_t>);
  EXPECT_EQ(paged<Collection>().key().max_prompt_length(), 3u);
}
TEST(PagedKVCache_max_context_length, is_the_field) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().max_context_length()), uint32_t>);
  EXPECT_EQ(paged<Collection>().key().max_context_length(), 12u);
}
TEST(PagedKVCache_block_paged_ptr, points_into_the_page_or_nowhere) {
  static_assert(HasTilesOf<Cache, 4> && !HasTilesOf<Cache, 8>);
  const auto& cache = paged<Collection>();
  EXPECT_EQ(cache.key().block_paged_ptr<4>(0, 4, 1, 3), cache.elements() + 1 * 960 + 20 + 3);
  EXPECT_EQ(cache.key().block_paged_ptr<4>(1, 8, 0), nullptr);
}
TEST(PagedKVCache_scales_block_paged_ptr, points_at_the_element_s_scale_or_nowhere) {
  static_assert(
      std::is_same_v<decltype(std::declval<Cache>().scales_block_paged_ptr(0, 0, 0, 0)), f16*>);
  const auto& cache = paged<Collection>();
  EXPECT_EQ(cache.key().scales_block_paged_ptr(0, 4, 1, 17),
            cache.scales.as<f16>() + 1 * 144 + 3 + 2);
  EXPECT_EQ(cache.key().scales_block_paged_ptr(1, 8, 0), nullptr);
}
TEST(PagedKVCache_scales_raw_ptr, is_the_plane_s_first_scale) {
  static_assert(
      std::is_same_v<decltype(std::declval<Plain>().scales_raw_ptr()), detail::no_element*>);
  const auto& cache = paged<Collection>();
  EXPECT_EQ(cache.key().scales_raw_ptr(), cache.scales.as<f16>());
  EXPECT_EQ(paged<PlainCollection>().key().scales_raw_ptr(), nullptr);
}

}  // namespace
}  // namespace folio::test
