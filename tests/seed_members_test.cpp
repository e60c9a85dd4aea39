// SPDX-License-Identifier: Apache-2.0
/// tests/seed_members_test.cpp: one compile-time line and one behaviour for every heading of the seed documents' pages.
///
/// The suite Type_member tests the heading Type.member; tests/lint/seed_headings.py compares the suites with the headings. Members
/// of the trait KVCacheT are tested on a paged, a quantised and a continuous cache, those of a struct on itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

#include "folio/attention/operand.h"
#include "folio/cache/static_view.h"
#include "support/seed_caches.h"

namespace folio::test {
namespace {

// ---- KVCacheT

TEST(KVCacheT, is_modelled_by_every_cache_and_by_nothing_else) {
  static_assert(KVCacheT<Cache> && KVCacheT<Plain> && KVCacheT<Continuous>);
  static_assert(!KVCacheT<int> && !KVCacheT<Collection> && !KVCacheT<PagedKVView>);
  each_kind([](const auto& cache) { EXPECT_TRUE(KVCacheT<std::decay_t<decltype(cache)>>); });
}
TEST(KVCacheT_device_type, is_the_type_itself) {
  static_assert(std::is_same_v<Cache::device_type, Cache> && std::is_same_v<Continuous::device_type, Continuous>);
  each_kind([](const auto& cache) { EXPECT_EQ(sizeof(typename std::decay_t<decltype(cache)>::device_type), sizeof cache); });
}
TEST(KVCacheT_dtype, is_the_type_of_stored_elements) {
  static_assert(Cache::dtype == DType::i8 && Plain::dtype == DType::bf16 && Continuous::dtype == DType::bf16);
  each_kind([](const auto& cache) { EXPECT_EQ(sizeof(*cache.blocks.data) * 8, static_cast<size_t>(bit_width(cache.dtype))); });
}
TEST(KVCacheT_kv_params, give_the_heads_of_a_row) {
  static_assert(Cache::kv_params == params && Continuous::kv_params == params);
  each_kind([](const auto& cache) { EXPECT_EQ(cache.blocks.stride(1), cache.kv_params.num_heads * cache.kv_params.head_size); });
}
TEST(KVCacheT_page_size, is_zero_where_nothing_is_paged) {
  static_assert(Cache::page_size_ == 4 && Continuous::page_size_ == 0);
  each_kind([](const auto& cache) {
    EXPECT_EQ(cache.row_idx(0, 4) - cache.row_idx(0, 3) == 1, cache.page_size_ == 0) << "a page ends after token 3";
  });
}
TEST(KVCacheT_quantization_enabled, says_whether_there_are_scales) {
  static_assert(Cache::quantization_enabled && !Plain::quantization_enabled && !Continuous::quantization_enabled);
  each_kind([](const auto& cache) { EXPECT_EQ(cache.quantization_enabled, cache.scales_raw_ptr() != nullptr); });
}
TEST(KVCacheT_quantization_granularity, is_one_without_scales) {
  static_assert(Cache::quantization_granularity == 8 && Plain::quantization_granularity == 1);
  each_kind([](const auto& cache) { EXPECT_EQ(cache.quantization_granularity, cache.quantization_enabled ? 8 : 1); });
}
TEST(KVCacheT_scale_dtype, is_invalid_without_scales) {
  static_assert(Cache::scale_dtype == DType::f16 && Plain::scale_dtype == DType::invalid);
  each_kind([](const auto& cache) { EXPECT_EQ(cache.scale_dtype == DType::invalid, !cache.quantization_enabled); });
}
TEST(KVCacheT_init, copies_and_moves_are_bitwise) {
  static_assert(std::is_trivially_copyable_v<Cache> && std::is_trivially_move_constructible_v<Continuous>);
  each_kind([](const auto& cache) {
    auto copied = cache;
    const auto moved = std::move(copied);
    EXPECT_EQ(moved.blocks.data, cache.blocks.data);
    EXPECT_EQ(moved.num_kv_rows(), cache.num_kv_rows());
  });
}
TEST(KVCacheT_cache_lengths_nd, is_the_one_dimensional_tensor_of_lengths) {
  static_assert(decltype(std::declval<Cache>().cache_lengths_nd())::rank == 1);
  each_kind([](const auto& cache) {
    EXPECT_EQ(cache.cache_lengths_nd().extent(0), 2);
    EXPECT_EQ(cache.cache_lengths_nd()(0), 7u);
  });
}
TEST(KVCacheT_cache_length, is_that_of_the_sequence) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().cache_length(0)), int64_t>);
  each_kind([](const auto& cache) { EXPECT_EQ(cache.cache_length(0) * 10 + cache.cache_length(1), 70); });
}
TEST(KVCacheT_load, reads_what_was_stored) {
  static_assert(std::is_same_v<decltype(std::declval<Plain>().load<4>(0, 0, 0, 0)), Vec<bf16, 4>>);
  static_assert(std::is_same_v<decltype(std::declval<Cache>().load<4, DType::f32>(0, 0, 0, 0)), Vec<float, 4>>);
  const auto& single = continuous();
  const auto& plain = paged<PlainCollection>();
  single.key(1).store(1, 1, 6, 4, cast<bf16>(counted<4>(3)));
  plain.key(1).store(1, 1, 6, 4, cast<bf16>(counted<4>(3)));
  EXPECT_EQ((single.key(1).load<4, DType::i8>(1, 1, 6, 4)), counted<4>(3));
  EXPECT_EQ((plain.key(1).load<4, DType::i8>(1, 1, 6, 4)), counted<4>(3));
}
TEST(KVCacheT_store, writes_one_place_only) {
  static_assert(requires(const Plain c) { c.store(0, 0, 0, 0, Vec<bf16, 8>{}); });
  const auto& cache = paged<PlainCollection>();
  cache.key(1).store(0, 0, 5, 0, Vec<bf16, 20>{});
  EXPECT_EQ(std::count(cache.elements(), cache.elements() + cache.blocks.bytes() / 2, bf16{}), 20);
}
TEST(KVCacheT_store_scale, belongs_to_quantised_caches) {
  static_assert(StoresScales<Cache>);
  static_assert(!StoresScales<Plain>);
  const auto& cache = paged<Collection>();
  cache.key(1).store_scale(0, 1, 5, 8, Vec<f16, 1>{{half(2.0f)}});
  EXPECT_EQ(std::count(cache.scales.as<f16>(), cache.scales.as<f16>() + cache.scales.bytes() / 2, half(2.0f)), 1);
}
TEST(KVCacheT_load_scale, belongs_to_quantised_caches) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().load_scale<3>(0, 0, 0, 0)), Vec<f16, 3>>);
  static_assert(LoadsScales<Cache> && !LoadsScales<Plain> && !LoadsScales<Continuous>);
  const auto& cache = paged<Collection>();
  cache.key(1).store_scale(0, 1, 5, 0, Vec<f16, 3>{{half(1.0f), half(2.0f), half(3.0f)}});
  EXPECT_EQ((cache.key(1).load_scale<2>(0, 1, 5, 8)), (Vec<f16, 2>{{half(2.0f), half(3.0f)}}));
}
TEST(KVCacheT_load_quantized, belongs_to_quantised_caches) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().load_quantized<4>(0, 0, 0, 0)), Vec<int8_t, 4>>);
  static_assert(LoadsQuantised<Cache> && !LoadsQuantised<Plain>);
  const auto& cache = paged<Collection>();  // its scales are NaN still
  cache.key(1).store(0, 1, 5, 2, counted<4>(9));
  EXPECT_EQ((cache.key(1).load_quantized<4>(0, 1, 5, 2)), counted<4>(9));
}
TEST(KVCacheT_empty_cache, is_true_when_every_length_is_zero) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().empty_cache()), bool>);
  each_kind([](const auto& cache) {
    EXPECT_FALSE(cache.empty_cache());
    const uint32_t zeros[2] = {0, 0};  // max_context_length is 12 all the same
    auto fresh = cache;
    fresh.cache_lengths.data = zeros;
    EXPECT_TRUE(fresh.empty_cache());
  });
}
TEST(KVCacheT_max_prompt_length, is_what_the_tables_say) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().max_prompt_length()), uint32_t>);
  each_kind([](const auto& cache) { EXPECT_EQ(cache.max_prompt_length(), 3u); });
}
TEST(KVCacheT_max_context_length, is_what_the_tables_say) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().max_context_length()), uint32_t>);
  each_kind([](const auto& cache) { EXPECT_EQ(cache.max_context_length(), 12u); });
}
TEST(KVCacheT_block_paged_ptr, gives_rows_that_lie_one_row_apart) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().block_paged_ptr<4>(0, 0, 0)), int8_t*>);
  each_kind([](const auto& cache) {
    const auto* tile = cache.template block_paged_ptr<2>(0, 2, 1, 3);
    EXPECT_EQ(tile + cache.row_size, (cache.template block_paged_ptr<1>(0, 3, 1, 3)));
  });
}
TEST(KVCacheT_scales_block_paged_ptr, is_null_without_scales) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().scales_block_paged_ptr(0, 0, 0)), f16*>);
  each_kind([](const auto& cache) { EXPECT_EQ(cache.scales_block_paged_ptr(0, 5, 1) != nullptr, cache.quantization_enabled); });
}
TEST(KVCacheT_scales_raw_ptr, is_null_without_scales) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().scales_raw_ptr()), f16*>);
  each_kind([](const auto& cache) { EXPECT_EQ(cache.scales_raw_ptr() != nullptr, cache.quantization_enabled); });
}
TEST(KVCacheT_max_tile_size, is_the_page_or_unlimited) {
  static_assert(Cache::max_tile_size() == 4 && Continuous::max_tile_size() == -1);
  each_kind([](const auto& cache) { EXPECT_EQ(cache.max_tile_size() > 0, cache.page_size_ > 0); });
}
TEST(KVCacheT_num_kv_rows, is_one_past_the_last_row) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().num_kv_rows()), int64_t>);
  each_kind([](const auto& cache) {
    const int64_t last_page = cache.blocks.extent(0) - 1, last_slot = cache.blocks.extent(1) - 1;
    EXPECT_EQ(cache.blocks.pointer(last_page, last_slot, 0, 0), cache.blocks.data + (cache.num_kv_rows() - 1) * cache.row_size);
  });
}
TEST(KVCacheT_row_idx, addresses_the_row_of_a_key) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().row_idx(0u, 0u)), int64_t>);
  each_kind([](const auto& cache) {
    for (uint32_t token = 0; token < 8; ++token) {
      EXPECT_EQ(cache.blocks.data + cache.row_idx(1, token) * cache.row_size, (cache.template block_paged_ptr<1>(1, token, 0)));
    }
  });
}
TEST(KVCacheT_get_tma_row, is_the_identity_where_nothing_is_paged) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().get_tma_row(0)), int64_t>);
  each_kind([](const auto& cache) { EXPECT_EQ(cache.get_tma_row(4 * 2 + 3), cache.page_size_ > 0 ? 24 * 2 + 3 : 11); });
}
TEST(KVCacheT_get_type_name, names_the_template) {
  static_assert(std::string_view(Continuous::get_type_name()) == "ContinuousKVCache");
  EXPECT_STREQ(Plain::get_type_name(), "PagedKVCache");
}
TEST(KVCacheT_copy, is_an_equal_value) {
  static_assert(std::is_same_v<decltype(std::declval<Continuous>().copy()), Continuous>);
  each_kind([](const auto& cache) {
    EXPECT_EQ(cache.copy().template block_paged_ptr<1>(0, 5, 1), cache.template block_paged_ptr<1>(0, 5, 1));
  });
}

