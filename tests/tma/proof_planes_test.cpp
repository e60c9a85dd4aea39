// SPDX-License-Identifier: Apache-2.0
/// tests/tma/proof_planes_test.cpp: tiles of planes that no collection made: other strides for K
/// and V, interleaved, padded; halves for pairs of CTAs; and loaders with one mistake, which the
/// proofs must find.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "folio/testing/tma_copy.h"
#include "folio/tma/page_tile.h"
#include "folio/tma/row_tiles.h"
#include "tma/proof_cache.h"

namespace folio::test {
namespace {

using emulator::GlobalMemory;
using emulator::SharedMemory;
using ::testing::HasSubstr;

/// A plane somewhere in random storage, which holds it exactly: one byte more would be outside.
struct AnyPlane {
  tma::PlaneGeometry geometry;
  GlobalMemory memory;

  [[nodiscard]] const std::byte* head_of(int64_t page, int64_t slot, int64_t head) const {
    const tma::PlaneGeometry& g = geometry;
    return memory.data + page * g.page_stride_bytes + slot * g.slot_stride_bytes +
           head * g.head_stride_bytes;
  }
};

AnyPlane any_plane(tma::PlaneGeometry geometry) {
  const tma::PlaneGeometry& g = geometry;
  const int64_t bytes =
      (g.num_pages - 1) * g.page_stride_bytes + (g.page_size - 1) * g.slot_stride_bytes +
      (g.num_heads - 1) * g.head_stride_bytes + int64_t{g.head_size} * g.element_bytes();
  std::byte* data = random_storage(bytes);
  geometry.base = tma::address_of(data);
  return {geometry, emulator::global_memory({data, bytes}, "plane")};
}

/// A cache_tile and a page_tile of the plane at a random place: "" or what is wrong.
std::string tiles_difference(const AnyPlane& plane, int32_t tile_rows, tma::Swizzle mode,
                             Rng& rng) {
  const tma::PlaneGeometry& g = plane.geometry;
  const auto page_size = static_cast<int32_t>(g.page_size);
  const tma::TileSpec spec{.swizzle = mode, .rows = tile_rows};
  const ProofTable table(g.num_pages, rng);
  const int32_t base = tile_rows * rng.int_between(0, std::max(2, 2 * page_size / tile_rows) - 1);
  const int32_t head = rng.int_between(0, g.num_heads - 1);
  const int32_t step = std::min(page_size, tile_rows);
  const auto head_of = [&](int32_t row) -> const std::byte* {
    const int64_t page = table[(base + row) / page_size];
    return page < g.num_pages ? plane.head_of(page, (base + row) % page_size, head) : nullptr;
  };
  const int64_t last_byte = int64_t{g.head_size} * g.element_bytes();

  if (const TMATensorTile<3> tile = tma::cache_tile(g, spec); tile.check().is_ok()) {
    SharedMemory shared(tile.layout.bytes());
    for (int32_t row = 0; row < tile_rows; row += step) {
      const int64_t page = table[(base + row) / page_size];
      const int64_t first =
          page < g.num_pages ? page * g.row_stride() + (base + row) % page_size : g.num_rows();
      for (int32_t c = 0; c < tile.layout.num_chunks(); ++c) {
        const Result<int64_t> bytes =
            emulator::tma_load<3>(tile.map, plane.memory, shared, tile.layout.box_offset(row, c),
                                  {{c * tile.layout.chunk, head, static_cast<int32_t>(first)}});
        if (!bytes) return std::string(bytes.error().message());
      }
    }
    const std::string difference =
        tile_difference(shared, 0, tile.layout, 0, last_byte, rng, head_of);
    if (!difference.empty()) return "cache_tile: " + difference;
  } else if (g.page_stride_bytes % g.slot_stride_bytes == 0) {
    return std::string(tile.check().message());
  }

  const TMATensorTile<5> tile = tma::page_tile(g, spec, tma::ChunksPerCopy::one);
  if (!tile.check().is_ok()) return std::string(tile.check().message());
  SharedMemory shared(tile.layout.bytes());
  for (int32_t row = 0; row < tile_rows; row += step) {
    for (int32_t c = 0; c < tile.layout.num_chunks(); ++c) {
      const auto entry = static_cast<int32_t>(table[(base + row) / page_size]);
      const Result<int64_t> bytes =
          emulator::tma_load<5>(tile.map, plane.memory, shared, tile.layout.box_offset(row, c),
                                {{0, (base + row) % page_size, c, head, entry}});
      if (!bytes) return std::string(bytes.error().message());
    }
  }
  const std::string difference =
      tile_difference(shared, 0, tile.layout, 0, last_byte, rng, head_of);
  return difference.empty() ? "" : "page_tile: " + difference;
}

TEST(TmaProof, planes_with_any_strides_are_read_as_they_are) {
  Rng rng(test_seed());
  for (int i = 0; i < 400; ++i) {
    tma::PlaneGeometry g;
    g.dtype = rng.pick(proof_dtypes);
    g.num_heads = rng.int_between(1, 3);
    g.head_size = 128 * rng.int_between(1, 3);
    g.page_size = int64_t{8} << rng.between(0, 4);
    g.num_pages = rng.between(1, 5);
    const int64_t head_bytes = int64_t{g.head_size} * g.element_bytes();
    const bool head_major = rng.chance(0.4);
    const int64_t inner = head_bytes + 16 * rng.between(0, 2);
    const int64_t outer = inner * (head_major ? g.page_size : g.num_heads) + 16 * rng.between(0, 2);
    g.slot_stride_bytes = head_major ? inner : outer;
    g.head_stride_bytes = head_major ? outer : inner;
    const int64_t page_bytes = outer * (head_major ? g.num_heads : g.page_size);
    g.page_stride_bytes = page_bytes + 16 * rng.between(0, 3);
    if (rng.chance(0.5))  // whole rows: also a matrix of rows
      g.page_stride_bytes =
          (page_bytes / g.slot_stride_bytes + rng.between(1, 3)) * g.slot_stride_bytes;
    const int32_t tile_rows = 16 << rng.int_between(0, 3);
    ASSERT_EQ(tiles_difference(any_plane(g), tile_rows, rng.pick(proof_swizzles), rng), "")
        << "case " << i;
  }
}

TEST(TmaProof, k_and_v_of_different_sizes_lie_next_to_one_another) {
  // [page, slot, head, K then V]: the planes share every stride and differ in base and head size
  // (vLLM's LBHNC, MLA's 192 and 128).
  Rng rng(test_seed());
  for (const DType dtype : proof_dtypes) {
    // Chunks divide both head sizes; a page of one row of 64 bytes would be no destination.
    const tma::Swizzle mode = bit_width(dtype) == 8 ? tma::Swizzle::b64 : tma::Swizzle::b128;
    for (const int page_size : {1, 16, 64}) {
      if (page_size == 1 && mode == tma::Swizzle::b64) continue;
      constexpr int32_t heads = 2, key_size = 192, value_size = 128;
      tma::PlaneGeometry key{.dtype = dtype,
                             .num_heads = heads,
                             .head_size = key_size,
                             .num_pages = 6,
                             .page_size = page_size};
      key.head_stride_bytes = (key_size + value_size) * bit_width(dtype) / 8;
      key.slot_stride_bytes = heads * key.head_stride_bytes;
      key.page_stride_bytes = page_size * key.slot_stride_bytes;
      const int64_t bytes = key.num_pages * key.page_stride_bytes;
      std::byte* data = random_storage(bytes);
      tma::PlaneGeometry value = key;
      value.head_size = value_size;
      key.base = tma::address_of(data);
      const int64_t key_bytes = key_size * bit_width(dtype) / 8;
      value.base = key.base + static_cast<uint64_t>(key_bytes);
      const int tile_rows = page_size == 1 ? 16 : 64;
      EXPECT_EQ(
          tiles_difference({key, emulator::global_memory({data, bytes})}, tile_rows, mode, rng),
          "");
      EXPECT_EQ(
          tiles_difference({value, emulator::global_memory({data + key_bytes, bytes - key_bytes})},
                           tile_rows, tma::Swizzle::b128, rng),
          "");
    }
  }
}

/// K of both CTAs of a pair: the leader's half and the peer's together are the tile. V: all keys,
/// each CTA its half of the columns.
template <int PageSize, int BN>
void prove_pair(Rng& rng) {
  if constexpr (detail::TileGeometry<BN, PageSize, true>) {
    constexpr int32_t head_size = 128;
    const ProofCache cache(DType::bf16, head_size, PageSize, StorageOrder::token_major);
    const ProofTable table(cache.num_pages, rng);
    const auto base =
        static_cast<uint32_t>(BN * rng.int_between(0, std::max(2, 2 * PageSize / BN) - 1));
    const auto token_head = [&](int kv, int32_t row) -> const std::byte* {
      const int64_t page = table[(base + static_cast<uint32_t>(row)) / PageSize];
      return page < cache.num_pages
                 ? cache.head_of(kv, 1, page, (base + static_cast<uint32_t>(row)) % PageSize, 1)
                 : nullptr;
    };
    const auto prove_cta = [&]<bool IsLeader>() {
      const tma::PlaneGeometry key = cache.plane(0, 1);
      const auto rows = detail::populate_rows<BN, PageSize, BN, true, IsLeader>(
          table.data(), base, detail::PagedRows<PageSize>{key.num_pages, key.row_stride()});
      const TMATensorTile<3> k_tile =
          tma::cache_tile(key, {.swizzle = tma::Swizzle::b128, .rows = BN / 2});
      ASSERT_TRUE(k_tile.check().is_ok()) << k_tile.check().message();
      ASSERT_EQ(k_tile.box_shape[0], rows.k_page_rows);
      SharedMemory shared(k_tile.layout.bytes());
      for (int p = 0; p < rows.num_k_pages; ++p) {
        for (int32_t c = 0; c < k_tile.layout.num_chunks(); ++c) {
          ASSERT_TRUE(emulator::tma_load<3>(
                          k_tile.map, cache.memory(), shared,
                          k_tile.layout.box_offset(p * rows.k_page_rows, c),
                          {{c * k_tile.layout.chunk, 1, static_cast<int32_t>(rows.k_row(p))}})
                          .has_value());
        }
      }
      const int32_t first = IsLeader ? 0 : BN / 2;
      EXPECT_EQ(tile_difference(shared, 0, k_tile.layout, 0, cache.head_bytes, rng,
                                [&](int32_t row) { return token_head(0, first + row); }),
                "")
          << PageSize << " " << BN << " K " << IsLeader;

      const int32_t column = IsLeader ? 0 : head_size / 2;
      const TMATensorTile<3> v_tile =
          tma::cache_tile(cache.plane(1, 1), {.swizzle = tma::Swizzle::b128,
                                              .rows = BN,
                                              .first_column = column,
                                              .depth = head_size / 2});
      ASSERT_TRUE(v_tile.check().is_ok()) << v_tile.check().message();
      SharedMemory values(v_tile.layout.bytes());
      for (int p = 0; p < rows.num_pages; ++p) {
        ASSERT_TRUE(emulator::tma_load<3>(v_tile.map, cache.memory(), values,
                                          v_tile.layout.box_offset(p * rows.eff_page, 0),
                                          {{0, 1, static_cast<int32_t>(rows.rows[p])}})
                        .has_value());
      }
      EXPECT_EQ(tile_difference(values, 0, v_tile.layout, column * 2, (column + head_size / 2) * 2,
                                rng, [&](int32_t row) { return token_head(1, row); }),
                "")
          << PageSize << " " << BN << " V " << IsLeader;
    };
    prove_cta.template operator()<true>();
    prove_cta.template operator()<false>();
  }
}

template <int PageSize>
void prove_pairs(Rng& rng) {
  prove_pair<PageSize, 16>(rng);
  prove_pair<PageSize, 32>(rng);
  prove_pair<PageSize, 64>(rng);
  prove_pair<PageSize, 128>(rng);
  prove_pair<PageSize, 256>(rng);
}

TEST(TmaProof, each_cta_of_a_pair_brings_its_half) {
  Rng rng(test_seed());
  for (int i = 0; i < 10; ++i) {
    prove_pairs<1>(rng);
    prove_pairs<8>(rng);
    prove_pairs<16>(rng);
    prove_pairs<32>(rng);
    prove_pairs<64>(rng);
    prove_pairs<128>(rng);
    prove_pairs<256>(rng);
  }
}

/// One mistake of a loader or a builder, and that the proof sees it.
class Mistakes : public ::testing::Test {
 protected:
  static constexpr int32_t page_size = 16, tile_rows = 64;

