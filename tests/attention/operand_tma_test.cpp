// SPDX-License-Identifier: Apache-2.0
/// tests/attention/operand_tma_test.cpp: the TMA tiles of operands: the cache's, with a depth; of
/// tensors and views, with run-time sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "folio/attention/operand.h"
#include "folio/cache/continuous_kv_cache.h"
#include "folio/cache/paged_kv_cache.h"
#include "folio/core/element.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

constexpr KVCacheStaticParams latent{1, 576, true};
using Latent = PagedKVCache<DType::bf16, latent, 64>;
constexpr KVCacheStaticParams scaled{2, 128};
using Scaled = PagedKVCache<DType::f8_e4m3, scaled, 16, DType::f32, 128>;
constexpr KVCacheStaticParams odd{3, 20};
constexpr tma::Swizzle b128 = tma::Swizzle::b128;

static_assert(TmaMHAOperand<KVCacheMHAOperand<Latent>> && TmaMHAOperand<KVCacheMHAOperand<Scaled>>);
static_assert(TmaMHAOperand<KVCacheMHAOperand<ContinuousKVCache<DType::i8, scaled>>>);
static_assert(TmaMHAOperand<TensorMHAOperand<DType::bf16>> &&
              TmaMHAOperand<TensorMHAOperand<DType::i8, DType::f32, 32>>);
static_assert(TmaMHAOperand<RaggedMHAOperand<DType::f16>> &&
              TmaMHAOperand<RaggedMHAOperand<DType::f8_e5m2, DType::f32>>);
static_assert(TmaMHAOperand<ViewMHAOperand<DType::f32>> &&
              TmaMHAOperand<ViewMHAOperand<DType::i8, DType::f8_e8m0>>);
static_assert(MHAOperand<KVCacheScalesMHAOperand<Scaled>> &&
              !TmaMHAOperand<KVCacheScalesMHAOperand<Scaled>>);
static_assert(!TmaMHAOperand<KVCacheMHAOperand<PagedKVCache<DType::bf16, odd, 16>>>);

/// Memory by address only.
alignas(1024) std::byte memory[1024];
template <class T>
T* at() {
  return reinterpret_cast<T*>(memory);
}

TensorMHAOperand<DType::f8_e4m3, DType::f32, 32> dense(int64_t dim = 96) {
  TensorMHAOperand<DType::f8_e4m3, DType::f32, 32> operand;
  operand.tensor = {at<f8_e4m3>(), row_major<IntTuple<-1, -1, -1, -1>>(3, 50, 2, dim)};
  operand.scales = {at<float>(), row_major<IntTuple<-1, -1, -1, -1>>(3, 50, 2, 3)};
  return operand;
}
RaggedMHAOperand<DType::bf16, DType::f16, 64> ragged() {
  RaggedMHAOperand<DType::bf16, DType::f16, 64> operand;
  operand.tensor = {at<bf16>(), row_major<IntTuple<-1, -1, -1>>(123, 4, 128)};
  operand.scales = {at<f16>(), row_major<IntTuple<-1, -1, -1>>(123, 4, 2)};
  return operand;
}
ViewMHAOperand<DType::bf16> head_major() {
  ViewMHAOperand<DType::bf16> operand;
  operand.view = {memory, DType::bf16, 4, 128, 16, 10, 4 * 16 * 256, 256, 16 * 256};
  return operand;
}

template <class Tile>
void expect_same(const Tile& made, const Tile& expected) {
  EXPECT_EQ(made, expected);
  EXPECT_TRUE(made.check().is_ok()) << made.check().message();
}

