// SPDX-License-Identifier: Apache-2.0
/// tests/cache/static_view_test.cpp: make, view_of and cache_of: what they give, and every reason
/// for which they refuse.
#include "folio/cache/static_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "folio/cache/page_walk.h"
#include "folio/cache/paged_kv_cache_collection.h"
#include "folio/cache/planes.h"
#include "folio/core/element.h"
#include "support/static_cache.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

constexpr KVCacheStaticParams params{2, 16};
using Plain = PagedKVCacheCollection<DType::bf16, params, 4>;
using Quantised = PagedKVCacheCollection<DType::i8, params, 4, DType::f16, 6>;
using Latent = PagedKVCacheCollection<DType::bf16, KVCacheStaticParams{1, 24, true}, 4>;
using Continuous = ContinuousKVCacheCollection<DType::bf16, params>;

TEST(StaticView, the_view_addresses_the_same_bytes) {
  StaticCache<Quantised> cache(
      {.num_pages = 3, .num_layers = 2, .batch = 2, .max_cache_length = 8});
  cache.set_row(1, {2, 0});
  const auto plane = cache.value(1);
  const PagedKVView view = view_of(plane);
  const PageTable table = table_of(plane);
  for (int token = 0; token < 8; ++token) {
    for (int head = 0; head < 2; ++head) {
      const detail::PageRun run =
          detail::run_of(view, table.entries + table.row_start(1), token, 8);
      const void* row = run.data + head * view.head_stride_bytes;
      EXPECT_EQ(row, plane.block_paged_ptr<1>(1, token, head)) << token << ' ' << head;
      const void* scale = static_cast<const std::byte*>(view.scales.data) +
                          detail::scale_offset_bytes(view.scales, run.page, run.slot, head,
                                                     detail::granule_of(view.scales, 13));
      EXPECT_EQ(scale, plane.scales_block_paged_ptr(1, token, head, 13)) << token << ' ' << head;
    }
  }
}

TEST(StaticView, it_is_the_view_that_make_planes_gives) {
  StaticCache<Quantised> cache({.num_pages = 3, .num_layers = 2, .max_cache_length = 8});
  const KVShape shape{.num_layers = 2,
                      .num_heads = 2,
                      .head_size = 16,
                      .page_size = 4,
                      .dtype = DType::i8,
                      .scale_dtype = DType::f16,
                      .quantization_granularity = 6};
  const auto planes = make_planes(shape, 3, cache.blocks.span(), cache.scales.span()).value();
  for (size_t layer = 0; layer < 2; ++layer) {
    EXPECT_EQ(view_of(cache.key(static_cast<int64_t>(layer))), planes[layer].key);
    EXPECT_EQ(view_of(cache.value(static_cast<int64_t>(layer))), planes[layer].value);
  }
}

template <class Cache>
void expect_round_trip(const Cache& cache) {
  const auto back = cache_of<Cache>(view_of(cache), tables_of(cache));
  ASSERT_TRUE(back.has_value()) << back.error().message();
  EXPECT_EQ(view_of(*back), view_of(cache));
  EXPECT_EQ(tables_of(*back), tables_of(cache));
  EXPECT_EQ(back->num_kv_rows(), cache.num_kv_rows());
}

TEST(StaticView, a_cache_comes_back_from_its_view) {
  const StaticSizes sizes{
      .num_pages = 3, .num_layers = 2, .batch = 2, .max_cache_length = 8, .max_length = 8};
  expect_round_trip(StaticCache<Plain>(sizes).value(1));
  expect_round_trip(StaticCache<Quantised>(sizes).key(1));
  expect_round_trip(StaticCache<Latent>(sizes).key(1));
  expect_round_trip(ContinuousCache<Continuous>(sizes).value(0));
}

