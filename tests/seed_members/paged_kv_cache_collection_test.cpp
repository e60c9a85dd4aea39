// SPDX-License-Identifier: Apache-2.0
/// tests/seed_members/paged_kv_cache_collection_test.cpp: one compile-time line and one behaviour
/// for every heading of its page.
///
/// The suite Type_member tests the heading Type.member; tests/lint/seed_headings.py compares the
/// suites with the headings.
#include <gtest/gtest.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "folio/attention/operand.h"
#include "folio/cache/static_view.h"
#include "folio/core/element.h"
#include "support/seed_caches.h"

namespace folio::test {
namespace {

TEST(PagedKVCacheCollection, is_a_plain_value) {
  static_assert(KVCollectionT<Collection> && KVCollectionT<LatentCollection> &&
                std::is_trivially_copyable_v<Collection>);
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
  EXPECT_TRUE(
      std::equal(expected, expected + 4, paged<Collection>().collection.kv_cache_dynamic_shape));
}
TEST(PagedKVCacheCollection_kv_cache_dynamic_strides, are_a_plane_s) {
  static_assert(std::extent_v<decltype(Collection::kv_cache_dynamic_strides)> == 4);
  const int64_t expected[4] = {960, 40, 20, 1};
  EXPECT_TRUE(
      std::equal(expected, expected + 4, paged<Collection>().collection.kv_cache_dynamic_strides));
}
TEST(PagedKVCacheCollection_blocks_layout, is_row_major) {
  static_assert(std::is_same_v<Collection::blocks_layout, Layout<Collection::blocks_shape>>);
  EXPECT_EQ(row_major<Collection::blocks_shape>(5, 3)(1, 1, 2, 3, 1, 7),
            960 + 480 + 2 * 160 + 3 * 40 + 20 + 7);
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
  static_assert(
      std::is_same_v<Collection::blocks_tt_type, TensorView<int8_t, Collection::blocks_tt_layout>>);
  const auto& cache = paged<Collection>();
  EXPECT_EQ(cache.collection.blocks.pointer(0, 1, 2, 0, 0, 0), cache.value(2).blocks.data);
}
TEST(PagedKVCacheCollection_CacheType, is_the_type_of_both_planes) {
  static_assert(
      std::is_same_v<Collection::CacheType, PagedKVCache<DType::i8, params, 4, DType::f16, 8>>);
  const auto& cache = paged<Collection>();
  const Collection::CacheType key = cache.collection.get_key_cache(0),
                              value = cache.collection.get_value_cache(0);
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
  EXPECT_EQ(row_major<Collection::scales_shape>(5, 3)(1, 1, 2, 3, 1, 2),
            144 + 72 + 2 * 24 + 3 * 6 + 3 + 2);
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
  static_assert(
      std::is_same_v<Collection::scales_tt_type, TensorView<f16, Collection::scales_tt_layout>>);
  const auto& cache = paged<Collection>();
  EXPECT_EQ(cache.collection.scales.pointer(0, 1, 2, 0, 0, 0), cache.value(2).scales.data);
}
TEST(PagedKVCacheCollection_init, takes_the_seeds_arguments_in_their_order) {
  static_assert(std::is_constructible_v<Collection, Collection::blocks_tt_type,
                                        Cache::cache_lengths_tt_type, Cache::lookup_table_tt_type,
                                        uint32_t, uint32_t, Collection::scales_tt_type>);
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

}  // namespace
}  // namespace folio::test