TEST(KVCacheMHAOperand, shows_the_first_columns_of_a_head) {
  Latent cache;
  cache.blocks = {at<bf16>(), Latent::blocks_tt_layout(7, 61 * 64 * 576)};
  const KVCacheMHAOperand<Latent> operand{cache};
  const auto whole = operand.create_tma_tile<b128, 64, 576>();
  expect_same(whole, cache.create_tma_tile<b128, 64>());
  const auto values = operand.create_tma_tile<b128, 64, 512>();
  expect_same(values, cache.create_latent_tma_tile<b128, 64, 512>());
  EXPECT_EQ(values.map.dim[0], 512);
  EXPECT_EQ(values.map.stride_bytes[2], 576 * 2) << "rows are as far apart as in the cache";
  EXPECT_EQ((operand.create_ragged_tma_tile<b128, 64, 512>().map.dim[0]), 512);
  EXPECT_EQ((operand.create_page_tma_tile<b128, 64, 512>().map.dim[2]), 8);
  expect_same(operand.create_rope_tma_tile<b128, 64, 64, 1024>(),
              cache.create_rope_tma_tile<b128, 64, 64, 1024>());
  expect_same(operand.create_gather4_tma_tile<576, 576, b128, 64>(),
              cache.create_gather4_tma_tile<576, 576, b128, 64>());
  expect_same(operand.create_rope_gather4_tma_tile<64, 1024, b128>(),
              cache.create_rope_gather4_tma_tile<64, 1024, b128>());
}

TEST(TensorMHAOperand, describes_rows_of_all_sequences) {
  const auto tile = dense().create_tma_tile<b128, 64, 96>();
  EXPECT_TRUE(tile.check().is_ok()) << tile.check().message();
  EXPECT_THAT(tile.map.dim, testing::ElementsAre(96, 2, 150, 1, 1));
  EXPECT_THAT(tile.map.stride_bytes, testing::ElementsAre(1, 96, 192, 0, 0));
  EXPECT_EQ(tile.box_shape, (IndexList<3>{{64, 1, 128}}));
  EXPECT_EQ(tile.map.dtype, tma::DataType::u8);
}
TEST(TensorMHAOperand, refuses_run_time_sizes_that_no_tile_fits) {
  const auto message = [](const auto& tile) { return std::string(tile.check("tile").message()); };
  EXPECT_THAT(message(dense().create_tma_tile<b128, 64, 128>()),
              HasSubstr("tile: depth is 128, the head has 96 columns there"));
  EXPECT_THAT(message(dense(72).create_tma_tile<b128, 64, 64>()),
              HasSubstr("stride_bytes[1] is 72, expected a multiple of 16"));
  EXPECT_THAT(message(dense().create_rope_tma_tile<tma::Swizzle::b32, 64, 16, 48>()),
              HasSubstr("the head is described as 80 bytes, it has 96"));
  EXPECT_THAT(message(dense().create_gather4_tma_tile<96, 96, b128>()),
              HasSubstr("the row is described as 96 bytes, it has 192"));
  EXPECT_TRUE((dense().create_gather4_tma_tile<192, 192, b128>().check().is_ok()));
  EXPECT_TRUE((dense().create_rope_tma_tile<tma::Swizzle::b32, 64, 16, 64>().check().is_ok()));
  EXPECT_FALSE((TensorMHAOperand<DType::bf16>().create_tma_tile<b128, 64, 64>().check().is_ok()))
      << "no tensor";
}
TEST(TensorMHAOperand, describes_its_scales_flat) {
  const auto tile = dense().create_scale_tma_tile<64>();
  expect_same(tile, tma::scale_tile(tma::address_of(memory), DType::f32, 3 * 50 * 2 * 3, 64));
  EXPECT_EQ(tile.map.dim[0], 900);
  auto without = dense();
  without.scales.data = nullptr;
  EXPECT_THAT(std::string(without.create_scale_tma_tile<64>().check().message()),
              HasSubstr("base is null"));
}

