// SPDX-License-Identifier: Apache-2.0
/// tests/cache/paged_kv_cache_test.cpp: PagedKVCache: addresses, guards and scales.
#include "folio/cache/paged_kv_cache.h"
#include "folio/core/element.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "support/static_cache.h"

namespace folio::test {
namespace {

TEST(PagedKVCache, offsets_use_the_run_time_page_stride) {
  // blocks [4, 2, 3, 2, 2, 4] hold their flat index; a stride of page_size * row would read 22.
  using Collection = PagedKVCacheCollection<DType::f32, KVCacheStaticParams{2, 4}, 2>;
  StaticCache<Collection> cache({.num_pages = 4, .num_layers = 3, .max_cache_length = 8});
  std::iota(cache.elements(), cache.elements() + cache.blocks.bytes() / 4, 0.0f);
  cache.set_row(0, {0, 1, 2, 3});
  EXPECT_EQ(cache.key(1).blocks(1, 0, 1, 2), 118.0f);
  EXPECT_EQ((cache.key(1).load<1>(0, 1, 2, 2)[0]), 118.0f);
  EXPECT_EQ(*cache.key(1).block_paged_ptr<2>(0, 2, 1, 2), 118.0f);
  EXPECT_EQ((cache.value(1).load<1>(0, 1, 2, 2)[0]), 118.0f + 48.0f);
}

/// max-facts 13.3: S and row numbers of five geometries; only pointers are formed, so no memory is
/// needed.
template <int Pages, bool Mla, int Layers, int PageSize, int Heads, int HeadSize>
void expect_rows(int64_t s0, int64_t s1, int64_t s2, int64_t stride, int64_t rows,
                 int64_t row_of_page_3) {
  using Collection =
      PagedKVCacheCollection<DType::i8, KVCacheStaticParams{Heads, HeadSize, Mla}, PageSize>;
  const Collection collection(
      {nullptr, row_major<typename Collection::blocks_shape>(Pages, Layers)}, {}, {}, 0, 0);
  EXPECT_EQ(collection.blocks.stride(0), s0);
  EXPECT_EQ(collection.blocks.stride(1), s1);
  EXPECT_EQ(collection.blocks.stride(2), s2);
  const typename Collection::CacheType cache{
      {nullptr, typename Collection::CacheType::blocks_tt_layout(Pages, s0)}, {}, {}, 0, 0};
  EXPECT_EQ(cache.row_stride(), stride);
  EXPECT_EQ(cache.num_kv_rows(), rows);
  EXPECT_EQ(cache.get_tma_row(PageSize * 3 + 1), row_of_page_3);
}

TEST(PagedKVCache, rows_and_strides_of_known_geometries) {
  expect_rows<4, false, 3, 2, 2, 4>(96, 48, 16, 12, 38, 37);
  expect_rows<5, false, 1, 128, 1, 64>(16384, 8192, 8192, 256, 1152, 769);
  expect_rows<1000, false, 32, 128, 8, 128>(8388608, 4194304, 131072, 8192, 8183936, 24577);
  expect_rows<1000, true, 61, 128, 1, 576>(4497408, 4497408, 73728, 7808, 7800320, 23425);
  expect_rows<300, false, 62, 64, 16, 256>(32505856, 16252928, 262144, 7936, 2372928, 23809);
}

TEST(PagedKVCache, a_logical_key_has_the_row_of_its_slot_or_none) {
  // max-facts 13.6: page 4, table row [7, 2, unassigned], 9 pages: key -> slot, -1 = none.
  using Collection = PagedKVCacheCollection<DType::f32, KVCacheStaticParams{1, 8}, 4>;
  StaticCache<Collection> cache({.num_pages = 9, .num_layers = 2, .max_cache_length = 12});
  cache.set_row(0, {7, 2, 9});
  const auto key = cache.key();
  const std::vector<std::pair<uint32_t, int64_t>> slots = {{0, 28}, {3, 31}, {4, 8},
                                                           {7, 11}, {8, -1}, {11, -1}};
  for (const auto& [token, slot] : slots) {
    EXPECT_EQ(key.row_idx(0, token), slot < 0 ? key.num_kv_rows() : key.get_tma_row(slot)) << token;
  }
  EXPECT_EQ(key.get_tma_row(28), 7 * 16);
  EXPECT_EQ(key.get_tma_row(-1), -1);
  EXPECT_EQ(key.get_tma_row(-5), -5);
  EXPECT_EQ(key.get_tma_row(35), 8 * 16 + 3);
  EXPECT_EQ(key.get_tma_row(36), -1) << "the first slot past the pages";
}

TEST(PagedKVCache, planes_of_all_layers_are_disjoint_and_cover_the_storage) {
  using Collection = PagedKVCacheCollection<DType::f32, KVCacheStaticParams{2, 3}, 4>;
  StaticCache<Collection> cache({.num_pages = 3, .num_layers = 2, .max_cache_length = 12});
  cache.set_row(0, {2, 0, 1});
  const int64_t planes = 4;
  for (int64_t plane = 0; plane < planes; ++plane) {
    const auto view = plane % 2 == 0 ? cache.key(plane / 2) : cache.value(plane / 2);
    for (int token = 0; token < 12; ++token) {
      for (int head = 0; head < 2; ++head) {
        Vec<float, 3> value;
        for (int d = 0; d < 3; ++d)
          value[d] = static_cast<float>(((plane * 12 + token) * 2 + head) * 3 + d);
        view.store(0, head, token, 0, value);
      }
    }
  }
  std::vector<bool> seen(static_cast<size_t>(cache.blocks.bytes() / 4));
  for (size_t i = 0; i < seen.size(); ++i) seen[static_cast<size_t>(cache.elements()[i])] = true;
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), planes * 12 * 2 * 3);
}