// ---- PagedKVCache

TEST(PagedKVCache, is_a_plain_value_for_host_and_device) {
  static_assert(std::is_trivially_copyable_v<Cache> && std::is_standard_layout_v<Cache> && std::is_aggregate_v<Cache>);
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
  static_assert(std::is_same_v<PagedKVCache<DType::i8, params, 4, DType::f8_e8m0, 8>::scale_type, f8_e8m0>);
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
  static_assert(std::is_same_v<Cache::cache_lengths_tt_type, TensorView<const uint32_t, Cache::cache_lengths_tt_layout>>);
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
  static_assert(std::is_same_v<Cache::lookup_table_tt_type, TensorView<const uint32_t, Cache::lookup_table_tt_layout>>);
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
  static_assert(std::is_constructible_v<Cache, Cache::blocks_tt_type, Cache::cache_lengths_tt_type, Cache::lookup_table_tt_type,
                                        uint32_t, uint32_t, Cache::scales_tt_type> ||
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
  static_assert(std::is_same_v<decltype(std::declval<Cache>().cache_lengths_nd()), Cache::cache_lengths_tt_type>);
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
  static_assert(
      std::is_same_v<decltype(std::declval<Cache>().populate<16, 8, true, false>(0u, 0u)), PagedRowIndices<16, 4, true, false>>);
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
  static_assert(requires(const Cache c) { c.store(0, 0, 0, 0, Vec<int8_t, 16>{}); });
  const auto& cache = paged<Collection>();
  cache.key().store(1, 0, 8, 0, counted<4>(1));
  EXPECT_EQ(std::count(cache.elements(), cache.elements() + cache.blocks.bytes(), int8_t{-1}), cache.blocks.bytes());
}
TEST(PagedKVCache_load_scale, begins_at_the_element_s_granule) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().load_scale<1>(0, 0, 0, 0)), Vec<f16, 1>>);
  const auto cache = paged<Collection>().key();
  cache.store_scale(0, 0, 2, 0, Vec<f16, 3>{{half(1.0f), half(2.0f), half(3.0f)}});
  EXPECT_EQ((cache.load_scale<1>(0, 0, 2, 15)[0]), half(2.0f));
}
TEST(PagedKVCache_store_scale, skips_an_unassigned_page) {
  static_assert(requires(const Cache c) { c.store_scale(0, 0, 0, 0, Vec<f16, 3>{}); });
  const auto& cache = paged<Collection>();
  cache.key().store_scale(1, 0, 8, 0, Vec<f16, 1>{{half(1.0f)}});
  EXPECT_EQ(std::count(cache.scales.as<f16>(), cache.scales.as<f16>() + cache.scales.bytes() / 2, half(1.0f)), 0);
}
TEST(PagedKVCache_load_quantized, leaves_scales_aside) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().load_quantized<2>(0, 0, 0, 0)), Vec<int8_t, 2>>);
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
  static_assert(std::is_same_v<decltype(std::declval<Cache>().scales_block_paged_ptr(0, 0, 0, 0)), f16*>);
  const auto& cache = paged<Collection>();
  EXPECT_EQ(cache.key().scales_block_paged_ptr(0, 4, 1, 17), cache.scales.as<f16>() + 1 * 144 + 3 + 2);
  EXPECT_EQ(cache.key().scales_block_paged_ptr(1, 8, 0), nullptr);
}
TEST(PagedKVCache_scales_raw_ptr, is_the_plane_s_first_scale) {
  static_assert(std::is_same_v<decltype(std::declval<Plain>().scales_raw_ptr()), no_element*>);
  const auto& cache = paged<Collection>();
  EXPECT_EQ(cache.key().scales_raw_ptr(), cache.scales.as<f16>());
  EXPECT_EQ(paged<PlainCollection>().key().scales_raw_ptr(), nullptr);
}

