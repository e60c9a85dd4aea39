// SPDX-License-Identifier: Apache-2.0
/// tests/attention/foreign_types_test.cpp: every concept has a stranger's model, and every operand
/// and helper over those works, or does not exist.
#include "support/foreign_types.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "folio/attention/kv_buffer.h"
#include "folio/attention/operand.h"
#include "folio/cache/static_view.h"
#include "folio/core/element.h"
#include "support/kv_buffer_configs.h"

namespace folio::test {
namespace {

using stranger::ChunkedKeys, stranger::HeadMajorPlanes, stranger::PaddedCache, stranger::TiledCache,
    stranger::TiledKeys;
using HeadMajor = stranger::HeadMajorCache<12>;

static_assert(KVCacheT<HeadMajor> && KVCacheT<PaddedCache> && KVCollectionT<HeadMajorPlanes>);
static_assert(TmaKVCache<TiledCache> && !TmaKVCache<HeadMajor> && !TmaKVCache<PaddedCache>);
static_assert(MHAOperand<ChunkedKeys> && !TmaMHAOperand<ChunkedKeys>);
static_assert(MHAOperand<TiledKeys> && TmaMHAOperand<TiledKeys>);

/// What a key holds: unique, and not 0.
float value_of(int64_t b, int64_t token, int64_t head, int64_t dim) {
  return static_cast<float>(((b * 64 + token) * 2 + head) * 64 + dim + 1);
}
int8_t code_of(int64_t b, int64_t token, int64_t head, int64_t dim) {
  return static_cast<int8_t>(((b * 64 + token) * 29 + head * 53 + dim * 7) % 251 - 125);
}
float scale_of(int64_t b, int64_t token, int64_t head, int64_t granule) {
  return static_cast<float>((b * 7 + token * 3 + head * 5 + granule) % 13 + 1) / 4.0f;
}

/// Two sequences of 11 and 6 keys in head-major pages; page 1 of the second is missing.
class HeadMajorPages : public ::testing::Test {
 protected:
  static constexpr uint32_t lengths[2] = {11, 6};
  HeadMajorPages() {
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t token = 0; token < lengths[b]; ++token)
        for (int64_t head = 0; head < 2; ++head)
          for (int64_t d = 0; d < 12; ++d)
            cache.store(b, head, token, d, Vec<float, 1>{{value_of(b, token, head, d)}});
  }
  std::vector<float> pool = std::vector<float>(6 * 2 * 4 * 12, -1.0f);
  const int32_t first[3] = {5, 0, 3}, second[3] = {2, -1, -1};
  const int32_t* const lists[2] = {first, second};
  const HeadMajor cache{pool.data(), 6, lists, lengths, 2};
};

class PaddedRows : public ::testing::Test {
 protected:
  static constexpr uint32_t lengths[2] = {64, 40};
  PaddedRows() {
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t token = 0; token < 64; ++token) {
        for (int64_t head = 0; head < 2; ++head) {
          for (int64_t d = 0; d < 12; ++d)
            cache.store(b, head, token, d, Vec<int8_t, 1>{{code_of(b, token, head, d)}});
          for (int64_t g = 0; g < 3; ++g)
            cache.store_scale(b, head, token, g * 5, Vec<float, 1>{{scale_of(b, token, head, g)}});
        }
      }
    }
  }
  std::vector<int8_t> codes = std::vector<int8_t>(2 * 4096);
  std::vector<float> scales = std::vector<float>(2 * 2 * 3 * 64);
  const PaddedCache cache{codes.data(), scales.data(), lengths};
};

// ---- what a type leaves out

TEST(KVCacheTraits, have_the_defaults_of_the_trait) {
  static_assert(!KVCacheTraits<HeadMajor>::quantization_enabled &&
                KVCacheTraits<HeadMajor>::quantization_granularity == 1 &&
                KVCacheTraits<HeadMajor>::scale_dtype == DType::invalid);
  static_assert(KVCacheTraits<PaddedCache>::quantization_enabled &&
                KVCacheTraits<PaddedCache>::quantization_granularity == 5 &&
                KVCacheTraits<PaddedCache>::scale_dtype == DType::f32);
  using Operand = KVCacheMHAOperand<HeadMajor>;
  EXPECT_FALSE(Operand::quantization_enabled);
  EXPECT_EQ(Operand::quantization_granularity, 1);
  EXPECT_EQ(Operand::scale_dtype, DType::invalid);
}
struct SaysItIsQuantised : HeadMajor {
  using device_type = SaysItIsQuantised;
  static constexpr bool quantization_enabled = true;
  SaysItIsQuantised copy() const { return *this; }
};
static_assert(!KVCacheT<SaysItIsQuantised>, "it has neither scales nor their type");

