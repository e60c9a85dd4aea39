// SPDX-License-Identifier: Apache-2.0
/// tests/cache/continuous_kv_cache_test.cpp: ContinuousKVCache, alone and as the oracle of
/// PagedKVCache.
#include "folio/cache/continuous_kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "folio/cache/paged_kv_cache.h"
#include "support/random.h"
#include "support/static_cache.h"

namespace folio::test {
namespace {

constexpr KVCacheStaticParams params{3, 8};
using Continuous = ContinuousKVCacheCollection<DType::f32, params>;
using Paged = PagedKVCacheCollection<DType::f32, params, 4>;

TEST(ContinuousKVCache, a_paged_cache_holds_what_the_continuous_one_holds) {
  constexpr int32_t max_length = 24;
  constexpr uint32_t batch = 3;
  Rng rng(test_seed());
  ContinuousCache<Continuous> oracle({.num_pages = 3,
                                      .num_layers = 2,
                                      .batch = batch,
                                      .max_cache_length = 24,
                                      .max_length = max_length});
  StaticCache<Paged> paged(
      {.num_pages = 20, .num_layers = 2, .batch = batch, .max_cache_length = 24});
  std::vector<uint32_t> pages(20);
  for (uint32_t i = 0; i < pages.size(); ++i) pages[i] = i;
  rng.shuffle(pages);
  for (uint32_t b = 0; b < batch; ++b)
    std::copy_n(pages.begin() + b * 6, 6, paged.table() + b * paged.tables.lut_stride);

  for (int step = 0; step < 400; ++step) {
    const auto b = rng.between(0, batch - 1), head = rng.between(0, 2),
               token = rng.between(0, max_length - 1);
    const auto dim = rng.between(0, 4), layer = rng.between(0, 1);
    Vec<float, 4> value;
    for (int i = 0; i < 4; ++i) value[i] = rng.uniform(-1.0f, 1.0f);
    const bool keys = rng.chance(0.5);
    (keys ? oracle.key(layer) : oracle.value(layer)).store(b, head, token, dim, value);
    (keys ? paged.key(layer) : paged.value(layer)).store(b, head, token, dim, value);
  }
  for (int64_t layer = 0; layer < 2; ++layer) {
    for (uint32_t b = 0; b < batch; ++b) {
      for (int token = 0; token < max_length; ++token) {
        for (int head = 0; head < 3; ++head) {
          const auto bits = [](const Vec<float, 8>& v) {
            return __builtin_bit_cast(Vec<uint32_t, 8>, v);
          };  // unwritten ones are NaN
          EXPECT_EQ(bits(oracle.key(layer).load<8>(b, head, token, 0)),
                    bits(paged.key(layer).load<8>(b, head, token, 0)));
          EXPECT_EQ(bits(oracle.value(layer).load<8>(b, head, token, 0)),
                    bits(paged.value(layer).load<8>(b, head, token, 0)));
        }
      }
    }
  }
}

TEST(ContinuousKVCache, rows_follow_one_another_and_encoded_indices_are_rows) {
  ContinuousCache<Continuous> cache(
      {.num_pages = 3, .num_layers = 2, .batch = 2, .max_cache_length = 10, .max_length = 10});
  cache.table()[1] = 2;
  const auto key = cache.key(1);
  EXPECT_EQ(key.row_stride(), 2 * 2 * 10);
  EXPECT_EQ(key.num_kv_rows(), 2 * 40 + 10);
  EXPECT_EQ(key.row_idx(1, 7), 2 * 40 + 7);
  EXPECT_EQ(key.get_tma_row(123), 123);
  EXPECT_EQ(key.get_tma_row(-1), -1);
  EXPECT_EQ(key.max_tile_size(), -1);
}

TEST(ContinuousKVCache, populate_gives_one_piece_that_may_begin_anywhere) {
  ContinuousCache<Continuous> cache(
      {.num_pages = 2, .batch = 2, .max_cache_length = 128, .max_length = 128});
  cache.table()[1] = 2;  // unassigned
  const auto key = cache.key();
  const auto rows = key.populate<64, 1>(0, 37);
  EXPECT_EQ(rows.rows[0], 37u);
  EXPECT_EQ(rows.get_row(63), 100u);
  EXPECT_EQ(rows.valid_pages, 1);
  EXPECT_EQ((key.populate<64, 1, true, false>(0, 37).k_row(0)), 37u + 32u);
  EXPECT_EQ((key.populate<64, 1>(1, 37).valid_pages), 0);
  EXPECT_EQ((key.populate<64, 1>(1, 37).rows[0]), key.num_kv_rows());
}

TEST(ContinuousKVCache, a_sequence_without_memory_loads_zeros_and_stores_nothing) {
  ContinuousCache<Continuous> cache(
      {.num_pages = 1, .batch = 2, .max_cache_length = 4, .max_length = 4});
  for (const uint32_t entry : {1u, 0xffffffffu}) {
    cache.table()[1] = entry;
    cache.value().store(1, 2, 3, 4, Vec<float, 4>::splat(1.0f));
    EXPECT_EQ((cache.value().load<4>(1, 2, 3, 4)), (Vec<float, 4>{}));
    EXPECT_EQ(cache.key().block_paged_ptr<16>(1, 0, 0), nullptr);
    EXPECT_EQ(cache.key().row_idx(1, 0), cache.key().num_kv_rows());
  }
}

TEST(ContinuousKVCache, it_has_no_scales) {
  using Cache = ContinuousKVCache<DType::f32, params>;
  static_assert(!Cache::quantization_enabled && Cache::scale_dtype == DType::invalid &&
                Cache::page_size_ == 0);
  ContinuousCache<Continuous> cache({.num_pages = 1, .max_cache_length = 4, .max_length = 4});
  EXPECT_EQ(cache.key().scales_raw_ptr(), nullptr);
  EXPECT_EQ(cache.key().scales_block_paged_ptr(0, 0, 0), nullptr);
}

TEST(ContinuousKVCache, make_refuses_what_does_not_fit) {
  ContinuousCache<Continuous> cache({.num_pages = 2, .max_cache_length = 8, .max_length = 8});
  const auto message = [&](MemorySpan blocks, int64_t pages, int32_t layers, int32_t length,
                           const CacheTables& tables) {
    return std::string(Continuous::make(blocks, pages, layers, length, tables).error().message());
  };
  const MemorySpan blocks = cache.blocks.span();
  EXPECT_EQ(message(blocks, 2, 1, 8, cache.tables), "");
  EXPECT_NE(message({blocks.data, blocks.bytes - 1}, 2, 1, 8, cache.tables)
                .find("bytes, expected at least"),
            std::string::npos);
  EXPECT_NE(message(blocks, 2, 1, 0, cache.tables).find("max_length is 0"), std::string::npos);
  EXPECT_NE(message(blocks, 2, 1, 7, cache.tables).find("max_cache_length is 8, more than the 7"),
            std::string::npos);
  CacheTables tables = cache.tables;
  tables.lut_cols = 0;
  EXPECT_NE(message(blocks, 2, 1, 8, tables).find("lut_cols is 0"), std::string::npos);
}

}  // namespace
}  // namespace folio::test
