// SPDX-License-Identifier: Apache-2.0
/// tests/seed_members/tma_test.cpp: one compile-time line and one behaviour for every
/// create_*_tma_tile of the seed documents' pages.
///
/// Suites are named and checked as those beside this file. What a member gives is compared with
/// tensor maps that are worked out by hand from the caches' geometry:
///
///   Bf16   5 pages of 4 rows, 24 apart (3 layers, K and V):  4 * 24 + 4 = 100 rows of 256 bytes
///   Fp8    5 pages of 4 rows, 12 apart (3 layers, K alone):  4 * 12 + 4 = 52 rows of 640 bytes
///   Slots  2 pages of 12 rows, 72 apart:                         72 + 12 = 84 rows of 256 bytes
#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

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
constexpr tma::Swizzle b128 = tma::Swizzle::b128;

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

/// What a map says, innermost dimension first; strides without the innermost.
struct Expected {
  uint64_t base = 0;
  tma::DataType dtype = tma::DataType::bf16;
  tma::Swizzle swizzle = tma::Swizzle::none;
  std::vector<int64_t> dims, strides_bytes, box;
  tma::L2Promotion l2 = tma::L2Promotion::none;
};
template <class Tile>
void expect_map(const Tile& tile, const Expected& expected) {
  const tma::TensorMap& map = tile.map;
  ASSERT_EQ(map.rank, static_cast<int>(expected.dims.size()));
  EXPECT_EQ(map.base, expected.base);
  EXPECT_EQ(map.dtype, expected.dtype);
  EXPECT_EQ(map.swizzle, expected.swizzle);
  EXPECT_EQ(map.l2_promotion, expected.l2);
  EXPECT_EQ(std::vector<int64_t>(map.dim, map.dim + map.rank), expected.dims);
  EXPECT_EQ(std::vector<int64_t>(map.box, map.box + map.rank), expected.box);
  EXPECT_EQ(std::vector<int64_t>(map.stride_bytes + 1, map.stride_bytes + map.rank),
            expected.strides_bytes);
  EXPECT_TRUE(tile.check().is_ok()) << tile.check().message();
}
/// Rows with a run-time end: the row dimension is longer than any tile, and the two behind it move
/// its end to that of the sequence (2^30 rows up, 2^30 down; 2^34 * 2^30 bytes are 2^64).
constexpr int64_t ragged_rows = int64_t{1} << 30, ragged_wrap = int64_t{1} << 34;

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
  expect_map(cache.create_tma_tile<b128, 4>(), {.base = tma::address_of(cache.blocks.data),
                                                .swizzle = b128,
                                                .dims = {64, 2, 100},
                                                .strides_bytes = {128, 256},
                                                .box = {64, 1, 4}});
  expect_map(slots().create_tma_tile<b128, 64>(), {.base = tma::address_of(slots().blocks.data),
                                                   .swizzle = b128,
                                                   .dims = {64, 2, 84},
                                                   .strides_bytes = {128, 256},
                                                   .box = {64, 1, 64}});  // nothing is paged
}
TEST(KVCacheT_create_ragged_tma_tile, ends_where_the_sequence_does) {
  static_assert(std::is_same_v<decltype(std::declval<Slots>().create_ragged_tma_tile<b128, 64>()),
                               RaggedTMA3DTile>);
  Expected expected{.base = tma::address_of(slots().blocks.data),
                    .swizzle = b128,
                    .dims = {64, 2, ragged_rows, 84 + 1, ragged_rows + 1},
                    .strides_bytes = {128, 256, 256, ragged_wrap - 256},
                    .box = {64, 1, 64, 1, 1}};
  expect_map(slots().create_ragged_tma_tile<b128, 64>(), expected);
  expected.box = {64, 2, 32, 1, 1};  // 32 keys of both heads
  expect_map(slots().create_ragged_tma_tile<b128, 64, 64, 2>(), expected);
}
TEST(KVCacheT_create_rope_tma_tile, sees_bf16_behind_the_content) {
  static_assert(std::is_same_v<decltype(std::declval<Slots>()
                                            .create_rope_tma_tile<tma::Swizzle::b32, 4, 16, 96>()),
                               TMATensorTile<3>>);
  expect_map(slots().create_rope_tma_tile<tma::Swizzle::b32, 4, 16, 96>(),
             {.base = tma::address_of(slots().blocks.data) + 96,
              .swizzle = tma::Swizzle::b32,
              .dims = {16, 2, 84},
              .strides_bytes = {128, 256},
              .box = {16, 1, 4}});
}
TEST(KVCacheT_create_gather4_tma_tile, sees_whole_rows) {
  static_assert(std::is_same_v<decltype(std::declval<Slots>().create_gather4_tma_tile<128>()),
                               TMATensorTile<2>>);
  const auto tile = slots()
                        .create_gather4_tma_tile<128, 128, b128, 64, tma::DataType::bf16,
                                                 tma::L2Promotion::b128>();
  expect_map(tile, {.base = tma::address_of(slots().blocks.data),
                    .swizzle = b128,
                    .dims = {128, 84},
                    .strides_bytes = {256},
                    .box = {64, 1},
                    .l2 = tma::L2Promotion::b128});
  EXPECT_EQ(tile.tile_shape, (IndexList<2>{{64, 64}}));
}
TEST(KVCacheT_create_rope_gather4_tma_tile, is_of_rows_of_one_head) {
  static_assert(HasRopeGather4<Fp8> && !HasRopeGather4<Slots>);
  const Fp8 cache = paged<Fp8Collection>().key(1);
  expect_map(cache.create_rope_gather4_tma_tile<64, 512, b128>(),
             {.base = tma::address_of(cache.blocks.data) + 512,
              .swizzle = b128,
              .dims = {64, 52},
              .strides_bytes = {640},
              .box = {64, 1}});
}