TEST(StaticView, strides_of_single_elements_do_not_matter) {
  // SGLang's order: page size 1, so that the slot stride is never used; and one head.
  using Cache = PagedKVCache<DType::bf16, KVCacheStaticParams{1, 8}, 1>;
  StaticTables tables(1, 24, 4, 4);
  bf16 storage[32] = {};
  PagedKVView view{.data = storage,
                   .dtype = DType::bf16,
                   .num_heads = 1,
                   .head_size = 8,
                   .page_size = 1,
                   .num_pages = 4,
                   .page_stride_bytes = 16,
                   .slot_stride_bytes = 9999,
                   .head_stride_bytes = 7};
  EXPECT_TRUE(cache_of<Cache>(view, tables.tables).has_value());
}

TEST(StaticView, keys_and_values_may_have_head_sizes_and_page_strides_of_their_own) {
  using Keys = PagedKVCache<DType::bf16, KVCacheStaticParams{2, 24}, 4>;
  using Values = PagedKVCache<DType::f32, KVCacheStaticParams{2, 8}, 4>;
  StaticTables tables(1, 24, 12, 3);
  tables.set_row(0, {2, 0, 1});
  // bytes: keys have three rows of another tenant behind each page
  const int64_t key_stride = 7 * 96, value_stride = 4 * 64;
  const GuardedMemory key_memory(2 * key_stride + 4 * 96, 2), value_memory(3 * value_stride, 4);
  const PagedKVView key_view{key_memory.data(), DType::bf16, 2, 24, 4, 3, key_stride, 96, 48, {}};
  const PagedKVView value_view{value_memory.data(), DType::f32, 2,  8, 4, 3,
                               value_stride,        64,         32, {}};
  const auto keys = cache_of<Keys>(key_view, tables.tables).value();
  const auto values = cache_of<Values>(value_view, tables.tables).value();
  EXPECT_EQ(keys.row_stride(), 7);
  EXPECT_EQ(values.row_stride(), 4);
  for (int token = 0; token < 12; ++token) {
    keys.store(0, 1, token, 20, Vec<bf16, 4>::splat(from_float<bf16>(static_cast<float>(token))));
    values.store(0, 1, token, 4, Vec<float, 4>::splat(static_cast<float>(-token)));
  }
  for (int token = 0; token < 12; ++token) {
    EXPECT_EQ((keys.load<4, DType::f32>(0, 1, token, 20)),
              (Vec<float, 4>::splat(static_cast<float>(token))));
    EXPECT_EQ((values.load<4>(0, 1, token, 4)), (Vec<float, 4>::splat(static_cast<float>(-token))));
  }
  const auto* between = reinterpret_cast<const uint8_t*>(key_memory.data() + 4 * 96);
  EXPECT_TRUE(std::all_of(between, between + 3 * 96, [](uint8_t b) { return b == 0xff; }));
}

/// A case of a refusal: how the arguments of a good call are broken, and words of the message.
struct Refusal {
  void (*break_it)(PagedKVView&, CacheTables&);
  const char* words;
};

template <class Cache>
void expect_refusals(const Cache& cache, const std::vector<Refusal>& refusals) {
  ASSERT_TRUE(cache_of<Cache>(view_of(cache), tables_of(cache)).has_value());
  for (const Refusal& refusal : refusals) {
    PagedKVView view = view_of(cache);
    CacheTables tables = tables_of(cache);
    refusal.break_it(view, tables);
    const auto result = cache_of<Cache>(view, tables);
    ASSERT_FALSE(result.has_value()) << refusal.words;
    EXPECT_EQ(result.error().code(), Errc::invalid_argument);
    EXPECT_THAT(std::string(result.error().message()), ::testing::StartsWith("cache_of: "));
    EXPECT_THAT(std::string(result.error().message()), HasSubstr(refusal.words));
  }
}