TEST(PagedKVCache, an_unassigned_page_loads_zeros_stores_nothing_and_has_no_pointer) {
  using Collection =
      PagedKVCacheCollection<DType::f8_e4m3, KVCacheStaticParams{2, 16}, 4, DType::f32, 8>;
  StaticCache<Collection> cache({.num_pages = 3, .batch = 4, .max_cache_length = 4});
  // All ids that name no page: the sentinel, -1, and one whose sign bit is set. Storage ends at a
  // guard page.
  for (const uint32_t entry : {3u, 0xffffffffu, 0x80000000u, 1000u}) {
    cache.set_row(1, {entry});
    for (const auto& plane : {cache.key(), cache.value()}) {
      Vec<f8_e4m3, 16> value = Vec<f8_e4m3, 16>::splat(from_float<f8_e4m3>(1.0f));
      plane.store(1, 1, 3, 0, value);
      plane.store_scale(1, 1, 3, 0, Vec<float, 2>::splat(2.0f));
      EXPECT_EQ((plane.load<16, DType::f32>(1, 1, 3, 0)), (Vec<float, 16>{}));
      EXPECT_EQ((plane.load_quantized<16>(1, 1, 3, 0)), (Vec<f8_e4m3, 16>{}));
      EXPECT_EQ((plane.load_scale<2>(1, 1, 3, 0)), (Vec<float, 2>{}));
      EXPECT_EQ(plane.block_paged_ptr<4>(1, 0, 0), nullptr);
      EXPECT_EQ(plane.scales_block_paged_ptr(1, 0, 0), nullptr);
      EXPECT_EQ(plane.row_idx(1, 3), plane.num_kv_rows());
    }
  }
  const auto* bytes = reinterpret_cast<const uint8_t*>(cache.blocks.data());
  EXPECT_TRUE(
      std::all_of(bytes, bytes + cache.blocks.bytes(), [](uint8_t b) { return b == 0xff; }));
  const auto* scale_bytes = reinterpret_cast<const uint8_t*>(cache.scales.data());
  EXPECT_TRUE(std::all_of(scale_bytes, scale_bytes + cache.scales.bytes(),
                          [](uint8_t b) { return b == 0xff; }));
}

