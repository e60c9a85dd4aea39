// SPDX-License-Identifier: Apache-2.0
/// tests/tma/proof_gather4_test.cpp: rows chosen one by one through get_tma_row, four per copy,
/// over the grid; rope parts; scatters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "folio/cache/paged_kv_cache.h"
#include "folio/testing/tma_copy.h"
#include "folio/tma/gather4.h"
#include "tma/proof_cache.h"

namespace folio::test {
namespace {

using emulator::SharedMemory;
using ::testing::HasSubstr;

/// get_tma_row of a static cache whose pages are as far apart as the plane's.
template <int PageSize>
int64_t tma_row(const tma::PlaneGeometry& plane, int64_t encoded) {
  using Cache = PagedKVCache<DType::i8, KVCacheStaticParams{1, 1}, PageSize>;
  Cache cache;
  cache.blocks.layout = typename Cache::blocks_tt_layout(plane.num_pages, plane.row_stride());
  return cache.get_tma_row(encoded);
}
int64_t tma_row_any(int page_size, const tma::PlaneGeometry& plane, int64_t encoded) {
  switch (page_size) {
    case 1: return tma_row<1>(plane, encoded);
    case 8: return tma_row<8>(plane, encoded);
    case 16: return tma_row<16>(plane, encoded);
    case 32: return tma_row<32>(plane, encoded);
    case 64: return tma_row<64>(plane, encoded);
    case 128: return tma_row<128>(plane, encoded);
    default: return tma_row<256>(plane, encoded);
  }
}

/// Encoded slots of a tile: any order, some twice, -1 and slots past the pages among them.
std::vector<int64_t> random_indices(int32_t rows, int64_t num_slots, Rng& rng) {
  std::vector<int64_t> indices;
  for (int32_t i = 0; i < rows; ++i) {
    const bool absent = rng.chance(0.2);
    indices.push_back(!absent           ? rng.between(0, num_slots - 1)
                      : rng.chance(0.5) ? -1
                                        : num_slots + rng.between(0, 100));
  }
  return indices;
}

/// Loads all groups of four rows and of columns. `rows` are coordinates.
std::string gather(const TMATensorTile<2>& tile, const emulator::GlobalMemory& memory,
                   const std::vector<int64_t>& rows, SharedMemory& shared) {
  int64_t bytes = 0;
  for (int32_t row = 0; row < tile.layout.rows; row += 4) {
    std::array<int32_t, 4> four;
    for (int32_t i = 0; i < 4; ++i)
      four[static_cast<size_t>(i)] = static_cast<int32_t>(rows[static_cast<size_t>(row + i)]);
    for (int32_t group = 0; group < tile.layout.num_chunks(); ++group) {
      const Result<int64_t> copied =
          emulator::tma_gather4(tile.map, memory, shared, tile.layout.box_offset(row, group),
                                group * tile.layout.chunk, four);
      if (!copied) return std::string(copied.error().message());
      bytes += *copied;
    }
  }
  return bytes == tile.layout.bytes() ? "" : "bytes";
}

struct GatherCase {
  int32_t page_size = 16;
  int32_t tile_height = 64;
  tma::Swizzle swizzle = tma::Swizzle::none;
  tma::DataType tma_dtype = tma::DataType::invalid;  ///< invalid: the cache's
};

/// Whole rows, all heads, of K or V.
void prove_gather(const ProofCache& cache, DType dtype, int32_t head_size, const GatherCase& c,
                  Rng& rng, int64_t& proved) {
  const int kv = rng.int_between(0, 1);
  const tma::PlaneGeometry plane = cache.plane(kv, 1);
  const tma::DataType type =
      c.tma_dtype != tma::DataType::invalid ? c.tma_dtype : tma::data_type_of(dtype);
  const int64_t row_bytes = 2 * cache.head_bytes;
  const int32_t width = static_cast<int32_t>(row_bytes) / element_bytes(type);
  const TMATensorTile<2> tile = tma::gather4_tile(plane, {.tile_height = c.tile_height,
                                                          .tile_width = width,
                                                          .swizzle = c.swizzle,
                                                          .tma_dtype = c.tma_dtype});
  // Without a swizzle one box is as wide as the tile, 256 elements at most; rows are 16-byte
  // multiples, four of them 128-byte ones.
  const int64_t box_bytes = c.swizzle == tma::Swizzle::none ? row_bytes : swizzle_bytes(c.swizzle);
  const bool single = c.tile_height == 4 && box_bytes >= row_bytes;
  const bool legal = row_bytes % element_bytes(type) == 0 && row_bytes % 16 == 0 &&
                     box_bytes / element_bytes(type) <= 256 && (single || 4 * box_bytes % 128 == 0);
  ASSERT_EQ(tile.check().is_ok(), legal) << name(dtype) << " " << head_size << " "
                                         << name(c.swizzle) << ": " << tile.check().message();
  if (!legal) return;
  ++proved;
  const std::vector<int64_t> indices =
      random_indices(c.tile_height, cache.num_pages * c.page_size, rng);
  std::vector<int64_t> rows;
  for (const int64_t index : indices) rows.push_back(tma_row_any(c.page_size, plane, index));
  SharedMemory shared(tile.layout.bytes());
  ASSERT_EQ(gather(tile, cache.memory(), rows, shared), "");
  const auto head_of = [&](int32_t row) -> const std::byte* {
    const int64_t index = indices[static_cast<size_t>(row)];
    if (index < 0 || index >= cache.num_pages * c.page_size) return nullptr;
    return cache.head_of(kv, 1, index / c.page_size, index % c.page_size, 0);
  };
  ASSERT_EQ(tile_difference(shared, 0, tile.layout, 0, row_bytes, rng, head_of), "")
      << name(dtype) << " " << head_size;
}

TEST(TmaProof, gather4_brings_the_rows_that_indices_name) {
  Rng rng(test_seed());
  int64_t proved = 0;
  for (const DType dtype : proof_dtypes) {
    for (const int head_size : proof_head_sizes) {
      for (const int page_size : proof_page_sizes) {
        const ProofCache cache(dtype, head_size, page_size, StorageOrder::token_major);
        for (const tma::Swizzle mode : proof_swizzles) {
          for (const int height : {4, 64})
            prove_gather(cache, dtype, head_size, {page_size, height, mode}, rng, proved);
        }
        // Eight bytes as one element: a plain matrix in shared memory, up to 2048 bytes wide.
        prove_gather(cache, dtype, head_size,
                     {page_size, 16, tma::Swizzle::none, tma::DataType::i64}, rng, proved);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
  std::printf("[    cases ] %lld proved\n", static_cast<long long>(proved));
  EXPECT_GT(proved, 0);
}

TEST(TmaProof, gather4_of_a_part_of_a_row_ends_where_the_part_does) {
  // 96 of 256 columns, boxes of 64: the second box hangs over the part and reads zeros, not the
  // row's other columns.
  Rng rng(test_seed());
  const ProofCache cache(DType::bf16, 128, 16, StorageOrder::token_major);
  const tma::PlaneGeometry plane = cache.plane(0, 0);
  const TMATensorTile<2> tile = tma::gather4_tile(
      plane,
      {.tile_height = 8, .tile_width = 96, .tile_stride = 256, .swizzle = tma::Swizzle::b128});
  ASSERT_TRUE(tile.check().is_ok()) << tile.check().message();
  const std::vector<int64_t> indices = random_indices(8, cache.num_pages * 16, rng);
  std::vector<int64_t> rows;
  for (const int64_t index : indices) rows.push_back(tma_row<16>(plane, index));
  SharedMemory shared(tile.layout.bytes());
  ASSERT_EQ(gather(tile, cache.memory(), rows, shared), "");
  const auto head_of = [&](int32_t row) -> const std::byte* {
    const int64_t index = indices[static_cast<size_t>(row)];
    return index < 0 || index >= cache.num_pages * 16
               ? nullptr
               : cache.head_of(0, 0, index / 16, index % 16, 0);
  };
  EXPECT_EQ(tile_difference(shared, 0, tile.layout, 0, 96 * 2, rng, head_of), "");
}

TEST(TmaProof, gather4_of_the_rope_part_has_the_pitch_of_the_whole_row) {
  // 512 bytes of content and 64 bf16 of rope, one head: rows of 640 bytes.
  Rng rng(test_seed());
  for (const int page_size : {1, 16, 64, 128}) {
    KVShape shape{.num_heads = 1,
                  .head_size = 640,
                  .page_size = page_size,
                  .dtype = DType::f8_e4m3,
                  .is_mla = true};
    constexpr int64_t num_pages = 7;
    const int64_t bytes = num_pages * page_bytes(shape).value();
    std::byte* data = random_storage(bytes);
    const tma::PlaneGeometry plane =
        tma::plane_of(make_planes(shape, num_pages, {data, bytes}).value()[0].key);
    for (const tma::Swizzle mode : proof_swizzles) {
      const TMATensorTile<2> tile = tma::rope_gather4_tile(
          plane, {.tile_height = 32, .tile_width = 64, .padded_depth = 512, .swizzle = mode});
      ASSERT_TRUE(tile.check().is_ok()) << tile.check().message();
      const std::vector<int64_t> indices = random_indices(32, num_pages * page_size, rng);
      std::vector<int64_t> rows;
      for (const int64_t index : indices) rows.push_back(tma_row_any(page_size, plane, index));
      SharedMemory shared(tile.layout.bytes());
      ASSERT_EQ(gather(tile, emulator::global_memory({data, bytes}), rows, shared), "");
      const auto head_of = [&](int32_t row) -> const std::byte* {
        const int64_t index = indices[static_cast<size_t>(row)];
        return index < 0 || index >= num_pages * page_size ? nullptr : data + index * 640;
      };
      EXPECT_EQ(tile_difference(shared, 0, tile.layout, 512, 640, rng, head_of), "")
          << page_size << " " << name(mode);
    }
  }
}

TEST(TmaProof, scatter4_writes_the_rows_that_indices_name_and_no_other) {
  Rng rng(test_seed());
  std::vector<uint64_t> words(64 * 256 / 8, 0);
  tma::PlaneGeometry plane{.base = tma::address_of(words.data()),
                           .dtype = DType::bf16,
                           .num_heads = 1,
                           .head_size = 128};
  plane.num_pages = 4;
  plane.page_size = 8;
  plane.slot_stride_bytes = plane.head_stride_bytes = 256;
  // K and V of eight slots each: the odd halves belong to another plane
  plane.page_stride_bytes = 16 * 256;
  const TMATensorTile<2> tile = tma::gather4_tile(
      plane, {.tile_height = 4, .tile_width = 128, .swizzle = tma::Swizzle::b128});
  ASSERT_TRUE(tile.check().is_ok()) << tile.check().message();
  SharedMemory shared(tile.layout.bytes());
  for (int64_t i = 0; i < shared.size(); i += 2)
    shared.store(i, static_cast<uint16_t>(rng.between(1, 65535)));
  const std::array<int32_t, 4> rows{static_cast<int32_t>(tma_row<8>(plane, 9)), -1,
                                    static_cast<int32_t>(tma_row<8>(plane, 31)),
                                    static_cast<int32_t>(tma_row<8>(plane, 32))};
  EXPECT_EQ(rows[0], 17);
  const emulator::GlobalMemory memory = emulator::global_memory({words.data(), 64 * 256});
  for (int32_t group = 0; group < tile.layout.num_chunks(); ++group) {
    ASSERT_TRUE(emulator::tma_scatter4(tile.map, memory, shared, tile.layout.box_offset(0, group),
                                       group * tile.layout.chunk, rows)
                    .has_value());
  }
  for (int64_t row = 0; row < 64; ++row) {
    for (int32_t column = 0; column < 128; ++column) {
      uint16_t got = 0, expected = 0;
      std::memcpy(&got, memory.data + row * 256 + column * 2, 2);
      if (row == 17) expected = shared.load<uint16_t>(tile.layout.offset(0, column));
      if (row == 55) expected = shared.load<uint16_t>(tile.layout.offset(2, column));
      ASSERT_EQ(got, expected) << row << ", " << column;
    }
  }
}

}  // namespace
}  // namespace folio::test
