// SPDX-License-Identifier: Apache-2.0
/// tests/attention/kv_buffer_test.cpp: what KVBuffer's parts do beyond the seed's page: iterators,
/// staging in place, ready tiles, loading in pieces, and attention over two buffers.
#include "folio/attention/kv_buffer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include "folio/cache/static_view.h"
#include "folio/core/element.h"
#include "support/kv_buffer_run.h"
#include "support/static_cache.h"

namespace folio::test {
namespace {

using View = ViewMHAOperand<DType::bf16>;

// ---- KVCacheIterator

constexpr KVCacheStaticParams two_heads{2, 64};
using PagedCache = PagedKVCacheCollection<DType::bf16, two_heads, 16>;

/// Keys of a static cache, with the third page unassigned.
class StaticKeys : public ::testing::Test {
 protected:
  StaticKeys() {
    cache.set_row(0, {4, 1, 6, 2, 3});
    for (int64_t token = 0; token < 80; ++token)
      for (int64_t head = 0; head < 2; ++head)
        cache.key(1).store(0, head, token, 0, Vec<bf16, 64>::splat(value(token, head)));
    cache.table()[2] = 7;  // of 7 pages: unassigned
  }
  static bf16 value(int64_t token, int64_t head) {
    return from_float<bf16>(static_cast<float>(token * 2 + head + 1));
  }