// ---- PagedKVCacheCollection

TEST(PagedKVCacheCollection, is_a_plain_value) {
  static_assert(KVCollectionT<Collection> && KVCollectionT<LatentCollection> && std::is_trivially_copyable_v<Collection>);
  const auto& cache = paged<Collection>();
  const Collection copied = cache.collection;
  EXPECT_EQ(copied.get_key_cache(1).blocks.data, cache.key(1).blocks.data);
}
TEST(PagedKVCacheCollection_dtype_parameter, is_that_of_its_caches) {
  static_assert(Collection::CacheType::dtype == DType::i8);
  EXPECT_EQ(view_of(paged<Collection>().key()).dtype, DType::i8);
}
TEST(PagedKVCacheCollection_kv_params_parameter, are_those_of_its_caches) {
  static_assert(LatentCollection::CacheType::kv_params == latent);
  EXPECT_EQ(view_of(paged<LatentCollection>().key()).head_size, 24);
}
TEST(PagedKVCacheCollection_page_size_parameter, is_that_of_its_caches) {
  static_assert(Collection::CacheType::page_size_ == 4);
  EXPECT_EQ(paged<Collection>().collection.blocks.extent(3), 4);
}
TEST(PagedKVCacheCollection_scale_dtype_parameter, is_that_of_its_caches) {
  static_assert(Collection::CacheType::scale_dtype == DType::f16);
  EXPECT_EQ(view_of(paged<Collection>().value()).scales.dtype, DType::f16);
}
TEST(PagedKVCacheCollection_quantization_granularity_parameter, is_that_of_its_caches) {
  static_assert(Collection::CacheType::quantization_granularity == 8);
  EXPECT_EQ(view_of(paged<Collection>().value()).scales.granularity, 8);
}
TEST(PagedKVCacheCollection_scales, are_the_whole_storage) {
  static_assert(std::is_same_v<decltype(Collection::scales), Collection::scales_tt_type>);
  const auto& cache = paged<Collection>();
  EXPECT_EQ(cache.collection.scales.data, cache.scales.as<f16>());
  EXPECT_EQ(cache.collection.scales.size() * 2, cache.scales.bytes());
  EXPECT_EQ(paged<PlainCollection>().collection.scales.data, nullptr);
}
TEST(PagedKVCacheCollection_kv_cache_scales_dynamic_shape, is_a_plane_s_or_zero) {
  static_assert(std::extent_v<decltype(Collection::kv_cache_scales_dynamic_shape)> == 4);
  const auto quantised = paged<Collection>().collection;
  const int64_t expected[4] = {5, 4, 2, 3};
  EXPECT_TRUE(std::equal(expected, expected + 4, quantised.kv_cache_scales_dynamic_shape));
  EXPECT_EQ(paged<PlainCollection>().collection.kv_cache_scales_dynamic_shape[0], 0);
}
TEST(PagedKVCacheCollection_kv_cache_scales_dynamic_strides, are_a_plane_s_or_zero) {
  static_assert(std::extent_v<decltype(Collection::kv_cache_scales_dynamic_strides)> == 4);
  const auto quantised = paged<Collection>().collection;
  const int64_t expected[4] = {144, 6, 3, 1};
  EXPECT_TRUE(std::equal(expected, expected + 4, quantised.kv_cache_scales_dynamic_strides));
  EXPECT_EQ(paged<PlainCollection>().collection.kv_cache_scales_dynamic_strides[0], 0);
}
TEST(PagedKVCacheCollection_blocks, are_the_whole_storage) {
  static_assert(std::is_same_v<decltype(Collection::blocks), Collection::blocks_tt_type>);
  const auto& cache = paged<Collection>();
  EXPECT_EQ(cache.collection.blocks.data, cache.elements());
  EXPECT_EQ(cache.collection.blocks.size(), cache.blocks.bytes());
}
TEST(PagedKVCacheCollection_cache_lengths, are_shared_by_all_layers) {
  static_assert(std::is_same_v<decltype(Collection::cache_lengths), Cache::cache_lengths_tt_type>);
  const auto& cache = paged<Collection>();
  EXPECT_EQ(cache.collection.cache_lengths.data, cache.lengths());
  EXPECT_EQ(cache.value(2).cache_lengths.data, cache.lengths());
}
TEST(PagedKVCacheCollection_lookup_table, is_shared_by_all_layers) {
  static_assert(std::is_same_v<decltype(Collection::lookup_table), Cache::lookup_table_tt_type>);
  const auto& cache = paged<Collection>();
  EXPECT_EQ(cache.collection.lookup_table.data, cache.table());
  EXPECT_EQ(cache.value(2).lookup_table.data, cache.table());
}
TEST(PagedKVCacheCollection_max_seq_length, reaches_the_caches) {
  static_assert(std::is_same_v<decltype(Collection::max_seq_length), uint32_t>);
  const auto& cache = paged<Collection>();
  EXPECT_EQ(cache.collection.max_seq_length, 3u);
  EXPECT_EQ(cache.value(2).max_prompt_length(), 3u);
}
TEST(PagedKVCacheCollection_max_cache_length, reaches_the_caches) {
  static_assert(std::is_same_v<decltype(Collection::max_cache_length), uint32_t>);
  const auto& cache = paged<Collection>();
  EXPECT_EQ(cache.collection.max_cache_length, 12u);
  EXPECT_EQ(cache.value(2).max_context_length(), 12u);
}
TEST(PagedKVCacheCollection_kv_cache_dynamic_shape, is_a_plane_s) {
  static_assert(std::extent_v<decltype(Collection::kv_cache_dynamic_shape)> == 4);
  const int64_t expected[4] = {5, 4, 2, 20};
  EXPECT_TRUE(std::equal(expected, expected + 4, paged<Collection>().collection.kv_cache_dynamic_shape));
}
TEST(PagedKVCacheCollection_kv_cache_dynamic_strides, are_a_plane_s) {
  static_assert(std::extent_v<decltype(Collection::kv_cache_dynamic_strides)> == 4);
  const int64_t expected[4] = {960, 40, 20, 1};
  EXPECT_TRUE(std::equal(expected, expected + 4, paged<Collection>().collection.kv_cache_dynamic_strides));
}
TEST(PagedKVCacheCollection_blocks_layout, is_row_major) {
  static_assert(std::is_same_v<Collection::blocks_layout, Layout<Collection::blocks_shape>>);
  EXPECT_EQ(row_major<Collection::blocks_shape>(5, 3)(1, 1, 2, 3, 1, 7), 960 + 480 + 2 * 160 + 3 * 40 + 20 + 7);
}
TEST(PagedKVCacheCollection_blocks_shape, has_one_plane_for_latent_caches) {
  static_assert(std::is_same_v<Collection::blocks_shape, IntTuple<-1, 2, -1, 4, 2, 20>>);
  static_assert(std::is_same_v<LatentCollection::blocks_shape, IntTuple<-1, 1, -1, 4, 1, 24>>);
  EXPECT_EQ(paged<LatentCollection>().collection.blocks.extent(1), 1);
}
TEST(PagedKVCacheCollection_blocks_tt_layout, is_that_of_the_field) {
  static_assert(std::is_same_v<Collection::blocks_tt_layout, Collection::blocks_layout>);
  EXPECT_EQ(paged<Collection>().collection.blocks.layout(0, 1, 0, 0, 0, 0), 480);
}
TEST(PagedKVCacheCollection_blocks_tt_type, views_stored_elements) {
  static_assert(std::is_same_v<Collection::blocks_tt_type, TensorView<int8_t, Collection::blocks_tt_layout>>);
  const auto& cache = paged<Collection>();
  EXPECT_EQ(cache.collection.blocks.pointer(0, 1, 2, 0, 0, 0), cache.value(2).blocks.data);
}
TEST(PagedKVCacheCollection_CacheType, is_the_type_of_both_planes) {
  static_assert(std::is_same_v<Collection::CacheType, PagedKVCache<DType::i8, params, 4, DType::f16, 8>>);
  const auto& cache = paged<Collection>();
  const Collection::CacheType key = cache.collection.get_key_cache(0), value = cache.collection.get_value_cache(0);
  EXPECT_EQ(value.blocks.data - key.blocks.data, 480);
}
TEST(PagedKVCacheCollection_dtype, is_the_parameter) {
  static_assert(Collection::dtype == DType::i8);
  EXPECT_EQ(paged<Collection>().key().dtype, Collection::dtype);
}
TEST(PagedKVCacheCollection_head_dim_granularity, is_that_of_its_caches) {
  static_assert(Collection::head_dim_granularity == 3);
  EXPECT_EQ(paged<Collection>().collection.scales.extent(5), 3);
}
TEST(PagedKVCacheCollection_kv_params, are_the_parameter) {
  static_assert(Collection::kv_params == params);
  EXPECT_EQ(paged<Collection>().collection.blocks.extent(4), Collection::kv_params.num_heads);
}
TEST(PagedKVCacheCollection_name_str, tells_the_kinds_apart) {
  static_assert(Collection::name_str == "paged");
  EXPECT_EQ(ContinuousCollection::name_str, "continuous_batching");
}
TEST(PagedKVCacheCollection_scale_dtype, is_the_parameter) {
  static_assert(Collection::scale_dtype == DType::f16);
  EXPECT_EQ(paged<Collection>().key().scale_dtype, Collection::scale_dtype);
}
TEST(PagedKVCacheCollection_scales_layout, is_row_major) {
  static_assert(std::is_same_v<Collection::scales_layout, Layout<Collection::scales_shape>>);
  EXPECT_EQ(row_major<Collection::scales_shape>(5, 3)(1, 1, 2, 3, 1, 2), 144 + 72 + 2 * 24 + 3 * 6 + 3 + 2);
}
TEST(PagedKVCacheCollection_scales_shape, has_granules_in_place_of_elements) {
  static_assert(std::is_same_v<Collection::scales_shape, IntTuple<-1, 2, -1, 4, 2, 3>>);
  EXPECT_EQ(paged<Collection>().collection.scales.extent(2), 3);
}
TEST(PagedKVCacheCollection_scales_tt_layout, is_that_of_the_field) {
  static_assert(std::is_same_v<Collection::scales_tt_layout, Collection::scales_layout>);
  EXPECT_EQ(paged<Collection>().collection.scales.layout(0, 1, 0, 0, 0, 0), 72);
}
TEST(PagedKVCacheCollection_scales_tt_type, views_scales) {
  static_assert(std::is_same_v<Collection::scales_tt_type, TensorView<f16, Collection::scales_tt_layout>>);
  const auto& cache = paged<Collection>();
  EXPECT_EQ(cache.collection.scales.pointer(0, 1, 2, 0, 0, 0), cache.value(2).scales.data);
}
TEST(PagedKVCacheCollection_init, takes_the_seeds_arguments_in_their_order) {
  static_assert(std::is_constructible_v<Collection, Collection::blocks_tt_type, Cache::cache_lengths_tt_type,
                                        Cache::lookup_table_tt_type, uint32_t, uint32_t, Collection::scales_tt_type>);
  const auto& cache = paged<Collection>();
  const Collection& made = cache.collection;
  const Collection built(made.blocks, made.cache_lengths, made.lookup_table, 3, 12, made.scales);
  EXPECT_EQ(view_of(built.get_value_cache(2)), view_of(made.get_value_cache(2)));
  const Collection bare(made.blocks, made.cache_lengths, made.lookup_table, 3, 12);
  EXPECT_EQ(bare.get_key_cache(0).scales_raw_ptr(), nullptr);
}
TEST(PagedKVCacheCollection_get_key_cache, gives_the_layer_s_keys) {
  static_assert(std::is_same_v<decltype(std::declval<Collection>().get_key_cache(0)), Cache>);
  const auto& cache = paged<Collection>();
  EXPECT_EQ(cache.collection.get_key_cache(2).blocks.data, cache.elements() + 2 * 160);
  EXPECT_EQ(cache.collection.get_key_cache(2).scales.data, cache.scales.as<f16>() + 2 * 24);
}
TEST(PagedKVCacheCollection_get_value_cache, does_not_exist_for_latent_caches) {
  static_assert(HasValues<Collection> && !HasValues<LatentCollection>);
  const auto& cache = paged<Collection>();
  EXPECT_EQ(cache.collection.get_value_cache(2).blocks.data, cache.elements() + 480 + 2 * 160);
}
TEST(PagedKVCacheCollection_cache_length, reads_the_lengths) {
  static_assert(std::is_same_v<decltype(std::declval<Collection>().cache_length(0)), int64_t>);
  EXPECT_EQ(paged<Collection>().collection.cache_length(0), 7);
}

