// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/tile_copies_test.cpp: the device side of tiles: async_copy, async_store, gather4,
/// prefetch, tma_copy_k and tma_copy_v, on a machine that copies at once and in the emulator.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "folio/cache/paged_kv_cache.h"
#include "folio/testing/cta/grid.h"
#include "folio/testing/cta/tile_map.h"
#include "folio/testing/tma_copy.h"
#include "folio/tma/gather4.h"
#include "folio/tma/page_tile.h"
#include "folio/tma/ragged_tile.h"
#include "folio/tma/row_tiles.h"
#include "support/random.h"

namespace folio::test {
namespace {

using emulator::decode_tile_map;
using emulator::GlobalMemory;
using emulator::SharedMemory;

/// A thread whose copies are done when they are asked for. Shared memory is all ones at first.
struct PlainMachine {
  using TileMap = tma::EncodedTensorMap;
  explicit PlainMachine(const GlobalMemory& memory) : global(memory) {
    std::memset(shared.at(0), 0xff, static_cast<size_t>(shared.size()));
  }

  void init_barrier(uint32_t at, uint32_t arrivals) { EXPECT_EQ(at % 8 + arrivals, 1u); }
  void fence_barriers() {}
  void arrive_expecting(uint32_t, uint32_t bytes) { expected_bytes += bytes; }
  template <int Rank>
  void copy_tile(const TileMap& map, const tma::Coordinates<Rank>& c, uint32_t to, uint32_t) {
    done(tma_load(*decode_tile_map(map), global, shared, to, c));
  }
  template <int Rank>
  void store_tile(const TileMap& map, const tma::Coordinates<Rank>& c, uint32_t from) {
    done(tma_store(*decode_tile_map(map), global, shared, from, c));
    ++open_stores;
  }
  void copy_gather4(const TileMap& map, const tma::Coordinates<5>& c, uint32_t to, uint32_t) {
    done(tma_gather4(*decode_tile_map(map), global, shared, to, c[0], {c[1], c[2], c[3], c[4]}));
  }
  template <int Rank>
  void prefetch_tile(const TileMap& map, const tma::Coordinates<Rank>&) {
    prefetched_bytes += decode_tile_map(map)->transaction_bytes();
  }
  void prefetch_map(const TileMap&) { ++prefetched_maps; }
  void commit_stores() { committed_stores = open_stores; }
  template <int Pending>
  void wait_stores() {
    EXPECT_EQ(committed_stores, open_stores);
  }
  void done(const Result<int64_t>& bytes) {
    ASSERT_TRUE(bytes) << bytes.error().message();
    copied_bytes += *bytes;
  }