TEST(PagedKVCache, dead_slots_are_neither_read_nor_written) {
  using Collection = PagedKVCacheCollection<DType::f32, KVCacheStaticParams{1, 4}, 8>;
  StaticCache<Collection> cache({.num_pages = 5, .num_layers = 2, .max_cache_length = 16});
  cache.set_row(0, {3, 1});
  for (int token = 0; token < 11; ++token)
    cache.value(1).store(0, 0, token, 0, Vec<float, 4>::splat(static_cast<float>(token)));
  for (int token = 0; token < 11; ++token)
    EXPECT_EQ((cache.value(1).load<4>(0, 0, token, 0)[3]), static_cast<float>(token));
  const float* elements = cache.elements();
  const auto written = std::count_if(elements, elements + cache.blocks.bytes() / 4,
                                     [](float x) { return !std::isnan(x); });
  EXPECT_EQ(written, 11 * 4);
}

TEST(PagedKVCache, an_unquantised_load_keeps_bits_and_converts_on_request) {
  using Collection = PagedKVCacheCollection<DType::bf16, KVCacheStaticParams{1, 4}, 1>;
  StaticCache<Collection> cache({.num_pages = 1});
  cache.set_row(0, {0});
  // 1.5, two NaNs with payload, -0
  cache.key().store(0, 0, 0, 0, Vec<bf16, 4>{{{0x3fc0}, {0x7fc1}, {0xff81}, {0x8000}}});
  EXPECT_EQ((cache.key().load<4>(0, 0, 0, 0)),
            (Vec<bf16, 4>{{{0x3fc0}, {0x7fc1}, {0xff81}, {0x8000}}}));
  const auto wide = cache.key().load<4, DType::f32>(0, 0, 0, 0);
  EXPECT_EQ(wide[0], 1.5f);
  EXPECT_TRUE(std::isnan(wide[1]));
  EXPECT_EQ((cache.key().load<1, DType::i8>(0, 0, 0, 0)[0]), 2) << "ties to even";
}

TEST(PagedKVCache, store_writes_its_width_and_no_more) {
  using Collection = PagedKVCacheCollection<DType::f32, KVCacheStaticParams{2, 8}, 2>;
  StaticCache<Collection> cache({.num_pages = 1, .max_cache_length = 2});
  cache.set_row(0, {0});
  cache.key().store(0, 1, 1, 5, Vec<float, 2>{{1.0f, 2.0f}});
  const float* row = cache.elements() + 16 + 8;
  EXPECT_TRUE(std::isnan(row[4]) && row[5] == 1.0f && row[6] == 2.0f && std::isnan(row[7]));
}

TEST(PagedKVCache, without_scales_a_quantised_cache_loads_zeros_and_points_nowhere) {
  using Cache = PagedKVCache<DType::i8, KVCacheStaticParams{1, 4}, 1, DType::f32, 4>;
  int8_t storage[4] = {1, 2, 3, 4};
  const uint32_t entry = 0;
  const Cache cache{{storage, Cache::blocks_tt_layout(1, 4)},
                    {},
                    {&entry, Cache::lookup_table_tt_layout(1, 1, 1)},
                    1,
                    1};
  EXPECT_EQ((cache.load<4, DType::f32>(0, 0, 0, 0)), (Vec<float, 4>{}));
  EXPECT_EQ((cache.load_quantized<4>(0, 0, 0, 0)), (Vec<int8_t, 4>{{1, 2, 3, 4}}));
  EXPECT_EQ((cache.load_scale<1>(0, 0, 0, 0)), (Vec<float, 1>{}));
  cache.store_scale(0, 0, 0, 0, Vec<float, 1>{{3.0f}});
  EXPECT_EQ(cache.scales_block_paged_ptr(0, 0, 0), nullptr);
  EXPECT_EQ(cache.scales_raw_ptr(), nullptr);
}

TEST(PagedKVCache, a_cache_without_pages_is_safe_to_ask) {
  using Cache = PagedKVCache<DType::f32, KVCacheStaticParams{1, 4}, 4>;
  const uint32_t entry = 0;
  const Cache cache{{nullptr, Cache::blocks_tt_layout(0, 0)},
                    {},
                    {&entry, Cache::lookup_table_tt_layout(1, 1, 1)},
                    1,
                    1};
  EXPECT_EQ(cache.num_kv_rows(), 0);
  EXPECT_EQ((cache.load<4>(0, 0, 0, 0)), (Vec<float, 4>{}));
  cache.store(0, 0, 0, 0, Vec<float, 4>::splat(1.0f));
}

}  // namespace
}  // namespace folio::test