  Mistakes() : cache_(DType::bf16, 128, page_size, StorageOrder::token_major) {
    for (int64_t i = 0; i < ProofTable::num_entries; ++i)
      table_[i] = static_cast<uint32_t>((5 * i + 2) % cache_.num_pages);
    table_[2] = static_cast<uint32_t>(cache_.num_pages);
    table_[3] = 0xffffffffu;
    tile_ = tma::cache_tile(cache_.plane(0, 0), {.swizzle = tma::Swizzle::b128, .rows = tile_rows});
    const tma::PlaneGeometry plane = cache_.plane(0, 0);
    populate_any(page_size, tile_rows, table_.data(), 0, {plane.num_pages, plane.row_stride()},
                 rows_);
  }
  /// Loads the tile and compares: "" only if all is right.
  std::string difference() {
    SharedMemory shared(tile_.layout.bytes());
    for (size_t p = 0; p < rows_.size(); ++p) {
      for (int32_t c = 0; c < tile_.layout.num_chunks(); ++c) {
        const Result<int64_t> bytes =
            emulator::tma_load<3>(tile_.map, cache_.memory(), shared,
                                  tile_.layout.box_offset(static_cast<int32_t>(p) * page_size, c),
                                  {{c * tile_.layout.chunk, 1, static_cast<int32_t>(rows_[p])}});
        if (!bytes) return std::string(bytes.error().message());
      }
    }
    return tile_difference(
        shared, 0, reader_, 0, cache_.head_bytes, rng_, [&](int32_t row) -> const std::byte* {
          const int64_t page = table_[row / page_size];
          return page < cache_.num_pages ? cache_.head_of(0, 0, page, row % page_size, 1) : nullptr;
        });
  }