  GlobalMemory global;
  SharedMemory shared{int64_t{64} << 10};
  int64_t expected_bytes = 0, copied_bytes = 0, prefetched_bytes = 0;
  int prefetched_maps = 0, open_stores = 0, committed_stores = 0;
};

constexpr SharedMemBarrier barrier{63 << 10};

/// Pages of a plane of bf16 whose bits tell which element they are, with other planes between them.
struct Plane {
  static constexpr int32_t heads = 2, depth = 128;
  explicit Plane(int64_t slots, int64_t pages = 9) {
    geometry = {0,
                DType::bf16,
                heads,
                depth,
                pages,
                slots,
                3 * slots * heads * depth * 2,
                heads * depth * 2,
                depth * 2,
                true};
    elements.resize(static_cast<size_t>(pages * geometry.page_stride_bytes / 2));
    for (size_t i = 0; i < elements.size(); ++i)
      elements[i] = static_cast<uint16_t>(i * 0x9e3779b97f4a7c15u >> 40 & 0x3fff) + 1;
    geometry.base = reinterpret_cast<uint64_t>(elements.data());
  }
  [[nodiscard]] uint16_t bits(int64_t row, int64_t head, int64_t d) const {
    return elements[static_cast<size_t>((row * heads + head) * depth + d)];
  }
  GlobalMemory memory() {
    return {reinterpret_cast<std::byte*>(elements.data()),
            static_cast<int64_t>(elements.size() * 2), geometry.base, "plane"};
  }
  tma::PlaneGeometry geometry;
  std::vector<uint16_t> elements;
};

uint16_t shared_bits(PlainMachine& t, int64_t at) {
  uint16_t bits;
  std::memcpy(&bits, t.shared.at(at), sizeof bits);
  return bits;
}

/// Row r, column c of a tile is that of the plane, `first_row` and `first_column` further on; the
/// barrier's bytes have come.
void expect_tile(PlainMachine& t, const Plane& plane, const tma::TileLayout& layout,
                 int64_t first_row, int64_t head, int64_t first_column, uint32_t bytes) {
  EXPECT_EQ(t.copied_bytes, bytes);
  int wrong = 0;
  for (int32_t row = 0; row < layout.rows; ++row)
    for (int32_t column = 0; column < layout.columns; ++column)
      wrong += shared_bits(t, 1024 + layout.offset(row, column)) !=
               plane.bits(first_row + row, head, first_column + column);
  EXPECT_EQ(wrong, 0);
}

constexpr tma::TileSpec spec{.swizzle = tma::Swizzle::b128, .rows = 32};

TEST(TileCopies, async_copy_brings_a_row_tile_chunk_after_chunk) {
  Plane plane(64);
  const auto tile = tma::cache_tile(plane.geometry, spec);
  PlainMachine t(plane.memory());
  tile.prefetch_descriptor(t, emulator::encode(tile.map));
  EXPECT_EQ(t.prefetched_maps, 1);
  barrier.init(t);
  barrier.expect_bytes(t, tile.copied_bytes());
  const int32_t row = static_cast<int32_t>(2 * plane.geometry.row_stride()) + 16;
  tile.async_copy(t, emulator::encode(tile.map), 1024, barrier, {{0, 1, row}});
  EXPECT_EQ(t.expected_bytes, t.copied_bytes);
  expect_tile(t, plane, tile.layout, row, 1, 0, tile.copied_bytes());
}
TEST(TileCopies, async_copy_of_folded_tiles_brings_all_chunks_at_once) {
  Plane plane(64);
  const auto row = static_cast<int32_t>(plane.geometry.row_stride()) + 8;
  PlainMachine t(plane.memory());
  const auto folded = tma::folded_tile(plane.geometry, spec);
  folded.async_copy(t, emulator::encode(folded.map), 1024, barrier, {{0, row, 0, 1}});
  expect_tile(t, plane, folded.layout, row, 1, 0, folded.copied_bytes());
  PlainMachine u(plane.memory());
  const auto atoms = tma::row_major_tile(plane.geometry, spec);
  atoms.async_copy(u, emulator::encode(atoms.map), 1024, barrier, {{0, 0, 0, row / 8, 1}});
  expect_tile(u, plane, atoms.layout, row, 1, 0, atoms.copied_bytes());
}
TEST(TileCopies, async_copy_of_page_tiles_walks_pages_and_chunks) {
  Plane plane(16);
  for (const auto per_copy : {tma::ChunksPerCopy::all, tma::ChunksPerCopy::one}) {
    PlainMachine t(plane.memory());
    const auto tile = tma::page_tile(plane.geometry, spec, per_copy);
    tile.async_copy(t, emulator::encode(tile.map), 1024, barrier, {{0, 0, 0, 1, 3}});
    EXPECT_EQ(t.copied_bytes, tile.copied_bytes());
    int wrong = 0;
    for (int32_t row = 0; row < 32; ++row)  // pages 3 and 4
      for (int32_t column = 0; column < 128; ++column)
        wrong += shared_bits(t, 1024 + tile.layout.offset(row, column)) !=
                 plane.bits((3 + row / 16) * plane.geometry.row_stride() + row % 16, 1, column);
    EXPECT_EQ(wrong, 0);
  }
}
TEST(TileCopies, async_prefetch_touches_the_boxes_that_async_copy_brings) {
  Plane plane(64);
  PlainMachine t(plane.memory());
  const auto tile = tma::cache_tile(plane.geometry, spec);
  tile.async_prefetch(t, emulator::encode(tile.map), {{0, 1, 0}});
  EXPECT_EQ(t.prefetched_bytes, tile.copied_bytes());
  EXPECT_EQ(t.copied_bytes, 0);
}
TEST(TileCopies, async_store_is_the_way_back) {
  Plane from(64), to(64);
  const auto tile = tma::cache_tile(from.geometry, spec);
  const auto back = tma::cache_tile(to.geometry, spec);
  PlainMachine t(from.memory());
  tile.async_copy(t, emulator::encode(tile.map), 1024, barrier, {{0, 0, 8}});
  std::fill(to.elements.begin(), to.elements.end(), uint16_t{0});
  t.global = to.memory();
  back.async_store(t, emulator::encode(back.map), 1024, {{0, 1, 200}});
  back.commit_group(t);
  back.wait_group(t);
  int wrong = 0;
  for (size_t i = 0; i < to.elements.size(); ++i) {
    const auto row = static_cast<int64_t>(i) / 256, head = static_cast<int64_t>(i) / 128 % 2;
    const bool is_stored = head == 1 && row >= 200 && row < 232;
    wrong +=
        to.elements[i] != (is_stored ? from.bits(row - 192, 0, static_cast<int64_t>(i) % 128) : 0);
  }
  EXPECT_EQ(wrong, 0);
}
TEST(TileCopies, ragged_tiles_are_clipped_to_their_sequence_both_ways) {
  Plane plane(64);
  const auto tile = tma::ragged_tile(plane.geometry, spec);
  PlainMachine t(plane.memory());
  tile.async_copy(t, emulator::encode(tile.map), 1024, barrier, {40, 21, 0}, 1);
  EXPECT_EQ(t.copied_bytes, tile.copied_bytes());
  int wrong = 0;
  for (int32_t row = 0; row < 32; ++row)
    for (int32_t column = 0; column < 128; ++column)
      wrong += shared_bits(t, 1024 + tile.layout.offset(row, column)) !=
               (row < 21 ? plane.bits(40 + row, 1, column) : 0);
  EXPECT_EQ(wrong, 0);

  Plane to(64);
  const Plane before = to;
  t.global = to.memory();
  const auto back = tma::ragged_tile(to.geometry, spec);
  back.async_store(t, emulator::encode(back.map), 1024, {300, 7, 0}, 0);
  wrong = 0;
  for (int64_t row = 0; row < 600; ++row)
    for (int64_t column = 0; column < 128; ++column)
      wrong +=
          to.bits(row, 0, column) != (row >= 300 && row < 307 ? plane.bits(row - 260, 1, column)
                                                              : before.bits(row, 0, column));
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(tile.coordinates({40, 21, 0}, 1, 1), RaggedTMA3DTile::clipped(40, 21, 1, 64));
}
TEST(TileCopies, gather4_tiles_bring_rows_of_their_own_and_zeros_for_none) {
  Plane plane(64);
  const tma::Gather4Spec four{.tile_height = 8, .tile_width = 256, .swizzle = tma::Swizzle::b128};
  const auto tile = tma::gather4_tile(plane.geometry, four);
  ASSERT_TRUE(tile.check().is_ok()) << tile.check().message();
  const int32_t rows[8] = {17, -1, 900, 3, static_cast<int32_t>(plane.geometry.num_rows()),
                           0,  5,  5};
  PlainMachine t(plane.memory());
  tile.async_copy_gather4_tile(t, emulator::encode(tile.map), 1024, barrier,
                               [&](int32_t i) { return rows[i]; });
  EXPECT_EQ(t.copied_bytes, tile.copied_bytes());
  int wrong = 0;
  for (int32_t i = 0; i < 8; ++i)
    for (int32_t column = 0; column < 256; ++column) {
      const bool is_there = rows[i] >= 0 && rows[i] < plane.geometry.num_rows();
      wrong += shared_bits(t, 1024 + tile.layout.offset(i, column)) !=
               (is_there ? plane.bits(rows[i], column / 128, column % 128) : 0);
    }
  EXPECT_EQ(wrong, 0);
}

/// The rows of a tile of BN keys in pages of their own, the last `missing` of them unassigned.
template <int BN, int PageSize, bool Pair, bool Leader>
PagedRowIndices<BN, PageSize, Pair, Leader> indices_of(const Plane& plane, int missing) {
  using Indices = PagedRowIndices<BN, PageSize, Pair, Leader>;
  Indices indices;
  indices.valid_pages = Indices::num_pages - missing;
  for (int i = 0; i < Indices::num_pages; ++i) {
    const int64_t page = (i * 5 + 2) % plane.geometry.num_pages;
    indices.rows[i] = static_cast<uint32_t>(
        i < indices.valid_pages ? page * plane.geometry.row_stride() : plane.geometry.num_rows());
  }
  return indices;
}

/// K or V of `keys` keys from `first` on of the tile: those of pieces [0, issued) are there, or
/// zero where unassigned; of the others shared memory is as it was, or zeros.
template <class Indices>
void expect_keys(PlainMachine& t, const Plane& plane, const Indices& indices, int first, int keys,
                 int piece_rows, int issued, uint16_t rest) {
  int wrong = 0;
  for (int key = 0; key < keys; ++key) {
    const uint32_t row = indices.get_row(static_cast<uint32_t>(first + key));
    for (int column = 0; column < 128; ++column) {
      const bool is_there = row < plane.geometry.num_rows();
      const uint16_t expected = key / piece_rows >= issued ? rest
                                : is_there                 ? plane.bits(row, 1, column)
                                                           : 0;
      const int64_t at = tma::swizzle(tma::Swizzle::b128,
                                      1024 + (column / 64 * keys + key) * 128 + column % 64 * 2);
      if (shared_bits(t, at) != expected && ++wrong <= 3)
        ADD_FAILURE() << "key " << key << " column " << column << " is " << shared_bits(t, at)
                      << ", expected " << expected;
    }
  }
  EXPECT_EQ(wrong, 0);
}

template <int BN, int PageSize, bool Pair, bool Leader>
void expect_k() {
  Plane plane(PageSize);
  using Indices = PagedRowIndices<BN, PageSize, Pair, Leader>;
  for (const int missing : {0, 1, Indices::num_pages}) {
    const auto indices = indices_of<BN, PageSize, Pair, Leader>(plane, missing);
    const auto tile = tma::cache_tile(
        plane.geometry, {.swizzle = tma::Swizzle::b128, .rows = Indices::k_tile_rows});
    ASSERT_EQ(tile.map.box[2], Indices::k_page_rows);
    for (int pieces = 0; pieces <= Indices::num_k_pages; ++pieces) {
      SCOPED_TRACE(::testing::Message() << BN << " keys, pages of " << PageSize << ", pair " << Pair
                                        << Leader << ", " << missing << " missing, " << pieces);
      PlainMachine t(plane.memory());
      indices.template tma_copy_k<DType::bf16, tma::Swizzle::b128, 128>(
          t, emulator::encode(tile.map), 1024, barrier, 1, 0, pieces);
      EXPECT_EQ(t.copied_bytes,
                (Indices::template tma_k_bytes<DType::bf16, tma::Swizzle::b128, 128>(pieces)));
      expect_keys(t, plane, indices, Pair && !Leader ? BN / 2 : 0, Indices::k_tile_rows,
                  Indices::k_page_rows, pieces, 0xffff);
    }
  }
}
TEST(TmaCopyK, brings_the_pieces_asked_for_of_this_cta) {
  expect_k<64, 16, false, true>();
  expect_k<128, 64, false, true>();
  expect_k<64, 64, false, true>();
  expect_k<32, 64, false, true>();
  expect_k<64, 16, true, true>();
  expect_k<64, 16, true, false>();
  expect_k<64, 64, true, true>();
  expect_k<64, 64, true, false>();
}

template <int BN, int PageSize, int SubTiles>
void expect_v() {
  Plane plane(PageSize);
  using Indices = PagedRowIndices<BN, PageSize>;
  constexpr int keys = BN / SubTiles, piece = detail::sub_rows(keys, PageSize);
  constexpr int count = keys / piece;
  const auto tile = tma::cache_tile(plane.geometry, {.swizzle = tma::Swizzle::b128, .rows = keys});
  for (const int missing : {0, 1}) {
    const auto indices = indices_of<BN, PageSize, false, true>(plane, missing);
    for (int sub = 0; sub < SubTiles; ++sub) {
      for (int pieces = 0; pieces <= count; ++pieces) {
        for (const RestOfTile rest : {RestOfTile::skip, RestOfTile::zero}) {
          SCOPED_TRACE(::testing::Message() << BN << " keys, pages of " << PageSize << ", part "
                                            << sub << " of " << SubTiles << ", " << pieces);
          PlainMachine t(plane.memory());
          indices.template tma_copy_v<DType::bf16, tma::Swizzle::b128, 128, SubTiles>(
              t, emulator::encode(tile.map), 1024, barrier, 1, 0, pieces, rest, sub);
          const int arriving = rest == RestOfTile::zero ? count : pieces;
          EXPECT_EQ(t.copied_bytes,
                    (Indices::template tma_v_bytes<DType::bf16, tma::Swizzle::b128, 128, SubTiles>(
                        arriving)));
          expect_keys(t, plane, indices, sub * keys, keys, piece, pieces,
                      rest == RestOfTile::zero ? 0 : 0xffff);
        }
      }
    }
  }
}
TEST(TmaCopyV, fills_what_is_not_asked_for_with_zeros_or_leaves_it) {
  expect_v<64, 16, 1>();
  expect_v<64, 16, 2>();
  expect_v<64, 64, 1>();
  expect_v<64, 64, 4>();
  expect_v<32, 64, 2>();
}

/// In the emulator: the barrier counts the bytes, and who reads before it has them is found.
std::string run_in_emulator(bool waits) {
  Plane plane(16);
  const auto indices = indices_of<64, 16, false, true>(plane, 1);
  const auto tile = tma::cache_tile(plane.geometry, {.swizzle = tma::Swizzle::b128, .rows = 64});
  const tma::EncodedTensorMap map = emulator::encode(tile.map);
  emulator::Grid grid({.blocks = 1, .resident = 1, .threads = 64, .shared_bytes = 1024 + 16384});
  grid.add_input("plane", plane.elements.data(), plane.memory().bytes);
  int wrong = 0;
  std::string fault = grid.run([&](emulator::EmulatedThread& t) {
    const SharedMemBarrier bar{t.shared_base()};
    const uint32_t to = t.shared_base() + 1024;
    if (t.thread() == 0) {
      bar.init(t);
      SharedMemBarrier::fence_init(t);
    }
    t.sync_block();
    if (t.thread() == 0) {
      bar.expect_bytes(t, decltype(indices)::tma_k_bytes<DType::bf16, tma::Swizzle::b128, 128>());
      indices.tma_copy_k<DType::bf16, tma::Swizzle::b128, 128>(t, map, to, bar, 0);
    }
    if (waits) bar.wait(t, 0);
    const auto key = static_cast<uint32_t>(t.thread());
    for (int column = 0; column < 128; ++column) {
      const auto at = static_cast<uint32_t>(tma::swizzle(
          tma::Swizzle::b128, to + (column / 64 * 64 + t.thread()) * 128 + column % 64 * 2));
      const auto bits = t.load_shared<uint16_t>(at);
      wrong += bits != (key < 48 ? plane.bits(indices.get_row(key), 0, column) : 0);
    }
  });
  return wrong == 0 ? fault : fault + " and " + std::to_string(wrong) + " elements are wrong";
}
TEST(TmaCopyK, has_landed_when_its_barrier_says_so_and_not_before) {
  EXPECT_EQ(run_in_emulator(true), "");
  EXPECT_NE(run_in_emulator(false), "");
}

}  // namespace
}  // namespace folio::test
