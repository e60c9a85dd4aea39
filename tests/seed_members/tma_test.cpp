// SPDX-License-Identifier: Apache-2.0
/// tests/seed_members/tma_test.cpp: one compile-time line and one behaviour for every
/// create_*_tma_tile of the seed documents' pages.
///
/// Suites are named and checked as those beside this file. A member is compared with the run-time
/// function under it, which tests/tma/ proves.
#include <gtest/gtest.h>

#include <type_traits>

#include "folio/attention/operand.h"
#include "support/seed_caches.h"

namespace folio::test {
namespace {

constexpr KVCacheStaticParams heads{2, 64};
constexpr KVCacheStaticParams rope_rows{1, 640, true};
using Bf16Collection = PagedKVCacheCollection<DType::bf16, heads, 4>;
using Bf16 = Bf16Collection::CacheType;
using Fp8Collection = PagedKVCacheCollection<DType::f8_e4m3, rope_rows, 4, DType::f32, 640>;
using Fp8 = Fp8Collection::CacheType;
using SlotsCollection = ContinuousKVCacheCollection<DType::bf16, heads>;
using Slots = SlotsCollection::CacheType;
using ScalesOperand = KVCacheScalesMHAOperand<Fp8>;
constexpr Swizzle b128 = Swizzle::b128;

/// K of layer 1 of a continuous cache.
const Slots& slots() {
  const StaticSizes sizes{.num_pages = 2,
                          .num_layers = 3,
                          .batch = 2,
                          .max_cache_length = 12,
                          .max_seq_length = 3,
                          .max_length = 12};
  static const ContinuousCache<SlotsCollection> cache(sizes);
  static const Slots key = cache.key(1);
  return key;
}

template <class Tile>
void expect_same(const Tile& made, const Tile& expected) {
  EXPECT_EQ(made, expected);
  EXPECT_TRUE(made.check().is_ok()) << made.check().message();
}
constexpr TileSpec spec(int32_t rows) { return {.swizzle = b128, .rows = rows}; }

template <class O>
concept HasTile = requires(const O o) { o.template create_tma_tile<b128, 4, 64>(); };
template <class O>
concept HasScaleTile = requires(const O o) { o.template create_scale_tma_tile<4>(); };
template <class O>
concept HasRaggedTile = requires(const O o) { o.template create_ragged_tma_tile<b128, 4, 64>(); };
template <class O>
concept HasRopeTile = requires(const O o) { o.template create_rope_tma_tile<b128, 4, 64, 512>(); };
template <class O>
concept HasGather4 = requires(const O o) { o.template create_gather4_tma_tile<640, 640, b128>(); };
template <class O>
concept HasRopeGather4 =
    requires(const O o) { o.template create_rope_gather4_tma_tile<64, 512, b128>(); };

// ---- KVCacheT: of paged and of continuous caches

TEST(KVCacheT_create_tma_tile, describes_tiles_of_rows) {
  static_assert(TmaKVCache<Bf16> && TmaKVCache<Fp8> && TmaKVCache<Slots> && !TmaKVCache<Plain> &&
                !TmaKVCache<Continuous>);
  static_assert(std::is_same_v<decltype(std::declval<Slots>().create_tma_tile<b128, 64>()),
                               TMATensorTile<3>>);
  const Bf16 cache = paged<Bf16Collection>().key(1);
  expect_same(cache.create_tma_tile<b128, 4>(), tma::cache_tile(cache.tma_plane(), spec(4)));
  const auto tile = slots().create_tma_tile<b128, 64>();
  expect_same(tile, tma::cache_tile(slots().tma_plane(), spec(64)));
  EXPECT_EQ(tile.map.dim[2], slots().num_kv_rows());
  EXPECT_EQ(tile.box_shape[0], 64) << "nothing is paged";
}
TEST(KVCacheT_create_ragged_tma_tile, ends_where_the_sequence_does) {
  static_assert(std::is_same_v<decltype(std::declval<Slots>().create_ragged_tma_tile<b128, 64>()),
                               RaggedTMA3DTile>);
  expect_same(slots().create_ragged_tma_tile<b128, 64>(),
              tma::ragged_tile(slots().tma_plane(), spec(64)));
  expect_same(slots().create_ragged_tma_tile<b128, 64, 64, 2>(),
              tma::ragged_tile(slots().tma_plane(), spec(64), 2));
  EXPECT_EQ((slots().create_ragged_tma_tile<b128, 64>().map.base), address_of(slots().blocks.data));
}
TEST(KVCacheT_create_rope_tma_tile, sees_bf16_behind_the_content) {
  static_assert(std::is_same_v<
                decltype(std::declval<Slots>().create_rope_tma_tile<Swizzle::b32, 4, 16, 96>()),
                TMATensorTile<3>>);
  expect_same(
      slots().create_rope_tma_tile<Swizzle::b32, 4, 16, 96>(),
      tma::rope_tile(slots().tma_plane(),
                     {.swizzle = Swizzle::b32, .rows = 4, .columns = 16, .padded_depth = 96}));
}
TEST(KVCacheT_create_gather4_tma_tile, sees_whole_rows) {
  static_assert(std::is_same_v<decltype(std::declval<Slots>().create_gather4_tma_tile<128>()),
                               TMATensorTile<2>>);
  const auto tile =
      slots().create_gather4_tma_tile<128, 128, b128, 64, TmaDType::bf16, L2Promotion::b128>();
  expect_same(tile, tma::gather4_tile(slots().tma_plane(),
                                      {64, 128, 128, b128, TmaDType::bf16, L2Promotion::b128}));
  EXPECT_EQ(tile.tile_shape, (IndexList<2>{{64, 64}}));
}
TEST(KVCacheT_create_rope_gather4_tma_tile, is_of_rows_of_one_head) {
  static_assert(HasRopeGather4<Fp8> && !HasRopeGather4<Slots>);
  const Fp8 cache = paged<Fp8Collection>().key(1);
  expect_same(cache.create_rope_gather4_tma_tile<64, 512, b128>(),
              tma::rope_gather4_tile(cache.tma_plane(), {4, 64, 512, b128}));
}

// ---- PagedKVCache

TEST(PagedKVCache_create_tma_tile, cuts_tiles_at_pages) {
  static_assert(
      std::is_same_v<decltype(std::declval<Bf16>().create_tma_tile<b128, 64>()), TMATensorTile<3>>);
  static_assert(
      std::is_same_v<decltype(std::declval<Bf16>().create_tma_tile<Swizzle::b64, 64, 64, 2>()),
                     TMATensorTile<4>>);
  const Bf16 cache = paged<Bf16Collection>().value(2);
  const auto tile = cache.create_tma_tile<b128, 64>();
  expect_same(tile, tma::cache_tile(cache.tma_plane(), spec(64)));
  EXPECT_EQ(tile.map.base, address_of(cache.block_paged_ptr<1>(1, 0, 0))) << "page 0 of the plane";
  EXPECT_EQ(tile.map.dim[2], cache.num_kv_rows());
  EXPECT_EQ(tile.map.stride_bytes[2], 2 * 64 * 2);
  EXPECT_EQ(tile.tile_shape, (IndexList<3>{{64, 1, 64}}));
  EXPECT_EQ(tile.box_shape, (IndexList<3>{{4, 1, 64}}));
  expect_same(cache.create_tma_tile<Swizzle::b64, 64, 64, 2>(),
              tma::folded_tile(cache.tma_plane(), {.swizzle = Swizzle::b64, .rows = 64}));
}
TEST(PagedKVCache_create_gather4_tma_tile, sees_fp8_rows_as_int64) {
  static_assert(
      std::is_same_v<decltype(std::declval<Fp8>().create_gather4_tma_tile<640, 640, b128>()),
                     TMATensorTile<2>>);
  const Fp8 cache = paged<Fp8Collection>().key(1);
  const auto tile =
      cache.create_gather4_tma_tile<80, 80, Swizzle::none, 64, TmaDType::i64, L2Promotion::b256>();
  expect_same(tile, tma::gather4_tile(cache.tma_plane(), {64, 80, 80, Swizzle::none, TmaDType::i64,
                                                          L2Promotion::b256}));
  EXPECT_EQ(tile.map.dtype, TmaDType::i64);
  EXPECT_EQ(tile.map.dim[1], cache.num_kv_rows());
}
TEST(PagedKVCache_create_ragged_tma_tile, stays_in_its_page) {
  static_assert(std::is_same_v<decltype(std::declval<Bf16>().create_ragged_tma_tile<b128, 64>()),
                               RaggedTMA3DTile>);
  const Bf16 cache = paged<Bf16Collection>().value();
  expect_same(cache.create_ragged_tma_tile<b128, 64>(),
              tma::ragged_tile(cache.tma_plane(), spec(64)));
  EXPECT_EQ((cache.create_ragged_tma_tile<b128, 64>().sequence_rows()), 4);
}
TEST(PagedKVCache_create_rope_tma_tile, offsets_the_rows_by_the_content) {
  static_assert(
      std::is_same_v<decltype(std::declval<Fp8>().create_rope_tma_tile<b128, 64, 64, 512>()),
                     TMATensorTile<3>>);
  const Fp8 cache = paged<Fp8Collection>().key(1);
  const auto tile = cache.create_rope_tma_tile<b128, 64, 64, 512>();
  expect_same(tile,
              tma::rope_tile(cache.tma_plane(),
                             {.swizzle = b128, .rows = 64, .columns = 64, .padded_depth = 512}));
  EXPECT_EQ(tile.map.base, address_of(cache.blocks.data) + 512);
  EXPECT_EQ(tile.map.stride_bytes[2], 640);
}
TEST(PagedKVCache_create_rope_gather4_tma_tile, has_the_pitch_of_the_whole_row) {
  static_assert(
      std::is_same_v<decltype(std::declval<Fp8>().create_rope_gather4_tma_tile<64, 512>()),
                     TMATensorTile<2>>);
  const Fp8 cache = paged<Fp8Collection>().key(1);
  const auto tile = cache.create_rope_gather4_tma_tile<64, 512, b128, 16, L2Promotion::b64>();
  expect_same(tile,
              tma::rope_gather4_tile(cache.tma_plane(), {16, 64, 512, b128, L2Promotion::b64}));
  EXPECT_EQ(tile.map.stride_bytes[1], (512 + 2 * 64) / 2 * 2);
}

// ---- KVCacheScalesMHAOperand: none, as its page says; what the compiler says is in
// tests/compile_fail/tma_operand.cpp

TEST(KVCacheScalesMHAOperand_create_tma_tile, does_not_compile) {
  static_assert(HasTile<KVCacheMHAOperand<Fp8>> && !HasTile<ScalesOperand>);
  EXPECT_TRUE(MHAOperand<ScalesOperand> && !TmaMHAOperand<ScalesOperand>);
}
TEST(KVCacheScalesMHAOperand_create_scale_tma_tile, does_not_compile) {
  static_assert(HasScaleTile<TensorMHAOperand<DType::i8, DType::f32, 8>> &&
                !HasScaleTile<ScalesOperand>);
  EXPECT_FALSE(HasScaleTile<KVCacheMHAOperand<Fp8>>);
}
TEST(KVCacheScalesMHAOperand_create_ragged_tma_tile, does_not_compile) {
  static_assert(HasRaggedTile<KVCacheMHAOperand<Fp8>> && !HasRaggedTile<ScalesOperand>);
  EXPECT_TRUE(HasRaggedTile<TensorMHAOperand<DType::bf16>>);
}
TEST(KVCacheScalesMHAOperand_create_rope_tma_tile, does_not_compile) {
  static_assert(HasRopeTile<KVCacheMHAOperand<Fp8>> && !HasRopeTile<ScalesOperand>);
  EXPECT_TRUE(HasRopeTile<RaggedMHAOperand<DType::f8_e4m3>>);
}
TEST(KVCacheScalesMHAOperand_create_gather4_tma_tile, does_not_compile) {
  static_assert(HasGather4<KVCacheMHAOperand<Fp8>> && !HasGather4<ScalesOperand>);
  EXPECT_TRUE(HasGather4<ViewMHAOperand<DType::f8_e4m3>>);
}
TEST(KVCacheScalesMHAOperand_create_rope_gather4_tma_tile, does_not_compile) {
  static_assert(HasRopeGather4<KVCacheMHAOperand<Fp8>> && !HasRopeGather4<ScalesOperand>);
  EXPECT_FALSE(HasRopeGather4<KVCacheMHAOperand<Bf16>>) << "rows of two heads have two ropes";
}

}  // namespace
}  // namespace folio::test