template <class C> concept HasView = requires(const C& c) { view_of(c); };
template <class C> concept HasTable = requires(const C& c) { table_of(c); };
template <class C> concept HasTables = requires(const C& c) { tables_of(c); };
template <class C>
concept IsMadeOfAView = requires(const PagedKVView& v, const CacheTables& t) { cache_of<C>(v, t); };
using Folios = PagedKVCache<DType::f32, KVCacheStaticParams{2, 12}, 4>;

TEST(Helpers, of_folio_s_own_caches_do_not_exist_for_others) {
  static_assert(HasView<Folios> && HasTable<Folios> && HasTables<Folios> && IsMadeOfAView<Folios>);
  static_assert(!HasView<HeadMajor> && !HasTable<HeadMajor> && !HasTables<HeadMajor> &&
                !IsMadeOfAView<HeadMajor>);
  static_assert(!HasView<PaddedCache> && !HasTable<PaddedCache> && !HasTables<PaddedCache> &&
                !IsMadeOfAView<PaddedCache>);
  EXPECT_TRUE(KVCacheT<Folios>);
}

template <class O>
concept HasTile = requires(const O o) { o.template create_tma_tile<tma::Swizzle::b64, 4, 16>(); };
TEST(TmaMHAOperand, is_false_for_an_operand_over_a_cache_without_tiles) {
  static_assert(MHAOperand<KVCacheMHAOperand<HeadMajor>> &&
                !TmaMHAOperand<KVCacheMHAOperand<HeadMajor>> &&
                !HasTile<KVCacheMHAOperand<HeadMajor>>);
  static_assert(MHAOperand<KVCacheMHAOperand<PaddedCache>> &&
                !TmaMHAOperand<KVCacheMHAOperand<PaddedCache>> &&
                !TmaMHAOperand<KVCacheScalesMHAOperand<PaddedCache>>);
  static_assert(TmaMHAOperand<KVCacheMHAOperand<TiledCache>>);
  EXPECT_TRUE(HasTile<KVCacheMHAOperand<TiledCache>>);
}

// ---- operands

/// Walks a head run by run; keys without memory are zeros.
template <class Operand, class Check>
void walk(const Operand& operand, int64_t b, int64_t length, int64_t head, Check check) {
  using element = element_t<Operand::dtype>;
  for (int64_t token = 0; token < length;) {
    const OperandRun run = operand.run(b, token, head);
    ASSERT_GE(run.rows, 1);
    for (int64_t i = 0; i < run.rows && token < length; ++i, ++token)
      check(token, run.data != nullptr
                       ? reinterpret_cast<const element*>(run.data + i * run.slot_stride_bytes)
                       : nullptr);
  }
}

TEST_F(HeadMajorPages, are_walked_as_they_lie) {
  const KVCacheMHAOperand<HeadMajor> operand{cache};
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t head = 0; head < 2; ++head)
      walk(operand, b, lengths[b], head, [&](int64_t token, const float* row) {
        ASSERT_EQ(row == nullptr, b == 1 && token >= 4) << token;
        for (int d = 0; row != nullptr && d < 12; ++d)
          ASSERT_EQ(row[d], (cache.load<1>(b, head, token, d)[0]));
      });
  EXPECT_EQ(operand.run(0, 5, 1).slot_stride_bytes, 12 * 4);
  EXPECT_EQ(operand.run(0, 7, 1).slot_stride_bytes, 12 * 4) << "the last key of a page, too";
}

