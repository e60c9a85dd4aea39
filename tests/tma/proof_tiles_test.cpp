// SPDX-License-Identifier: Apache-2.0
/// tests/tma/proof_tiles_test.cpp: over the whole grid of geometries, the element that a fragment
/// reader expects is the element that populate and the tile brought.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "folio/testing/operands.h"
#include "folio/testing/tma_copy.h"
#include "folio/tma/page_tile.h"
#include "folio/tma/row_tiles.h"
#include "tma/proof_cache.h"

namespace folio::test {
namespace {

using emulator::SharedMemory;

struct ProofCase {
  DType dtype = DType::bf16;
  int32_t head_size = 0;
  int32_t page_size = 0;
  StorageOrder order = StorageOrder::token_major;
  int32_t tile_rows = 0;
  tma::Swizzle swizzle = tma::Swizzle::none;

  [[nodiscard]] int32_t element_bytes() const { return bit_width(dtype) / 8; }
  [[nodiscard]] int32_t box_rows() const { return std::min(page_size, tile_rows); }
  [[nodiscard]] int32_t num_chunks() const {
    return (head_size * element_bytes() + swizzle_bytes(swizzle) - 1) / swizzle_bytes(swizzle);
  }
  /// What every map needs: strides in steps of 16 bytes. Slots of a token-major cache are num_heads
  /// heads apart.
  [[nodiscard]] bool strides_are_legal() const { return head_size * element_bytes() % 16 == 0; }
  [[nodiscard]] bool has_whole_chunks() const {
    return head_size * element_bytes() % swizzle_bytes(swizzle) == 0;
  }
  /// Copies of `chunks` chunks of one piece begin at multiples of 128 bytes.
  [[nodiscard]] bool has_aligned_boxes(int32_t chunks) const {
    const bool single = box_rows() == tile_rows && chunks == num_chunks();
    return single || box_rows() * chunks * swizzle_bytes(swizzle) % 128 == 0;
  }
  [[nodiscard]] std::string text() const {
    return std::string(name(dtype)) + " head " + std::to_string(head_size) + " page " +
           std::to_string(page_size) + (order == StorageOrder::token_major ? " token" : " head") +
           "-major tile " + std::to_string(tile_rows) + " " + name(swizzle);
  }
};

/// The tile of one builder and how a kernel loads it: the destination and coordinates of every
/// copy.
struct Copy {
  int64_t to = 0;
  std::array<int32_t, 5> coordinates{};
};
struct Pieces {
  std::vector<uint32_t> rows;     ///< first row of each piece, from populate
  std::vector<uint32_t> entries;  ///< page ids, as the table has them
  int32_t slot = 0;               ///< of the first key in its page
  int32_t head = 0;
};

/// What each builder is, to the loop below.
struct CacheTile {
  static bool legal(const ProofCase& c) { return c.strides_are_legal() && c.has_aligned_boxes(1); }
  static auto make(const tma::PlaneGeometry& plane, const tma::TileSpec& spec) {
    return tma::cache_tile(plane, spec);
  }
  static void copies(const TMATensorTile<3>& tile, const Pieces& pieces, std::vector<Copy>& out) {
    for (size_t p = 0; p < pieces.rows.size(); ++p) {
      const int32_t first = static_cast<int32_t>(p) * tile.box_shape[0];
      for (int32_t c = 0; c < tile.layout.num_chunks(); ++c)
        out.push_back({tile.layout.box_offset(first, c),
                       {c * tile.layout.chunk, pieces.head, static_cast<int32_t>(pieces.rows[p])}});
    }
  }
};
struct FoldedTile {
  static bool legal(const ProofCase& c) {
    return c.strides_are_legal() && c.has_whole_chunks() && c.has_aligned_boxes(c.num_chunks());
  }
  static auto make(const tma::PlaneGeometry& plane, const tma::TileSpec& spec) {
    return tma::folded_tile(plane, spec);
  }
  static void copies(const TMATensorTile<4>& tile, const Pieces& pieces, std::vector<Copy>& out) {
    for (size_t p = 0; p < pieces.rows.size(); ++p) {
      const int32_t first = static_cast<int32_t>(p) * tile.box_shape[2];
      out.push_back({tile.layout.box_offset(first, 0),
                     {0, static_cast<int32_t>(pieces.rows[p]), 0, pieces.head}});
    }
  }
};
struct RowMajorTile {
  static bool legal(const ProofCase& c) {
    return c.strides_are_legal() && c.has_whole_chunks() && c.page_size % 8 == 0;
  }
  static auto make(const tma::PlaneGeometry& plane, const tma::TileSpec& spec) {
    return tma::row_major_tile(plane, spec);
  }
  static void copies(const TMATensorTile<5>& tile, const Pieces& pieces, std::vector<Copy>& out) {
    for (size_t p = 0; p < pieces.rows.size(); ++p) {
      const int32_t first = static_cast<int32_t>(p) * tile.box_shape[1] * 8;
      out.push_back({tile.layout.box_offset(first, 0),
                     {0, 0, 0, static_cast<int32_t>(pieces.rows[p] / 8), pieces.head}});
    }
  }
};
/// The map knows pages: no rows, the table's entries are coordinates as they are.
template <tma::ChunksPerCopy PerCopy>
struct PageTile {
  static constexpr bool all = PerCopy == tma::ChunksPerCopy::all;
  static bool legal(const ProofCase& c) {
    return c.strides_are_legal() && c.has_whole_chunks() &&
           c.has_aligned_boxes(all ? c.num_chunks() : 1);
  }
  static auto make(const tma::PlaneGeometry& plane, const tma::TileSpec& spec) {
    return tma::page_tile(plane, spec, PerCopy);
  }
  static void copies(const TMATensorTile<5>& tile, const Pieces& pieces, std::vector<Copy>& out) {
    for (size_t p = 0; p < pieces.entries.size(); ++p) {
      const int32_t first = static_cast<int32_t>(p) * tile.box_shape[3];
      for (int32_t c = 0; c < (all ? 1 : tile.layout.num_chunks()); ++c)
        out.push_back({tile.layout.box_offset(first, c),
                       {0, pieces.slot, c, pieces.head, static_cast<int32_t>(pieces.entries[p])}});
    }
  }
};

/// A random block of the tile through ldmatrix and through a wgmma descriptor, as scores (K^T) and,
/// for 16-bit types, as values: the addresses are those of the elements. Gives "" or what differs.
std::string fragment_difference(const SharedMemory& shared, const tma::TileLayout& layout,
                                Rng& rng) {
  using namespace emulator;
  const int32_t bits = 8 * layout.element_bytes;
  const int32_t step = mma_k(bits);
  const int32_t key = 8 * rng.int_between(0, layout.rows / 8 - 1);
  const int32_t column = step * rng.int_between(0, layout.columns / step - 1);
  const int32_t half = step / 2;  // 16 bytes
  const auto rows =
      ldmatrix_rows<2>(layout, 0, {MatrixElement{key, column}, MatrixElement{key, column + half}});
  const Result<Registers<2>> b = ldmatrix<2>(shared, rows);
  if (!b) return std::string(b.error().message());
  for (int32_t lane = 0; lane < warp_lanes; ++lane) {
    for (int32_t reg = 0; reg < 2; ++reg) {
      for (int32_t part = 0; part < parts_of(bits); ++part) {
        const MatrixElement e = mma_b_element(bits, {lane, reg, part});
        const int64_t at = layout.offset(key + e.column, column + e.row);
        const uint32_t value =
            (*b)[static_cast<size_t>(lane)][static_cast<size_t>(reg)] >> (bits * part % 32);
        if (std::memcmp(&value, shared.at(at), static_cast<size_t>(layout.element_bytes)) != 0)
          return "ldmatrix";
      }
    }
  }
  if (layout.block_rows == layout.rows || layout.block_rows == 8) {
    const Result<WgmmaOperand> operand = k_major_operand(layout, 0, {0, column, layout.rows, step});
    if (!operand) return std::string(operand.error().message());
    for (int32_t k = 0; k < step; ++k) {
      if (wgmma_operand_address(operand->descriptor, Major::k, bits, key + k % 8, k) !=
          layout.offset(key + k % 8, column + k))
        return "wgmma, K-major";
    }
    if (bits == 16) {
      const int32_t first = 16 * rng.int_between(0, layout.rows / 16 - 1);
      const Result<WgmmaOperand> values =
          mn_major_operand(layout, 0, {first, 0, 16, layout.columns});
      if (!values) return std::string(values.error().message());
      for (int32_t k = 0; k < 16; ++k) {
        const int32_t dim = rng.int_between(0, layout.columns - 1);
        if (wgmma_operand_address(values->descriptor, Major::mn, 16, dim, k) !=
            layout.offset(first + k, dim))
          return "wgmma, MN-major";
      }
    }
  }
  return "";
}

struct Count {
  int64_t legal = 0;
  int64_t refused = 0;
};

/// One builder on K and V of a random layer, at a random tile of a random table.
template <class Builder>
void prove(const ProofCase& c, const ProofCache& cache, Rng& rng, Count& count) {
  for (int kv = 0; kv < 2; ++kv) {
    const int layer = rng.int_between(0, ProofCache::num_layers - 1);
    const tma::PlaneGeometry plane = cache.plane(kv, layer);
    const auto tile = Builder::make(plane, {.swizzle = c.swizzle, .rows = c.tile_rows});
    const Status status = tile.check();
    ASSERT_EQ(status.is_ok(), Builder::legal(c)) << c.text() << ": " << status.message();
    ++(status.is_ok() ? count.legal : count.refused);
    if (!status.is_ok()) return;

    const ProofTable table(cache.num_pages, rng);
    const auto base = static_cast<uint32_t>(
        c.tile_rows * rng.int_between(0, std::max(2, 2 * c.page_size / c.tile_rows) - 1));
    Pieces pieces;
    pieces.head = rng.int_between(0, ProofCache::num_heads - 1);
    pieces.slot = static_cast<int32_t>(base) % c.page_size;
    for (int32_t row = 0; row < c.tile_rows; row += c.box_rows())
      pieces.entries.push_back(table[(static_cast<int32_t>(base) + row) / c.page_size]);
    populate_any(c.page_size, c.tile_rows, table.data(), base,
                 {plane.num_pages, plane.row_stride()}, pieces.rows);

    std::vector<Copy> copies;
    Builder::copies(tile, pieces, copies);
    SharedMemory shared(tile.layout.bytes());
    int64_t bytes = 0;
    for (const Copy& copy : copies) {
      const Result<int64_t> copied =
          emulator::tma_load(tile.map, cache.memory(), shared, copy.to,
                             std::span(copy.coordinates).first(static_cast<size_t>(tile.map.rank)));
      ASSERT_TRUE(copied.has_value()) << c.text() << ": " << copied.error().message();
      bytes += *copied;
    }
    ASSERT_EQ(bytes, tile.layout.bytes()) << c.text();

    const auto head_of = [&](int32_t row) -> const std::byte* {
      const int64_t token = int64_t{base} + row;
      const int64_t page = table[token / c.page_size];
      return page < cache.num_pages
                 ? cache.head_of(kv, layer, page, token % c.page_size, pieces.head)
                 : nullptr;
    };
    ASSERT_EQ(tile_difference(shared, 0, tile.layout, 0, cache.head_bytes, rng, head_of), "")
        << c.text();
    ASSERT_EQ(fragment_difference(shared, tile.layout, rng), "") << c.text();
  }
}

template <class Builder>
void prove_grid() {
  Rng rng(test_seed());
  Count count;
  for (const DType dtype : proof_dtypes) {
    for (const int head_size : proof_head_sizes) {
      for (const int page_size : proof_page_sizes) {
        for (const StorageOrder order : proof_orders) {
          const ProofCache cache(dtype, head_size, page_size, order);
          for (const int tile_rows : proof_tile_rows) {
            for (const tma::Swizzle mode : proof_swizzles) {
              prove<Builder>({dtype, head_size, page_size, order, tile_rows, mode}, cache, rng,
                             count);
              if (::testing::Test::HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
  std::printf("[    cases ] %lld proved, %lld geometries refused\n",
              static_cast<long long>(count.legal), static_cast<long long>(count.refused));
  EXPECT_GT(count.legal, 0);
}

TEST(TmaProof, cache_tiles_bring_the_keys_that_fragments_expect) { prove_grid<CacheTile>(); }
TEST(TmaProof, folded_tiles_do) { prove_grid<FoldedTile>(); }
TEST(TmaProof, row_major_tiles_do) { prove_grid<RowMajorTile>(); }
TEST(TmaProof, page_aware_tiles_do) { prove_grid<PageTile<tma::ChunksPerCopy::all>>(); }
TEST(TmaProof, page_aware_tiles_by_chunk_do) { prove_grid<PageTile<tma::ChunksPerCopy::one>>(); }

}  // namespace
}  // namespace folio::test