  StaticCache<PagedCache> cache{
      {.num_pages = 7, .num_layers = 2, .batch = 1, .max_cache_length = 80}};
};

TEST_F(StaticKeys, are_loaded_as_those_of_the_view_of_the_same_cache) {
  const auto key = cache.key(1);
  const View view{view_of(key), table_of(key), nullptr, 0};
  const KVCacheMHAOperand<PagedCache::CacheType> operand{key};
  using Config = ThreadValues<64>;
  std::vector<bf16> a(2 * 64 * 64), b(2 * 64 * 64);
  KVBuffer<View, Config> of_view(view, 0, 1, {a.data(), {}}, 70);
  KVBuffer<KVCacheMHAOperand<PagedCache::CacheType>, Config> of_cache(operand, 0, 1, {b.data(), {}},
                                                                      70);
  of_view.load_from_dram<0>();
  of_cache.load_from_dram<0>();
  of_view.load_from_dram<1>();
  of_cache.load_from_dram<1>();
  EXPECT_EQ(a, b);
  EXPECT_EQ(a[5 * 64], value(5, 1));
  EXPECT_EQ(a[33 * 64], bf16{}) << "page 2 is unassigned";
  EXPECT_EQ(a[(64 + 5) * 64], value(69, 1));
  EXPECT_EQ(a[(64 + 6) * 64], bf16{});
}

TEST_F(StaticKeys, of_a_tile_within_a_page_are_one_strided_tile) {
  const auto key = cache.key(1);
  KVCacheIterator<KVCacheMHAOperand<PagedCache::CacheType>, 16, 2, 64> iterator({key}, 0, 1, 80);
  iterator.increment();
  const auto& tile = iterator.next_tile();
  EXPECT_EQ(tile.group<16>(0).stride_bytes, 2 * 64 * 2) << "kv_num_heads * cache_depth elements";
  const void* row = key.block_paged_ptr<16>(0, 16, 1);
  EXPECT_EQ(tile.group<16>(0).data, row);
  EXPECT_EQ(iterator.tile_start_row(), 32);
  EXPECT_EQ(iterator.columns(), 64);
}

TEST(KVCacheIterator, never_reads_an_entry_past_the_end) {
  Rng rng(1);
  using Instance = BufferInstance<ThreadKeys<64>, DType::bf16>;
  // three entries, then memory that faults
  const Pool<Instance> pool({.page_size = 16, .context = 33}, rng);
  KVCacheIterator<View, 64, dynamic, 64> iterator(pool.operand(), 0, 0, 33);
  EXPECT_EQ(iterator.next_tile().valid(), 33);
  EXPECT_NE(iterator.next_tile().valid(), 33);
  EXPECT_EQ(iterator.next_tile().row(0), nullptr);
}

TEST(KVCacheIterator, takes_a_tile_that_was_found_before_and_does_not_move) {
  BufferRun<ThreadValues<64>> run(192);
  const PagedKVView view = run.pool.view();
  KeyTile keys;
  keys.first = 128;
  keys.seen = ~uint64_t{0};
  PageCursor(view, {run.pool.table(), 0, nullptr}, 0).find(keys);
  auto& buffer = run.warp();
  for (const int64_t head : {2, 0}) {
    buffer.kv_cache_iter.set_tile(keys, head);
    buffer.load_from_dram<1>();
    EXPECT_EQ(run.block.at(1, 9, 3), run.pool.expected(137, head, 3));
  }
  buffer.load_from_dram<1>();
  EXPECT_EQ(run.block.at(1, 9, 3), run.pool.expected(64 + 9, 0, 3))
      << "the next tile of its own walk, of the head set last";
}

// ---- InPlaceLoader

template <int Depth, DType Staged = DType::bf16>
struct InPlaceKeys : ThreadKeys<Depth> {
  static constexpr int bk_smem = Depth;
  static constexpr DType smem_dtype = Staged;
  template <class Shape>
  using Loader = InPlaceLoader<Shape>;
};

TEST(InPlaceLoader, reads_whole_groups_where_they_lie) {
  BufferRun<InPlaceKeys<128>> run(64, 16);
  const auto view = run.pool.view();
  for (int g = 0; g < 4; ++g) {
    const TileRows group = run.warp().loader().group(0, g);
    EXPECT_EQ(group.data, PageCursor::rows(view, {0, 16, run.pool.table()[g], 0}, run.head).data);
    EXPECT_EQ(group.stride_bytes, view.slot_stride_bytes);
  }
}

TEST(InPlaceLoader, copies_the_groups_at_the_edges) {
  BufferRun<InPlaceKeys<128>> run(40, 64);
  const auto* const own = reinterpret_cast<const std::byte*>(run.block.smem());
  EXPECT_NE(run.warp().loader().group(0, 1).data, own + 16 * 256);
  EXPECT_EQ(run.warp().loader().group(0, 2).data, own + 32 * 256) << "keys 32 .. 39 and zeros";
  EXPECT_EQ(run.warp().loader().group(0, 2).stride_bytes, 256);
  EXPECT_EQ(run.block.at(0, 39, 127), run.key(39, 127));
  EXPECT_EQ(run.block.at(0, 40, 127), 0.0f);
}

TEST(InPlaceLoader, copies_pages_that_are_smaller_than_a_group) {
  BufferRun<InPlaceKeys<64>> run(64, 8);
  for (int g = 0; g < 4; ++g) {
    EXPECT_EQ(run.warp().loader().group(0, g).data,
              reinterpret_cast<const std::byte*>(run.block.smem() + g * 16 * 64));
  }
}

TEST(InPlaceLoader, loads_the_same_whatever_it_prefetches) {
  for (const PrefetchTo to :
       {PrefetchTo::nowhere, PrefetchTo::l1, PrefetchTo::l2, PrefetchTo::non_temporal}) {
    BufferRun<InPlaceKeys<64>> run(64, 16);
    run.warp().loader().prefetch_to = to;
    run.block.load(1);
    EXPECT_EQ(run.block.at(0, 63, 63), run.key(63, 63));
  }
}

TEST(InPlaceLoader, is_paced_by_the_row) {
  BufferRun<InPlaceKeys<64>> run(128, 16);
  auto& buffer = run.warp();
  buffer.begin_load(1);
  int steps = 0;
  while (buffer.load_from_dram_step()) ++steps;
  EXPECT_EQ(steps, 64);
  EXPECT_FALSE(buffer.load_from_dram_step());
}

// ---- TileLoader and StagedTiles

template <class Base, DType Staged = DType::bf16>
struct Tiled : Base {
  static constexpr DType smem_dtype = Staged;
  template <class Shape>
  using Loader = TileLoader<Shape>;
  template <class Shape>
  using Fragments = StagedTiles<Shape>;
};

TEST(TileLoader, packs_pairs_of_dims_of_K_into_tiles_of_16_keys) {
  BufferRun<Tiled<ThreadKeys<64>>> run;
  // [4 groups of 16 keys][2 chunks of 32 dims][16 pairs of dims][16 keys][2]
  EXPECT_EQ(run.raw((((3 * 2 + 1) * 16 + 5) * 16 + 7) * 2 + 1),
            run.key(3 * 16 + 7, 32 + 5 * 2 + 1));
}
TEST(TileLoader, interleaves_pairs_of_keys_of_V_into_tiles_of_16_dims) {
  BufferRun<Tiled<ThreadValues<64>>> run;
  // [4 groups of 16 dims][2 halves of 32 keys][16 pairs of keys][16 dims][2]
  EXPECT_EQ(run.raw((((3 * 2 + 1) * 16 + 5) * 16 + 7) * 2 + 1),
            run.key(32 + 5 * 2 + 1, 3 * 16 + 7));
}
struct Quads : Tiled<ThreadKeys<64>, DType::i8> {
  static constexpr IndexList<3> mma_shape{16, 16, 64};
  static constexpr int BK = 64;
};
TEST(TileLoader, packs_four_elements_of_a_byte) {
  BufferRun<Quads, DType::i8> run;
  EXPECT_EQ(run.raw((5 * 16 + 7) * 4 + 3), run.key(7, 5 * 4 + 3));
}
TEST(StagedTiles, are_addresses_of_tiles_in_staging) {
  BufferRun<Tiled<ThreadKeys<64>>> keys(128);
  keys.block.load(1);
  keys.warp().load_from_shared(1);
  const auto tile = keys.warp().get_mma_tile<0, 1>();
  EXPECT_EQ(tile.data, keys.block.smem() + 64 * 64 + 512) << "stage 1, keys 0 .. 15, dims 32 .. 63";
  EXPECT_EQ(tile.pointer(3, 0), tile.data + 3 * 1024) << "keys 48 .. 63";
  BufferRun<Tiled<ThreadValues<64>>> values;
  values.warp().load_from_shared(0);
  EXPECT_EQ((values.warp().get_mma_tile<0, 1>().pointer(2, 0)),
            values.block.smem() + (2 * 2 + 1) * 512)
      << "keys 32 .. 63, dims 32 .. 47";
}

// ---- registers

template <class Config>
using Op = KVMmaOp<KVBufferShape<View, Config>>;
template <class Config>
using Fp8Op = KVMmaOp<KVBufferShape<ViewMHAOperand<DType::f8_e4m3>, Config>>;

TEST(KVMmaOp, gives_every_element_of_a_tile_to_one_place) {
  const auto expect_bijection = []<class O>(std::type_identity<O>, int lanes, int fragment) {
    std::vector<int> seen(static_cast<size_t>(O::MMA_K * O::MMA_N));
    for (int lane = 0; lane < lanes; ++lane)
      for (int e = 0; e < fragment; ++e) {
        const MmaElement at = O::element_of(lane, e);
        ++seen[static_cast<size_t>(at.k * O::MMA_N + at.n)];
      }
    EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
  };
  expect_bijection(std::type_identity<Op<SeedBf16Depth128>>{}, 64, 8);
  expect_bijection(std::type_identity<Op<SeedBf16Depth256>>{}, 64, 8);
  expect_bijection(std::type_identity<Op<SeedValues>>{}, 64, 8);
  expect_bijection(std::type_identity<Fp8Op<SeedFp8Latent>>{}, 64, 32);
  expect_bijection(std::type_identity<Op<ThreadKeys<64>>>{}, 1, 512);
}
TEST(KVMmaOp, splits_long_fragments_into_halves_of_K) {
  EXPECT_EQ((Op<SeedBf16Depth128>::element_of(33, 3)), (MmaElement{8 + 3, 1}))
      << "one read of 16 bytes";
  EXPECT_EQ((Fp8Op<SeedFp8Latent>::element_of(17, 15)), (MmaElement{16 + 15, 1})) << "two reads";
  EXPECT_EQ((Fp8Op<SeedFp8Latent>::element_of(17, 16)), (MmaElement{64 + 16, 1}));
  EXPECT_EQ((Op<SeedValues>::element_of(33, 4)), (MmaElement{8 + 4, 1}))
      << "V: rows of two halves joined";
}
TEST(KVMmaOp, transposes_its_result_when_operands_are_swapped) {
  BufferRun<SeedBf16Depth128> run;
  run.warp().load_from_shared(0);
  std::vector<bf16> a(2 * 32 * 16);
  for (size_t i = 0; i < a.size(); ++i) a[i] = from_float<bf16>(static_cast<float>(i % 5));
  std::vector<float> c(2 * 2 * 1024), swapped(2 * 2 * 1024);
  run.warp().kv_mma_op.mma<0, 0>(a.data(), 2, c.data());
  run.warp().kv_mma_op.mma<0, 0, true>(a.data(), 2, swapped.data());
  for (size_t tile = 0; tile < 4; ++tile)
    for (size_t m = 0; m < 32; ++m)
      for (size_t n = 0; n < 32; ++n)
        ASSERT_EQ(swapped[tile * 1024 + n * 32 + m], c[tile * 1024 + m * 32 + n]);
}
TEST(KVMmaOp, zeroes_the_pad_of_a_strip_of_several_steps) {
  BufferRun<SeedPartialStrip> run;  // 16 valid columns of 64: the first of four steps
  auto& buffer = run.warp();
  for (int lane = 0; lane < 64; ++lane)
    for (int e = 0; e < 8; ++e) {
      buffer.get_mma_tile<1, 1>(lane)(0, e) = bf16{0x7fc0};
      buffer.get_mma_tile<3, 1>(lane)(1, e) = bf16{0x7fc0};
    }
  buffer.load_from_shared(0);
  EXPECT_TRUE(std::isnan(run.reg<1, 1>(0, 0))) << "nothing is staged there to be loaded";
  buffer.zero_partial_tile_pad();
  EXPECT_EQ((run.reg<0, 1>(0, 7, 32)), run.key(0, 79)) << "the last valid column";
  EXPECT_EQ((run.reg<1, 1>(0, 0)), 0.0f);
  EXPECT_EQ((run.reg<3, 1>(1, 7, 63)), 0.0f);
}
struct UnevenValues : SeedValues {
  static constexpr int BN = 96, WN = 48, num_threads = 128;  // two warps, a strip and a half each
};
TEST(KVMmaOp, takes_no_keys_of_another_warp) {
  BufferRun<UnevenValues> run;
  for (size_t warp = 0; warp < 2; ++warp) {
    run.warp(warp).load_from_shared(0);
    EXPECT_EQ((run.reg<0, 1>(0, 0, 3, warp)), run.key(static_cast<int64_t>(warp) * 48 + 32, 3));
    EXPECT_EQ((run.reg<1, 1>(0, 0, 3, warp)), 0.0f) << "key 48 of the warp";
  }
}
TEST(KVMmaOp, takes_streamed_strips_of_V_where_they_belong) {
  BufferRun<SeedStreamedValues> run;
  for (int strip = 0; strip < 4; ++strip) {
    if (strip > 0) run.block.load(strip % 3);
    run.warp().load_from_shared(strip % 3);
  }
  for (int mma = 0; mma < 4; ++mma)
    EXPECT_EQ((run.reg<1, 1>(mma, 0, 5)), run.key(32 + 16, mma * 32 + 5));
}

// ---- attention over two buffers

/// tiles[n] += row of A times column n of what the registers hold, strip by strip and step by step.
template <class Run>
void multiply(Run& run, const std::vector<float>& row, std::vector<float>& tiles) {
  using Buffer = typename Run::Buffer;
  const auto step = [&]<int I>(std::integral_constant<int, I>) {
    constexpr int bk = I / Buffer::num_k_mmas2, k_mma = I % Buffer::num_k_mmas2;
    std::vector<bf16> a(static_cast<size_t>(Buffer::MMA_M * Buffer::MMA_K));
    for (int k = 0; k < Buffer::MMA_K; ++k)
      a[static_cast<size_t>(k)] =
          from_float<bf16>(row[static_cast<size_t>(bk * Buffer::BK + k_mma * Buffer::MMA_K + k)]);
    run.warp().kv_mma_op.template mma<k_mma, bk>(a.data(), 1, tiles.data());
  };
  [&]<int... I>(std::integer_sequence<int, I...>) {
    (step(std::integral_constant<int, I>{}), ...);
  }(std::make_integer_sequence<int, Buffer::num_k_tiles * Buffer::num_k_mmas2>{});
}
template <class Run>
std::vector<float> no_tiles() {
  return std::vector<float>(
      static_cast<size_t>(Run::Buffer::num_mmas * Run::Buffer::MMA_M * Run::Buffer::MMA_N));
}
/// Element (0, n) of the product.
template <class Run>
float first_row(const std::vector<float>& tiles, int n) {
  constexpr int M = Run::Buffer::MMA_M, N = Run::Buffer::MMA_N;
  return tiles[static_cast<size_t>(n / N * M * N + n % N)];
}
float query(int d) { return static_cast<float>(d % 3) * 0.03125f; }

/// One query over the keys of a pool, which are its values too: [128].
template <class KeyConfig, class ValueConfig>
std::vector<float> attend(int64_t context) {
  using Keys = BufferRun<KeyConfig>;
  using Values = BufferRun<ValueConfig>;
  const auto keys = std::make_unique<Keys>(context);
  const auto values = std::make_unique<Values>(context);
  std::vector<float> q(128), out = no_tiles<Values>();
  for (int d = 0; d < 128; ++d) q[static_cast<size_t>(d)] = query(d);
  float denominator = 0.0f;
  for (int64_t first = 0; first < context; first += 64) {
    if (first > 0) {
      keys->block.load(0);
      values->block.load(0);
    }
    keys->warp().load_from_shared(0);
    values->warp().load_from_shared(0);
    std::vector<float> scores = no_tiles<Keys>(), p(64);
    multiply(*keys, q, scores);
    for (int key = 0; key < 64 && first + key < context; ++key) {
      p[static_cast<size_t>(key)] = std::exp(first_row<Keys>(scores, key));
      denominator += p[static_cast<size_t>(key)];
    }
    multiply(*values, p, out);
  }
  std::vector<float> result;
  for (int d = 0; d < 128; ++d) result.push_back(first_row<Values>(out, d) / denominator);
  return result;
}

std::vector<float> expected_attention(int64_t context) {
  const BufferRun<SeedValues> run(context);
  std::vector<double> sum(128);
  double denominator = 0;
  for (int64_t key = 0; key < context; ++key) {
    double score = 0;
    for (int d = 0; d < 128; ++d)
      score += static_cast<double>(query(d)) * static_cast<double>(run.key(key, d));
    denominator += std::exp(score);
    for (int d = 0; d < 128; ++d)
      sum[static_cast<size_t>(d)] += std::exp(score) * static_cast<double>(run.key(key, d));
  }
  std::vector<float> expected(128);
  for (size_t d = 0; d < 128; ++d) expected[d] = static_cast<float>(sum[d] / denominator);
  return expected;
}

template <class KeyConfig, class ValueConfig>
void expect_attention() {
  for (const int64_t context : {1, 64, 100, 200}) {
    const auto expected = expected_attention(context);
    const auto found = attend<KeyConfig, ValueConfig>(context);
    for (size_t d = 0; d < 128; ++d)
      ASSERT_NEAR(found[d], expected[d], 0.05f) << "weights in bf16, context " << context;
  }
}

struct ThreadValues128 : ThreadValues<128> {
  static constexpr int BK = 64;
};
TEST(KVBuffer, gives_the_operands_of_attention_in_every_plain_instance) {
  expect_attention<SeedBf16Depth128, SeedValues>();
  expect_attention<ThreadKeys<128>, ThreadValues128>();
  expect_attention<InPlaceKeys<128>, SeedValues>();
}

}  // namespace
}  // namespace folio::test