TEST_F(HeadMajorPages, forward_everything_else) {
  const KVCacheMHAOperand<HeadMajor> operand{cache};
  EXPECT_EQ(*operand.block_paged_ptr<4>(0, 8, 1, 3), value_of(0, 8, 1, 3));
  EXPECT_EQ(operand.scales_block_paged_ptr(0, 0, 0), nullptr);
  EXPECT_EQ(operand.scales_raw_ptr(), nullptr);
  EXPECT_EQ(operand.cache_length(0), 11);
  EXPECT_EQ(operand.max_context_length(), 64u);
  EXPECT_EQ(operand.num_kv_rows(), 48);
  EXPECT_EQ(operand.row_idx(0, 5), 1);
  EXPECT_EQ(operand.get_tma_row(2 * 4 + 3), 2 * 8 + 3);
  EXPECT_EQ((operand.populate<4, 4>(0, 8)), 3 * 8);
}

TEST_F(PaddedRows, are_walked_backwards) {
  const KVCacheMHAOperand<PaddedCache> operand{cache};
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t head = 0; head < 2; ++head)
      walk(operand, b, 64, head, [&](int64_t token, const int8_t* row) {
        for (int d = 0; d < 12; ++d) ASSERT_EQ(row[d], code_of(b, token, head, d));
      });
  EXPECT_EQ(operand.run(0, 0, 0).slot_stride_bytes, -40);
  EXPECT_EQ(operand.run(0, 63, 0).slot_stride_bytes, -40);
  EXPECT_EQ(operand.run(0, 64, 0).rows, 0) << "past the longest context";
  EXPECT_EQ((operand.load_scale<2>(1, 9, 1, 6)),
            (Vec<float, 2>{{scale_of(1, 9, 1, 1), scale_of(1, 9, 1, 2)}}));
  EXPECT_EQ(*operand.scales_block_paged_ptr(1, 9, 1, 11), scale_of(1, 9, 1, 2));
  EXPECT_EQ(operand.scales_raw_ptr(), scales.data());
  EXPECT_EQ(operand.row_idx(1, 5), 69);
}

TEST_F(PaddedRows, have_scales_that_are_an_operand_themselves) {
  using Operand = KVCacheScalesMHAOperand<PaddedCache>;
  static_assert(MHAOperand<Operand> && Operand::dtype == DType::f32 &&
                Operand::quantization_granularity == 5 && Operand::quantization_enabled);
  const Operand operand{cache};
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t head = 0; head < 2; ++head)
      walk(operand, b, 64, head,
           [&](int64_t token, const float* row) { ASSERT_EQ(*row, scale_of(b, token, head, 0)); });
  EXPECT_EQ(*operand.block_paged_ptr<1>(1, 9, 1, 6), scale_of(1, 9, 1, 1));
  EXPECT_EQ(operand.num_kv_rows(), 128) << "rows are the cache's";
  EXPECT_EQ(operand.row_idx(1, 5), 69);
  EXPECT_EQ(operand.get_tma_row(70), 70);
  EXPECT_EQ((operand.populate<64, 64>(1, 0)), 64);
}

TEST_F(HeadMajorPages, of_all_layers_are_a_collection) {
  std::vector<float> layers(4 * pool.size());
  HeadMajorPlanes planes{{layers.data(), 6, lists, lengths, 2}};
  planes.get_value_cache(1).store(0, 1, 9, 0, Vec<float, 2>{{3.0f, 4.0f}});
  EXPECT_EQ(layers[3 * pool.size() + ((3 * 2 + 1) * 4 + 1) * 12 + 1], 4.0f);
  const KVCacheMHAOperand<HeadMajor> value{planes.get_value_cache(1)};
  EXPECT_EQ(*value.block_paged_ptr<1>(0, 9, 1, 1), 4.0f);
  EXPECT_EQ(planes.cache_length(1), 6);
}

// ---- KVBuffer

template <DType Staged>
struct Converted : ThreadKeys<32> {
  static constexpr IndexList<3> mma_shape{16, 16, 32};
  static constexpr int bk_smem = 32, cache_depth = 32;
  static constexpr DType smem_dtype = Staged;
  template <class Shape>
  using Loader = InPlaceLoader<Shape>;
};
template <DType Staged>
struct Tiled : Converted<Staged> {
  template <class Shape>
  using Loader = TileLoader<Shape>;
};