TEST(RaggedMHAOperand, describes_rows_and_groups_of_heads) {
  const auto plane = ragged().tma_plane();
  expect_same(ragged().create_tma_tile<b128, 64, 128>(),
              tma::cache_tile(plane, {.swizzle = b128, .rows = 64}));
  expect_same(ragged().create_ragged_tma_tile<b128, 64, 128>(),
              tma::ragged_tile(plane, {.swizzle = b128, .rows = 64}));
  const auto grouped = ragged().create_ragged_tma_tile<b128, 64, 128, 128, 4>();
  expect_same(grouped, tma::ragged_tile(plane, {.swizzle = b128, .rows = 64}, 4));
  EXPECT_EQ(grouped.sequence_rows(), 16);
  EXPECT_EQ(grouped.map.dim[3], 124) << "sequences end at any of 123 rows";
  EXPECT_EQ((ragged().create_ragged_tma_tile<b128, 63, 128, 128, 3>().fault().rule),
            tma::Rule::group)
      << "four heads";
  EXPECT_EQ((ragged().create_tma_tile<b128, 64, 128, 128, 2>().map.rank), 4);
  EXPECT_EQ((ragged().create_scale_tma_tile<128>().map.dim[0]), 123 * 4 * 2)
      << "tokens, not heads, in front";
}
TEST(RaggedMHAOperand, has_scales_of_its_tokens) {
  alignas(16) const uint32_t offsets[] = {0, 2, 5};
  f16 scales[5 * 4 * 2];
  for (int i = 0; i < 40; ++i) scales[i] = from_float<f16>(static_cast<float>(i));
  auto operand = ragged();
  operand.cache_row_offsets = offsets;
  operand.scales = {scales, row_major<IntTuple<-1, -1, -1>>(5, 4, 2)};
  EXPECT_EQ(operand.scales_block_paged_ptr(1, 1, 3, 70), scales + (3 * 4 + 3) * 2 + 1);
  EXPECT_EQ((operand.load_scale<2>(1, 1, 3, 0)), (Vec<f16, 2>{{scales[30], scales[31]}}));
  EXPECT_EQ(operand.scales_raw_ptr(), scales);
  EXPECT_EQ(ragged().quantization_granularity, 64);
  EXPECT_EQ(RaggedMHAOperand<DType::bf16>().scales_block_paged_ptr(0, 0, 0), nullptr);
}

TEST(ViewMHAOperand, describes_head_major_pages) {
  const auto rows = head_major().create_tma_tile<b128, 64, 128>();
  EXPECT_TRUE(rows.check().is_ok()) << rows.check().message();
  EXPECT_EQ(rows.box_shape[0], 16) << "the page, known at run time";
  EXPECT_THAT(rows.map.stride_bytes, testing::ElementsAre(2, 16 * 256, 256, 0, 0));
  const auto pages = head_major().create_page_tma_tile<b128, 64, 128>();
  EXPECT_TRUE(pages.check().is_ok());
  EXPECT_THAT(pages.map.dim, testing::ElementsAre(64, 16, 2, 4, 10));
}
TEST(ViewMHAOperand, refuses_page_sizes_that_no_tile_fits) {
  auto operand = head_major();
  operand.view.page_size = 48;
  EXPECT_EQ((operand.create_tma_tile<b128, 64, 128>().fault().rule), tma::Rule::tile_rows);
  operand.view.page_size = 1;
  EXPECT_EQ((operand.create_tma_tile<tma::Swizzle::b32, 64, 128>().fault().rule),
            tma::Rule::box_destination);
}
TEST(ViewMHAOperand, of_unbounded_pages_is_rows) {
  auto operand = head_major();
  operand.view = {memory, DType::bf16, 4, 128, unbounded_page_size, 77, 1024, 1024, 256};
  const auto tile = operand.create_tma_tile<b128, 64, 128>();
  EXPECT_TRUE(tile.check().is_ok()) << tile.check().message();
  EXPECT_EQ(tile.box_shape[0], 64);
  EXPECT_EQ(tile.map.dim[2], 77);
  operand.view.num_pages = 0;
  EXPECT_EQ((operand.create_tma_tile<b128, 64, 128>().fault().rule), tma::Rule::extent);
}

}  // namespace
}  // namespace folio::test