TEST(StaticView, cache_of_refuses_what_the_static_face_cannot_say) {
  const StaticCache<Plain> cache(
      {.num_pages = 3, .num_layers = 2, .batch = 2, .max_cache_length = 8});
  expect_refusals(
      cache.key(1),
      {{[](PagedKVView& v, CacheTables&) { v.data = nullptr; }, "view.data is null"},
       {[](PagedKVView& v, CacheTables&) { v.data = static_cast<std::byte*>(v.data) + 1; },
        "view.data is not aligned to its 2"},
       {[](PagedKVView& v, CacheTables&) { v.dtype = DType::f16; },
        "view.dtype is f16, the cache type's is bf16"},
       {[](PagedKVView& v, CacheTables&) { v.num_heads = 4; },
        "view.num_heads is 4, the cache type's is 2"},
       {[](PagedKVView& v, CacheTables&) { v.head_size = 8; },
        "view.head_size is 8, the cache type's is 16"},
       {[](PagedKVView& v, CacheTables&) { v.page_size = 8; },
        "view.page_size is 8, the cache type's is 4"},
       {[](PagedKVView& v, CacheTables&) { v.num_pages = 0; },
        "view.num_pages is 0, expected at least 1"},
       {[](PagedKVView& v, CacheTables&) { std::swap(v.slot_stride_bytes, v.head_stride_bytes); },
        "head_stride_bytes is 64, expected 32"},
       {[](PagedKVView& v, CacheTables&) { v.slot_stride_bytes = 80; },
        "slot_stride_bytes is 80, expected 64"},
       {[](PagedKVView& v, CacheTables&) { v.page_stride_bytes += 32; },
        "expected a multiple of the row's 64 bytes"},
       {[](PagedKVView& v, CacheTables&) { v.page_stride_bytes = -64; },
        "expected a multiple of the row's 64 bytes"},
       {[](PagedKVView& v, CacheTables&) { v.page_stride_bytes = 192; },
        "less than a page of 4 rows of 64 bytes"},
       {[](PagedKVView& v, CacheTables&) { v.num_pages = int64_t{1} << 28; },
        "times the row stride 16 exceeds 2^31 - 1"},
       {[](PagedKVView& v, CacheTables&) {
          v.page_stride_bytes = int64_t{64} << 50, v.num_pages = int64_t{1} << 40;
        },
        "expected a reach of at most 2^56 bytes"},
       {[](PagedKVView& v, CacheTables&) { v.scales.data = v.data; },
        "the view has scales, the cache type has none"},
       {[](PagedKVView& v, CacheTables&) { v.hadamard.block = 16; },
        "the view has a hadamard rotation, the cache type says nothing of them"},
       {[](PagedKVView& v, CacheTables&) { v.has_channel_scales = true; },
        "the view has channel_scales, the cache type says nothing of them"},
       {[](PagedKVView& v, CacheTables&) { v.dtype = DType::u4; },
        "view.dtype is u4, the cache type's is bf16"},
       {[](PagedKVView&, CacheTables& t) { t.cache_lengths = nullptr; },
        "tables.cache_lengths is null"},
       {[](PagedKVView&, CacheTables& t) { t.lookup_table = nullptr; },
        "tables.lookup_table is null"},
       {[](PagedKVView&, CacheTables& t) {
          t.cache_lengths =
              reinterpret_cast<const uint32_t*>(reinterpret_cast<uintptr_t>(t.cache_lengths) + 2);
        },
        "tables.cache_lengths or tables.lookup_table is not aligned to 4 bytes"},
       {[](PagedKVView&, CacheTables& t) { t.lookup_table += 4; },
        "tables.lookup_table is not aligned to 32 bytes"},
       {[](PagedKVView&, CacheTables& t) { t.lut_stride += 4; },
        "tables.lut_stride is 28, expected a multiple of 8"},
       {[](PagedKVView&, CacheTables& t) { t.lut_stride = 16; },
        "tables.lut_stride is 16, less than lut_cols 24"},
       {[](PagedKVView&, CacheTables& t) { t.lut_cols = 23; },
        "tables.lut_cols is 23, expected at least 24 for 2 pages"},
       {[](PagedKVView&, CacheTables& t) { t.max_cache_length = 33; },
        "tables.lut_cols is 24, expected at least 32 for 9 pages"}});
}