// ---- PagedKVCache

TEST(PagedKVCache_create_tma_tile, cuts_tiles_at_pages) {
  static_assert(
      std::is_same_v<decltype(std::declval<Bf16>().create_tma_tile<b128, 64>()), TMATensorTile<3>>);
  static_assert(
      std::is_same_v<decltype(std::declval<Bf16>().create_tma_tile<tma::Swizzle::b64, 64, 64, 2>()),
                     TMATensorTile<4>>);
  const Bf16 cache = paged<Bf16Collection>().value(2);
  const auto tile = cache.create_tma_tile<b128, 64>();
  EXPECT_EQ(tile.map.base, tma::address_of(cache.block_paged_ptr<1>(1, 0, 0)))
      << "page 0 of the plane";
  expect_map(tile, {.base = tma::address_of(cache.blocks.data),
                    .swizzle = b128,
                    .dims = {64, 2, 100},
                    .strides_bytes = {128, 256},
                    .box = {64, 1, 4}});
  EXPECT_EQ(tile.tile_shape, (IndexList<3>{{64, 1, 64}}));
  EXPECT_EQ(tile.box_shape, (IndexList<3>{{4, 1, 64}}));
  expect_map(cache.create_tma_tile<tma::Swizzle::b64, 64, 64, 2>(),
             {.base = tma::address_of(cache.blocks.data),
              .swizzle = tma::Swizzle::b64,
              .dims = {32, 100, 2, 2},  // columns of a chunk, rows, chunks, heads
              .strides_bytes = {256, 64, 128},
              .box = {32, 4, 2, 1}});
}
TEST(PagedKVCache_create_gather4_tma_tile, sees_fp8_rows_as_int64) {
  static_assert(
      std::is_same_v<decltype(std::declval<Fp8>().create_gather4_tma_tile<640, 640, b128>()),
                     TMATensorTile<2>>);
  const Fp8 cache = paged<Fp8Collection>().key(1);
  expect_map(cache.create_gather4_tma_tile<80, 80, tma::Swizzle::none, 64, tma::DataType::i64,
                                           tma::L2Promotion::b256>(),
             {.base = tma::address_of(cache.blocks.data),
              .dtype = tma::DataType::i64,
              .dims = {80, 52},
              .strides_bytes = {640},
              .box = {80, 1},
              .l2 = tma::L2Promotion::b256});
}
TEST(PagedKVCache_create_ragged_tma_tile, stays_in_its_page) {
  static_assert(std::is_same_v<decltype(std::declval<Bf16>().create_ragged_tma_tile<b128, 64>()),
                               RaggedTMA3DTile>);
  const Bf16 cache = paged<Bf16Collection>().value();
  const auto tile = cache.create_ragged_tma_tile<b128, 64>();
  expect_map(tile, {.base = tma::address_of(cache.blocks.data),
                    .swizzle = b128,
                    .dims = {64, 2, ragged_rows, 100 + 1, ragged_rows + 1},
                    .strides_bytes = {128, 256, 256, ragged_wrap - 256},
                    .box = {64, 1, 4, 1, 1}});
  EXPECT_EQ(tile.sequence_rows(), 4);
}
TEST(PagedKVCache_create_rope_tma_tile, offsets_the_rows_by_the_content) {
  static_assert(
      std::is_same_v<decltype(std::declval<Fp8>().create_rope_tma_tile<b128, 64, 64, 512>()),
                     TMATensorTile<3>>);
  const Fp8 cache = paged<Fp8Collection>().key(1);
  expect_map(cache.create_rope_tma_tile<b128, 64, 64, 512>(),
             {.base = tma::address_of(cache.blocks.data) + 512,
              .swizzle = b128,
              .dims = {64, 1, 52},
              .strides_bytes = {640, 640},
              .box = {64, 1, 4}});
}
TEST(PagedKVCache_create_rope_gather4_tma_tile, has_the_pitch_of_the_whole_row) {
  static_assert(
      std::is_same_v<decltype(std::declval<Fp8>().create_rope_gather4_tma_tile<64, 512>()),
                     TMATensorTile<2>>);
  const Fp8 cache = paged<Fp8Collection>().key(1);
  const auto tile = cache.create_rope_gather4_tma_tile<64, 512, b128, 16, tma::L2Promotion::b64>();
  expect_map(tile, {.base = tma::address_of(cache.blocks.data) + 512,
                    .swizzle = b128,
                    .dims = {64, 52},
                    .strides_bytes = {640},
                    .box = {64, 1},
                    .l2 = tma::L2Promotion::b64});
  EXPECT_EQ(tile.tile_shape, (IndexList<2>{{16, 64}}));
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