  Rng rng_{1};
  ProofCache cache_;
  ProofTable table_{1, rng_};
  TMATensorTile<3> tile_;
  tma::TileLayout reader_ = tile_layout(DType::bf16, tma::Swizzle::b128, tile_rows, 128);
  std::vector<uint32_t> rows_;
};

TEST_F(Mistakes, none_is_right) { EXPECT_EQ(difference(), ""); }

TEST_F(Mistakes, a_page_stride_without_the_other_planes_is_found) {
  for (size_t p = 0; p < 2; ++p) rows_[p] = table_[static_cast<int64_t>(p)] * page_size;
  EXPECT_THAT(difference(), HasSubstr("row 0, byte 0"));
}

TEST_F(Mistakes, a_sentinel_that_is_multiplied_is_found) {
  rows_[3] = static_cast<uint32_t>(int64_t{table_[3]} * cache_.plane(0, 0).row_stride());
  // -S is in front of the tensor: zeros. The one that lies inside the map is not:
  EXPECT_EQ(difference(), "");
  rows_[2] = static_cast<uint32_t>(int64_t{table_[2]} * cache_.plane(0, 0).row_stride());
  tile_.map.dim[2] += cache_.plane(0, 0).row_stride();
  EXPECT_THAT(difference(), HasSubstr("of blocks, which has"));
}

TEST_F(Mistakes, the_wrong_plane_is_found) {
  tile_.map.base = cache_.plane(1, 0).base;
  EXPECT_THAT(difference(), HasSubstr("row 0, byte 0"));
}

TEST_F(Mistakes, a_box_that_leaves_its_page_is_found) {
  tile_.map.box[2] = 2 * page_size;
  EXPECT_NE(difference(), "");
}

TEST_F(Mistakes, another_swizzle_and_another_order_of_chunks_are_found) {
  reader_.swizzle = tma::Swizzle::b64;
  EXPECT_THAT(difference(), HasSubstr("row "));
  reader_ = tile_.layout;
  reader_.block_rows = page_size;
  EXPECT_THAT(difference(), HasSubstr("row "));
}

TEST_F(Mistakes, an_extent_that_is_one_row_short_is_found) {
  // The last row of the last page reads as zeros. Storage is random: no row is zero.
  table_[1] = static_cast<uint32_t>(cache_.num_pages - 1);
  rows_[1] = static_cast<uint32_t>((cache_.num_pages - 1) * cache_.plane(0, 0).row_stride());
  EXPECT_EQ(difference(), "");
  --tile_.map.dim[2];
  EXPECT_THAT(difference(), HasSubstr("row 31, byte 0"));
}

}  // namespace
}  // namespace folio::test
