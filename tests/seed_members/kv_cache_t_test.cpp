// SPDX-License-Identifier: Apache-2.0
/// tests/seed_members/kv_cache_t_test.cpp: one compile-time line and one behaviour for every
/// heading of the seed's KVCacheT.
///
/// The suite Type_member tests the heading Type.member; tests/lint/seed_headings.py compares the
/// suites with the headings. Members of the trait are tested on a paged, a quantised and a
/// continuous cache.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <type_traits>
#include <utility>

#include "folio/attention/operand.h"
#include "folio/cache/static_view.h"
#include "folio/core/element.h"
#include "support/seed_caches.h"

namespace folio::test {
namespace {

TEST(KVCacheT, is_modelled_by_every_cache_and_by_nothing_else) {
  static_assert(KVCacheT<Cache> && KVCacheT<Plain> && KVCacheT<Continuous>);
  static_assert(!KVCacheT<int> && !KVCacheT<Collection> && !KVCacheT<PagedKVView>);
  each_kind([](const auto& cache) { EXPECT_TRUE(KVCacheT<std::decay_t<decltype(cache)>>); });
}
TEST(KVCacheT_device_type, is_the_type_itself) {
  static_assert(std::is_same_v<Cache::device_type, Cache> &&
                std::is_same_v<Continuous::device_type, Continuous>);
  each_kind([](const auto& cache) {
    EXPECT_EQ(sizeof(typename std::decay_t<decltype(cache)>::device_type), sizeof cache);
  });
}
TEST(KVCacheT_dtype, is_the_type_of_stored_elements) {
  static_assert(Cache::dtype == DType::i8 && Plain::dtype == DType::bf16 &&
                Continuous::dtype == DType::bf16);
  each_kind([](const auto& cache) {
    EXPECT_EQ(sizeof(*cache.blocks.data) * 8, static_cast<size_t>(bit_width(cache.dtype)));
  });
}
TEST(KVCacheT_kv_params, give_the_heads_of_a_row) {
  static_assert(Cache::kv_params == params && Continuous::kv_params == params);
  each_kind([](const auto& cache) {
    EXPECT_EQ(cache.blocks.stride(1), cache.kv_params.num_heads * cache.kv_params.head_size);
  });
}
TEST(KVCacheT_page_size, is_zero_where_nothing_is_paged) {
  static_assert(Cache::page_size_ == 4 && Continuous::page_size_ == 0);
  each_kind([](const auto& cache) {
    EXPECT_EQ(cache.row_idx(0, 4) - cache.row_idx(0, 3) == 1, cache.page_size_ == 0)
        << "a page ends after token 3";
  });
}
TEST(KVCacheT_quantization_enabled, says_whether_there_are_scales) {
  static_assert(Cache::quantization_enabled && !Plain::quantization_enabled &&
                !Continuous::quantization_enabled);
  each_kind([](const auto& cache) {
    EXPECT_EQ(cache.quantization_enabled, cache.scales_raw_ptr() != nullptr);
  });
}
TEST(KVCacheT_quantization_granularity, is_one_without_scales) {
  static_assert(Cache::quantization_granularity == 8 && Plain::quantization_granularity == 1);
  each_kind([](const auto& cache) {
    EXPECT_EQ(cache.quantization_granularity, cache.quantization_enabled ? 8 : 1);
  });
}
TEST(KVCacheT_scale_dtype, is_invalid_without_scales) {
  static_assert(Cache::scale_dtype == DType::f16 && Plain::scale_dtype == DType::invalid);
  each_kind([](const auto& cache) {
    EXPECT_EQ(cache.scale_dtype == DType::invalid, !cache.quantization_enabled);
  });
}
TEST(KVCacheT_init, copies_and_moves_are_bitwise) {
  static_assert(std::is_trivially_copyable_v<Cache> &&
                std::is_trivially_move_constructible_v<Continuous>);
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
  each_kind(
      [](const auto& cache) { EXPECT_EQ(cache.cache_length(0) * 10 + cache.cache_length(1), 70); });
}
TEST(KVCacheT_load, reads_what_was_stored) {
  static_assert(std::is_same_v<decltype(std::declval<Plain>().load<4>(0, 0, 0, 0)), Vec<bf16, 4>>);
  static_assert(std::is_same_v<decltype(std::declval<Cache>().load<4, DType::f32>(0, 0, 0, 0)),
                               Vec<float, 4>>);
  const auto& single = continuous();
  const auto& plain = paged<PlainCollection>();
  single.key(1).store(1, 1, 6, 4, cast<bf16>(counted<4>(3)));
  plain.key(1).store(1, 1, 6, 4, cast<bf16>(counted<4>(3)));
  EXPECT_EQ((single.key(1).load<4, DType::i8>(1, 1, 6, 4)), counted<4>(3));
  EXPECT_EQ((plain.key(1).load<4, DType::i8>(1, 1, 6, 4)), counted<4>(3));
}
TEST(KVCacheT_store, writes_one_place_only) {
  static_assert(Stores<Plain, Vec<bf16, 8>> && !Stores<Plain, Vec<float, 8>>);
  const auto& cache = paged<PlainCollection>();
  cache.key(1).store(0, 0, 5, 0, Vec<bf16, 20>{});
  EXPECT_EQ(std::count(cache.elements(), cache.elements() + cache.blocks.bytes() / 2, bf16{}), 20);
}
TEST(KVCacheT_store_scale, belongs_to_quantised_caches) {
  static_assert(StoresScales<Cache>);
  static_assert(!StoresScales<Plain>);
  const auto& cache = paged<Collection>();
  cache.key(1).store_scale(0, 1, 5, 8, Vec<f16, 1>{{half(2.0f)}});
  EXPECT_EQ(std::count(cache.scales.as<f16>(), cache.scales.as<f16>() + cache.scales.bytes() / 2,
                       half(2.0f)),
            1);
}
TEST(KVCacheT_load_scale, belongs_to_quantised_caches) {
  static_assert(
      std::is_same_v<decltype(std::declval<Cache>().load_scale<3>(0, 0, 0, 0)), Vec<f16, 3>>);
  static_assert(LoadsScales<Cache> && !LoadsScales<Plain> && !LoadsScales<Continuous>);
  const auto& cache = paged<Collection>();
  cache.key(1).store_scale(0, 1, 5, 0, Vec<f16, 3>{{half(1.0f), half(2.0f), half(3.0f)}});
  EXPECT_EQ((cache.key(1).load_scale<2>(0, 1, 5, 8)), (Vec<f16, 2>{{half(2.0f), half(3.0f)}}));
}
TEST(KVCacheT_load_quantized, belongs_to_quantised_caches) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().load_quantized<4>(0, 0, 0, 0)),
                               Vec<int8_t, 4>>);
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
  static_assert(
      std::is_same_v<decltype(std::declval<Cache>().block_paged_ptr<4>(0, 0, 0)), int8_t*>);
  each_kind([](const auto& cache) {
    const auto* tile = cache.template block_paged_ptr<2>(0, 2, 1, 3);
    EXPECT_EQ(tile + cache.row_size, (cache.template block_paged_ptr<1>(0, 3, 1, 3)));
  });
}
TEST(KVCacheT_scales_block_paged_ptr, is_null_without_scales) {
  static_assert(
      std::is_same_v<decltype(std::declval<Cache>().scales_block_paged_ptr(0, 0, 0)), f16*>);
  each_kind([](const auto& cache) {
    EXPECT_EQ(cache.scales_block_paged_ptr(0, 5, 1) != nullptr, cache.quantization_enabled);
  });
}
TEST(KVCacheT_scales_raw_ptr, is_null_without_scales) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().scales_raw_ptr()), f16*>);
  each_kind([](const auto& cache) {
    EXPECT_EQ(cache.scales_raw_ptr() != nullptr, cache.quantization_enabled);
  });
}
TEST(KVCacheT_max_tile_size, is_the_page_or_unlimited) {
  static_assert(Cache::max_tile_size() == 4 && Continuous::max_tile_size() == -1);
  each_kind([](const auto& cache) { EXPECT_EQ(cache.max_tile_size() > 0, cache.page_size_ > 0); });
}
TEST(KVCacheT_num_kv_rows, is_one_past_the_last_row) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().num_kv_rows()), int64_t>);
  each_kind([](const auto& cache) {
    const int64_t last_page = cache.blocks.extent(0) - 1, last_slot = cache.blocks.extent(1) - 1;
    EXPECT_EQ(cache.blocks.pointer(last_page, last_slot, 0, 0),
              cache.blocks.data + (cache.num_kv_rows() - 1) * cache.row_size);
  });
}
TEST(KVCacheT_row_idx, addresses_the_row_of_a_key) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().row_idx(0u, 0u)), int64_t>);
  each_kind([](const auto& cache) {
    for (uint32_t token = 0; token < 8; ++token) {
      EXPECT_EQ(cache.blocks.data + cache.row_idx(1, token) * cache.row_size,
                (cache.template block_paged_ptr<1>(1, token, 0)));
    }
  });
}
TEST(KVCacheT_get_tma_row, is_the_identity_where_nothing_is_paged) {
  static_assert(std::is_same_v<decltype(std::declval<Cache>().get_tma_row(0)), int64_t>);
  each_kind([](const auto& cache) {
    EXPECT_EQ(cache.get_tma_row(4 * 2 + 3), cache.page_size_ > 0 ? 24 * 2 + 3 : 11);
  });
}
TEST(KVCacheT_get_type_name, names_the_template) {
  static_assert(std::string_view(Continuous::get_type_name()) == "ContinuousKVCache");
  EXPECT_STREQ(Plain::get_type_name(), "PagedKVCache");
}
TEST(KVCacheT_copy, is_an_equal_value) {
  static_assert(std::is_same_v<decltype(std::declval<Continuous>().copy()), Continuous>);
  each_kind([](const auto& cache) {
    EXPECT_EQ(cache.copy().template block_paged_ptr<1>(0, 5, 1),
              cache.template block_paged_ptr<1>(0, 5, 1));
  });
}

}  // namespace
}  // namespace folio::test