// ---- KVCacheScalesMHAOperand

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
  static_assert(std::is_same_v<decltype(std::declval<Operand>().block_paged_ptr<4>(0u, 0u, 0u)), const f16*>);
  static_assert(HasTilesOf<Operand, 4> && !HasTilesOf<Operand, 8>);
  const auto& cache = paged<Collection>();
  const Operand operand{cache.key(1)};
  EXPECT_EQ(operand.block_paged_ptr<2>(0, 6, 1, 9), cache.key(1).scales_block_paged_ptr(0, 6, 1, 9));
  EXPECT_EQ(operand.block_paged_ptr<2>(1, 8, 0), nullptr);
}
TEST(KVCacheScalesMHAOperand_scales_block_paged_ptr, is_null) {
  static_assert(std::is_same_v<decltype(std::declval<Operand>().scales_block_paged_ptr(0, 0, 0)), const no_element*>);
  EXPECT_EQ((Operand{paged<Collection>().key()}.scales_block_paged_ptr(0, 0, 0)), nullptr);
}
TEST(KVCacheScalesMHAOperand_load_scale, gives_values_without_content) {
  static_assert(std::is_same_v<decltype(std::declval<Operand>().load_scale<4>(0, 0, 0, 0)), Vec<no_element, 4>>);
  EXPECT_EQ((Operand{paged<Collection>().key()}.load_scale<4>(0, 0, 0, 0)), (Vec<no_element, 4>{}));
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
  EXPECT_EQ(cache.key(1).scales_raw_ptr() + operand.row_idx(1, 6) * 6, (operand.block_paged_ptr<1>(1, 6, 0)));
  EXPECT_EQ(operand.row_idx(1, 8), operand.num_kv_rows());
}
TEST(KVCacheScalesMHAOperand_get_tma_row, goes_from_slots_to_rows_of_scales) {
  static_assert(std::is_same_v<decltype(std::declval<Operand>().get_tma_row(0)), int64_t>);
  const Operand operand{paged<Collection>().key()};
  EXPECT_EQ(operand.get_tma_row(4 * 3 + 1), 24 * 3 + 1);
  EXPECT_EQ(operand.get_tma_row(-1), -1);
}
TEST(KVCacheScalesMHAOperand_scales_raw_ptr, is_null) {
  static_assert(std::is_same_v<decltype(std::declval<Operand>().scales_raw_ptr()), const no_element*>);
  EXPECT_EQ(Operand{paged<Collection>().key()}.scales_raw_ptr(), nullptr);
}

}  // namespace
}  // namespace folio::test
