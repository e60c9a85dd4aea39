// SPDX-License-Identifier: Apache-2.0
/// tests/cache/tma_members_test.cpp: the template members are the run-time functions under them,
/// over a pairwise sample of caches.
#include <gtest/gtest.h>

#include <cstddef>

#include "folio/cache/continuous_kv_cache.h"
#include "folio/cache/paged_kv_cache.h"
#include "folio/cache/static_view.h"

namespace folio::test {
namespace {

/// Storage by address only.
alignas(1024) std::byte storage[1024];

template <DType D, int Heads, int HeadSize, int Page, int Tile, tma::Swizzle Mode>
struct Sample {
  static constexpr KVCacheStaticParams params{Heads, HeadSize, Heads == 1};
  static constexpr int rows = Tile;
  static constexpr tma::Swizzle mode = Mode;
  static constexpr int page_size = Page;
  static constexpr int num_pages = 9;
  static constexpr int between = 6;  ///< pages of planes from one page of this plane to the next

  static auto cache() {
    if constexpr (Page > 0) {
      using Cache = PagedKVCache<D, params, Page>;
      Cache out;
      out.blocks = {reinterpret_cast<typename Cache::element_type*>(storage),
                    typename Cache::blocks_tt_layout(num_pages, between * Page * Cache::row_size)};
      return out;
    } else {
      using Cache = ContinuousKVCache<D, params>;
      Cache out;
      out.blocks = {
          reinterpret_cast<typename Cache::element_type*>(storage),
          typename Cache::blocks_tt_layout(num_pages, 300, between * 300 * Cache::row_size)};
      return out;
    }
  }
};

template <class S>
class TmaMembers : public testing::Test {};

using Samples = testing::Types<Sample<DType::bf16, 8, 128, 16, 64, tma::Swizzle::b128>,
                               Sample<DType::bf16, 1, 576, 64, 64, tma::Swizzle::b128>,
                               Sample<DType::bf16, 2, 64, 128, 128, tma::Swizzle::none>,
                               Sample<DType::bf16, 4, 72, 1, 16, tma::Swizzle::b128>,
                               Sample<DType::bf16, 3, 80, 256, 256, tma::Swizzle::b32>,
                               Sample<DType::bf16, 2, 192, 8, 32, tma::Swizzle::b64>,
                               Sample<DType::f16, 8, 64, 8, 128, tma::Swizzle::b128>,
                               Sample<DType::f16, 2, 72, 16, 256, tma::Swizzle::b64>,
                               Sample<DType::f16, 1, 512, 32, 64, tma::Swizzle::none>,
                               Sample<DType::f16, 4, 256, 0, 64, tma::Swizzle::b128>,
                               Sample<DType::f32, 2, 128, 32, 32, tma::Swizzle::b64>,
                               Sample<DType::f32, 1, 80, 64, 128, tma::Swizzle::b32>,
                               Sample<DType::f32, 8, 64, 1, 64, tma::Swizzle::b128>,
                               Sample<DType::f32, 3, 192, 128, 16, tma::Swizzle::none>,
                               Sample<DType::f8_e4m3, 1, 576, 128, 64, tma::Swizzle::b64>,
                               Sample<DType::f8_e4m3, 8, 128, 16, 32, tma::Swizzle::b32>,
                               Sample<DType::f8_e4m3, 2, 80, 0, 128, tma::Swizzle::none>,
                               Sample<DType::f8_e4m3, 4, 256, 256, 256, tma::Swizzle::b128>,
                               Sample<DType::i8, 1, 512, 64, 256, tma::Swizzle::b128>,
                               Sample<DType::i8, 2, 64, 32, 16, tma::Swizzle::b64>,
                               Sample<DType::i8, 8, 192, 128, 128, tma::Swizzle::none>,
                               Sample<DType::i8, 3, 128, 8, 64, tma::Swizzle::b32>>;
TYPED_TEST_SUITE(TmaMembers, Samples);

template <class Tile>
void expect_same(const Tile& made, const Tile& expected) {
  EXPECT_EQ(made, expected);
  EXPECT_TRUE(made.check().is_ok()) << made.check().message();
}

TYPED_TEST(TmaMembers, are_the_functions_under_them) {
  constexpr tma::Swizzle mode = TypeParam::mode;
  constexpr int rows = TypeParam::rows;
  const auto cache = TypeParam::cache();
  const tma::PlaneGeometry plane = cache.tma_plane();
  const tma::TileSpec spec{.swizzle = mode, .rows = rows};
  expect_same(cache.template create_tma_tile<mode, rows>(), tma::cache_tile(plane, spec));
  expect_same(cache.template create_ragged_tma_tile<mode, rows>(), tma::ragged_tile(plane, spec));
  constexpr auto row_size = static_cast<int>(cache.row_size);
  expect_same(cache.template create_gather4_tma_tile<row_size, row_size, tma::Swizzle::b128, 8>(),
              tma::gather4_tile(plane, {8, row_size, row_size, tma::Swizzle::b128}));
  constexpr int chunk = swizzle_granularity(cache.dtype, mode);
  if constexpr (cache.kv_params.head_size % chunk == 0) {
    expect_same(cache.template create_page_tma_tile<mode, rows>(), tma::page_tile(plane, spec));
    constexpr int chunks = cache.kv_params.head_size / chunk;
    if constexpr (chunks > 1)
      expect_same(cache.template create_tma_tile<mode, rows, chunk * chunks, chunks>(),
                  tma::folded_tile(plane, spec));
    if constexpr (chunks > 1 && TypeParam::page_size % 8 == 0 && TypeParam::page_size > 0)
      expect_same(cache.template create_tma_tile<mode, rows, chunk * chunks, chunks, true>(),
                  tma::row_major_tile(plane, spec));
  }
  if constexpr (cache.kv_params.is_mla && cache.kv_params.head_size >= 512) {
    const tma::TileSpec latent{.swizzle = mode, .rows = rows, .depth = 512};
    expect_same(cache.template create_latent_tma_tile<mode, rows, 512>(),
                tma::cache_tile(plane, latent));
  }
}
TYPED_TEST(TmaMembers, see_the_plane_that_the_view_sees) {
  const auto cache = TypeParam::cache();
  tma::PlaneGeometry seen = tma::plane_of(view_of(cache));
  seen.is_paged = TypeParam::page_size > 0;  // a view of a continuous cache has pages of max_length
  EXPECT_EQ(seen, cache.tma_plane());
}

TEST(TmaMember, refuse_more_rows_than_32_bits) {
  using Cache = PagedKVCache<DType::i8, KVCacheStaticParams{1, 16}, 16>;
  Cache cache;
  const int64_t pages = int64_t{1} << 20;
  cache.blocks = {reinterpret_cast<int8_t*>(storage),
                  Cache::blocks_tt_layout(pages, 2048 * Cache::row_size)};
  const auto tile = cache.create_tma_tile<tma::Swizzle::b128, 16>();
  EXPECT_EQ(tile.fault().rule, tma::Rule::coordinates);
  EXPECT_EQ(tile.check("create_tma_tile").message(),
            "create_tma_tile: 1048576 pages, 2048 rows apart, do not fit TMA's 32-bit coordinates; "
            "expected a product of at most "
            "2147483647");
}
TEST(TmaMember, refuse_storage_without_memory) {
  EXPECT_FALSE((PagedKVCache<DType::bf16, KVCacheStaticParams{1, 64}, 16>()
                    .create_tma_tile<tma::Swizzle::b128, 16>()
                    .check()
                    .is_ok()));
}

}  // namespace
}  // namespace folio::test