template <class Config, class Operand, class Expected>
void expect_staged(const Operand& operand, int64_t b, int64_t head, int64_t end,
                   Expected expected) {
  using Buffer = KVBuffer<Operand, Config>;
  std::vector<typename Buffer::smem_type> smem(Buffer::smem_elements);
  Buffer buffer(operand, b, head, {smem.data(), {}}, end);
  for (int64_t first = 0; first < end + 64; first += 64) {
    buffer.template load_from_dram<0>();
    for (int key = 0; key < 64; ++key)
      for (int d = 0; d < 32; ++d)
        ASSERT_EQ(to_float(buffer.loader().at(0, key, d)),
                  first + key < end ? expected(first + key, d) : 0.0f)
            << "key " << first + key << ", dim " << d;
  }
}

TEST_F(HeadMajorPages, are_staged) {
  const KVCacheMHAOperand<HeadMajor> operand{cache};
  for (int64_t b = 0; b < 2; ++b) {
    const auto expected = [&](int64_t token, int d) {
      return d >= 12 || (b == 1 && token >= 4) ? 0.0f : value_of(b, token, 1, d);
    };
    expect_staged<Converted<DType::f32>>(operand, b, 1, lengths[b], expected);
    expect_staged<Tiled<DType::f32>>(operand, b, 1, lengths[b], expected);
  }
}

TEST_F(PaddedRows, are_staged_times_their_scales) {
  const KVCacheMHAOperand<PaddedCache> operand{cache};
  const auto product = [&](int64_t token, int d) {
    return d >= 12 ? 0.0f
                   : static_cast<float>(code_of(1, token, 1, d)) * scale_of(1, token, 1, d / 5);
  };
  expect_staged<Converted<DType::f32>>(operand, 1, 1, 40, product);
  expect_staged<Tiled<DType::f32>>(operand, 1, 1, 40, product);
  expect_staged<Converted<DType::bf16>>(operand, 1, 1, 40, [&](int64_t token, int d) {
    return to_float(from_float<bf16>(product(token, d)));
  });
  expect_staged<Converted<DType::f32>>(KVCacheScalesMHAOperand<PaddedCache>{cache}, 0, 0, 0,
                                       [](int64_t, int) { return 0.0f; });
}

TEST(ChunkedKeys, are_staged_each_chunk_at_its_own_pitch) {
  std::vector<float> memory(70 * 200);
  const ChunkedKeys::Chunk chunks[4] = {{0, 20, memory.data(), 130},
                                        {20, 30, memory.data() + 20 * 200 + 29 * 128, -128},
                                        {50, 5, nullptr, 0},
                                        {55, 15, memory.data() + 50 * 200, 200}};
  for (const auto& c : chunks)
    for (int64_t i = 0; c.data != nullptr && i < c.keys; ++i)
      for (int64_t head = 0; head < 2; ++head)
        for (int64_t d = 0; d < 64; ++d)
          memory[static_cast<size_t>(c.data - memory.data() + i * c.pitch + head * 64 + d)] =
              value_of(0, c.first + i, head, d);
  const ChunkedKeys operand{chunks, 4, 70};
  expect_staged<Converted<DType::f32>>(operand, 0, 1, 70, [](int64_t token, int d) {
    return token >= 50 && token < 55 ? 0.0f : value_of(0, token, 1, d);
  });
}

// ---- TMA

TEST(TiledCache, gives_the_operand_its_plane) {
  alignas(128) static float pool[3 * 2 * 4 * 16] = {};
  TiledCache cache;
  cache.pool = pool;
  cache.pages = 3;
  const KVCacheMHAOperand<TiledCache> operand{cache};
  const auto tile = operand.create_tma_tile<tma::Swizzle::b64, 4, 16>();
  EXPECT_TRUE(tile.check().is_ok()) << tile.check().message();
  EXPECT_EQ(tile.map, (cache.create_tma_tile<tma::Swizzle::b64, 4>().map));
  EXPECT_EQ(tile.map.stride_bytes[2], 64) << "from key to key";
  EXPECT_EQ(tile.map.stride_bytes[1], 4 * 64) << "from head to head";
}

TEST(TiledKeys, have_tiles) {
  alignas(128) static float rows[32 * 64] = {};
  const ChunkedKeys::Chunk chunk{0, 32, rows, 64};
  TiledKeys keys;
  keys.chunks = &chunk;
  keys.length = 32;
  const auto tile = keys.create_tma_tile<tma::Swizzle::b128, 16, 64>();
  EXPECT_TRUE(tile.check().is_ok()) << tile.check().message();
  EXPECT_EQ(tile.map.dim[2], 32);
}

}  // namespace
}  // namespace folio::test