TEST(StaticView, cache_of_refuses_sequences_without_slots) {
  ContinuousCache<Continuous> cache({.num_pages = 2, .max_cache_length = 8, .max_length = 8});
  expect_refusals(cache.key(), {{[](PagedKVView& v, CacheTables&) { v.page_size = 0; },
                                 "view.page_size is 0, expected at least 1"}});
}

TEST(StaticView, cache_of_refuses_scales_of_another_form) {
  const StaticCache<Quantised> cache(
      {.num_pages = 3, .num_layers = 2, .batch = 2, .max_cache_length = 8});
  static const float factor = 1.0f;
  expect_refusals(cache.key(1),
                  {{[](PagedKVView& v, CacheTables&) { v.scales.data = nullptr; },
                    "view.scales.data is null, the cache type is quantised"},
                   {[](PagedKVView& v, CacheTables&) { v.scales.dtype = DType::f32; },
                    "view.scales.dtype is f32, the cache type's is f16"},
                   {[](PagedKVView& v, CacheTables&) { v.scales.granularity = 8; },
                    "view.scales.granularity is 8, the cache type's is 6"},
                   {[](PagedKVView& v, CacheTables&) { v.scales.tensor_scale = &factor; },
                    "view.scales.tensor_scale is given"},
                   {[](PagedKVView& v, CacheTables&) { v.scales.granule_stride_bytes = 0; },
                    "granule_stride_bytes is 0, expected 2"},
                   {[](PagedKVView& v, CacheTables&) { v.scales.head_stride_bytes = 0; },
                    "view.scales.head_stride_bytes is 0, expected 6"},
                   {[](PagedKVView& v, CacheTables&) { v.scales.slot_stride_bytes = 0; },
                    "view.scales.slot_stride_bytes is 0, expected 12"},
                   {[](PagedKVView& v, CacheTables&) { v.scales.page_stride_bytes = 0; },
                    "view.scales.page_stride_bytes is 0, less than a page"},
                   {[](PagedKVView& v, CacheTables&) { v.scales.page_stride_bytes += 6; },
                    "view.scales.page_stride_bytes is 198"},
                   {[](PagedKVView& v, CacheTables&) {
                      v.scales.data = static_cast<std::byte*>(v.scales.data) + 1;
                    },
                    "view.scales.data is not aligned to its 2 byte elements"}});
}

TEST(StaticView, an_empty_batch_needs_no_arrays) {
  const StaticCache<Plain> cache({.num_pages = 1});
  CacheTables tables;
  tables.lut_stride = tables.lut_cols = 16;
  EXPECT_TRUE(cache_of<Plain::CacheType>(view_of(cache.key()), tables).has_value());
  EXPECT_TRUE(Plain::make(cache.blocks.span(), 1, 1, tables)->get_key_cache(0).empty_cache());
}

TEST(PagedKVCacheCollection, make_refuses_sizes_memory_and_tables) {
  const StaticCache<Quantised> cache(
      {.num_pages = 3, .num_layers = 2, .batch = 2, .max_cache_length = 8});
  const MemorySpan blocks = cache.blocks.span(), scales = cache.scales.span();
  const auto message = [&](MemorySpan b, int64_t pages, int32_t layers, MemorySpan s) {
    const auto result = Quantised::make(b, pages, layers, cache.tables, s);
    EXPECT_EQ(result.error().code(), result ? Errc::ok : Errc::invalid_argument);
    return std::string(result.error().message());
  };
  const std::string name = "PagedKVCacheCollection::make: ";
  EXPECT_EQ(message(blocks, 3, 2, scales), "");
  EXPECT_EQ(message(blocks, 0, 2, scales), name + "num_pages is 0, expected at least 1");
  EXPECT_EQ(message(blocks, 3, -1, scales), name + "num_layers is -1, expected at least 1");
  EXPECT_EQ(message({nullptr, blocks.bytes}, 3, 2, scales), name + "blocks.data is null");
  EXPECT_EQ(message({blocks.data, blocks.bytes - 1}, 3, 2, scales),
            name + "blocks has 1535 bytes, expected at least 1536");
  EXPECT_EQ(message(blocks, 3, 2, {}), name + "scales.data is null");
  EXPECT_EQ(message(blocks, 3, 2, {scales.data, scales.bytes - 1}),
            name + "scales has 575 bytes, expected at least 576");
  EXPECT_EQ(message(blocks, 3, 2, {static_cast<std::byte*>(scales.data) + 1, scales.bytes}),
            name + "scales.data is not aligned to its 2 byte elements");
  EXPECT_THAT(message(blocks, int64_t{1} << 27, 2, scales), HasSubstr("exceeds 2^31 - 1"));
  EXPECT_THAT(message(blocks, INT64_MAX, INT32_MAX, scales), HasSubstr("exceeds 2^31 - 1"));
  const StaticCache<Plain> plain({.num_pages = 1});
  EXPECT_THAT(
      std::string(Plain::make(plain.blocks.span(), 1, 1, plain.tables, scales).error().message()),
      HasSubstr("scales are given, the cache type has none"));
  CacheTables tables = plain.tables;
  tables.lut_cols = 8;
  EXPECT_THAT(std::string(Plain::make(plain.blocks.span(), 1, 1, tables).error().message()),
              HasSubstr("tables.lut_cols is 8"));
}

TEST(PagedKVCacheCollection, row_numbers_may_reach_but_not_exceed_31_bits) {
  using Wide = PagedKVCacheCollection<DType::i8, KVCacheStaticParams{1, 1, true}, 1>;
  const StaticCache<Wide> small({.num_pages = 1});
  const MemorySpan huge{small.blocks.data(), INT64_MAX};  // nothing is read
  EXPECT_TRUE(Wide::make(huge, INT32_MAX, 1, small.tables).has_value());
  EXPECT_FALSE(Wide::make(huge, int64_t{INT32_MAX} + 1, 1, small.tables).has_value());
}

TEST(PagedKVCacheCollection, a_layer_out_of_range_is_an_error_or_a_cache_without_pages) {
  StaticCache<Plain> cache({.num_pages = 2, .num_layers = 3, .max_cache_length = 4});
  cache.set_row(0, {0});
  for (const int64_t layer : {int64_t{-1}, int64_t{3}, INT64_MAX, INT64_MIN}) {
    EXPECT_FALSE(cache.collection.checked_key_cache(layer).has_value());
    EXPECT_THAT(std::string(cache.collection.checked_value_cache(layer).error().message()),
                HasSubstr("expected 0 to 2"));
    const auto none = cache.collection.get_value_cache(layer);
    none.store(0, 0, 0, 0, Vec<bf16, 1>{});
    EXPECT_EQ((none.load<1>(0, 0, 0, 0)[0].bits), 0);
    EXPECT_EQ(none.num_kv_rows(), 0);
    EXPECT_EQ(none.block_paged_ptr<1>(0, 0, 0), nullptr);
  }
  EXPECT_EQ(cache.collection.checked_value_cache(2)->blocks.data, cache.value(2).blocks.data);
  ContinuousCache<Continuous> continuous(
      {.num_pages = 1, .num_layers = 2, .max_cache_length = 4, .max_length = 4});
  EXPECT_FALSE(continuous.collection.checked_key_cache(2).has_value());
  EXPECT_TRUE(continuous.collection.checked_value_cache(1).has_value());
  EXPECT_EQ(continuous.collection.get_key_cache(2).num_kv_rows(), 0);
}

}  // namespace
}  // namespace folio::test
