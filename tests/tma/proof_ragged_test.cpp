// SPDX-License-Identifier: Apache-2.0
/// tests/tma/proof_ragged_test.cpp: tiles that clip where a sequence begins and ends, loads and
/// stores, contiguous, grouped and paged; and the parts of latent rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "folio/testing/tma_copy.h"
#include "folio/tma/ragged_tile.h"
#include "tma/proof_cache.h"

namespace folio::test {
namespace {

using emulator::SharedMemory;

struct RaggedCase {
  DType dtype = DType::bf16;
  int32_t head_size = 0;
  int32_t tile_rows = 0;
  tma::Swizzle swizzle = tma::Swizzle::none;
  int32_t group = 1;
};

constexpr int32_t ragged_heads = 4;

/// A sequence among others and a tile of it: whole, over its end, over its beginning, beside it.
tma::RaggedRows random_rows(const RaggedTMA3DTile& tile, int64_t num_rows, Rng& rng) {
  tma::RaggedRows rows;
  do {
    rows.start = rng.between(0, num_rows);
    rows.length =
        rng.between(0, std::min<int64_t>(num_rows - rows.start, 2 * tile.sequence_rows()));
    rows.first = rng.between(-tile.sequence_rows() - 2, rows.length + 2);
    if (rng.chance(0.3)) rows.first = 0;
    if (rng.chance(0.2)) rows.first = rows.length - tile.sequence_rows();
  } while (!tile.clips_in_one_copy(rows));
  return rows;
}

void prove_ragged(const RaggedCase& c, Rng& rng, int64_t& proved) {
  const int64_t num_rows = rng.between(1, 40);
  const int64_t head_bytes = int64_t{c.head_size} * bit_width(c.dtype) / 8;
  const int64_t bytes = num_rows * ragged_heads * head_bytes;
  std::byte* data = random_storage(bytes);
  const tma::PlaneGeometry plane =
      tma::plane_of_rows(data, c.dtype, num_rows, ragged_heads, c.head_size);
  const RaggedTMA3DTile tile =
      tma::ragged_tile(plane, {.swizzle = c.swizzle, .rows = c.tile_rows}, c.group);
  const bool single = (head_bytes + swizzle_bytes(c.swizzle) - 1) / swizzle_bytes(c.swizzle) == 1;
  const bool legal =
      head_bytes % 16 == 0 && (single || c.tile_rows * swizzle_bytes(c.swizzle) % 128 == 0);
  ASSERT_EQ(tile.check().is_ok(), legal)
      << c.head_size << " " << name(c.dtype) << ": " << tile.check().message();
  if (!legal) return;
  ++proved;
  const tma::RaggedRows rows = random_rows(tile, num_rows, rng);
  const int32_t head_group = rng.int_between(0, ragged_heads / c.group - 1);
  const std::string text = std::string(name(c.dtype)) + " head " + std::to_string(c.head_size) +
                           " tile " + std::to_string(c.tile_rows) + " group " +
                           std::to_string(c.group) + " " + name(c.swizzle) + " start " +
                           std::to_string(rows.start) + " length " + std::to_string(rows.length) +
                           " first " + std::to_string(rows.first);
  const auto offset_of = [&](int32_t row) -> int64_t {  // of a row of the tile; -1: clipped
    const int64_t at = rows.first + row / c.group;
    return at < 0 || at >= rows.length
               ? -1
               : ((rows.start + at) * ragged_heads + head_group * c.group + row % c.group) *
                     head_bytes;
  };

  SharedMemory shared(tile.layout.bytes());
  for (int32_t chunk = 0; chunk < tile.layout.num_chunks(); ++chunk) {
    const Result<int64_t> copied = emulator::tma_load(
        tile.map, emulator::global_memory({data, bytes}), shared, tile.layout.box_offset(0, chunk),
        tile.coordinates(rows, head_group, chunk));
    ASSERT_TRUE(copied.has_value()) << text << ": " << copied.error().message();
  }
  ASSERT_EQ(tile_difference(shared, 0, tile.layout, 0, head_bytes, rng,
                            [&](int32_t row) -> const std::byte* {
                              return offset_of(row) < 0 ? nullptr : data + offset_of(row);
                            }),
            "")
      << text;

  // The way back, over zeros: exactly the rows of the sequence that the tile holds are written.
  std::vector<uint64_t> words(static_cast<size_t>(bytes + 15) / 8, 0);
  tma::TensorMap map = tile.map;
  map.base = tma::address_of(words.data());
  for (int32_t chunk = 0; chunk < tile.layout.num_chunks(); ++chunk) {
    const Result<int64_t> copied = emulator::tma_store(
        map, emulator::global_memory({words.data(), bytes}), shared,
        tile.layout.box_offset(0, chunk), tile.coordinates(rows, head_group, chunk));
    ASSERT_TRUE(copied.has_value()) << text << ": " << copied.error().message();
  }
  std::vector<std::byte> expected(static_cast<size_t>(bytes), std::byte{0});
  for (int32_t row = 0; row < c.tile_rows; ++row) {
    if (offset_of(row) >= 0)
      std::memcpy(&expected[static_cast<size_t>(offset_of(row))], data + offset_of(row),
                  static_cast<size_t>(head_bytes));
  }
  ASSERT_EQ(std::memcmp(words.data(), expected.data(), expected.size()), 0) << text;
}

TEST(TmaProof, ragged_tiles_load_and_store_their_sequence_and_nothing_else) {
  Rng rng(test_seed());
  int64_t proved = 0;
  for (const DType dtype : proof_dtypes) {
    for (const int head_size : proof_head_sizes) {
      for (const int tile_rows : proof_tile_rows) {
        for (const tma::Swizzle mode : proof_swizzles) {
          for (const int group : {1, 2, 4}) {
            for (int i = 0; i < 4; ++i)
              prove_ragged({dtype, head_size, tile_rows, mode, group}, rng, proved);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
  std::printf("[    cases ] %lld proved\n", static_cast<long long>(proved));
  EXPECT_GT(proved, 0);
}

/// V of a context that ends inside a page: its rows are clipped page by page, so that stale slots
/// read as zeros too.
void prove_paged_end(const ProofCache& cache, int32_t page_size, int32_t tile_rows,
                     tma::Swizzle mode, Rng& rng) {
  const tma::PlaneGeometry plane = cache.plane(1, 0);
  const RaggedTMA3DTile tile = tma::ragged_tile(plane, {.swizzle = mode, .rows = tile_rows});
  // boxes begin at multiples of 128 bytes: one alone does, several of few narrow rows do not
  const int32_t box_rows = std::min(page_size, tile_rows), width = swizzle_bytes(mode);
  const bool single = box_rows == tile_rows && cache.head_bytes <= width;
  const bool legal = single || box_rows * width % 128 == 0;
  ASSERT_EQ(tile.check().is_ok(), legal) << cache.head_bytes << ": " << tile.check().message();
  if (!legal) return;
  const ProofTable table(cache.num_pages, rng);
  const int32_t base = tile_rows * rng.int_between(0, std::max(2, 2 * page_size / tile_rows) - 1);
  const int32_t context = base + rng.int_between(0, tile_rows);
  std::vector<uint32_t> rows;
  populate_any(page_size, tile_rows, table.data(), static_cast<uint32_t>(base),
               {plane.num_pages, plane.row_stride()}, rows);
  const int32_t step = tile.sequence_rows();
  SharedMemory shared(tile.layout.bytes());
  for (int32_t row = 0; row < tile_rows; row += step) {
    const int64_t valid = std::clamp(context - base - row, 0, step);
    const int64_t first = rows[static_cast<size_t>(row / step)];
    const tma::RaggedRows piece{first, first == plane.num_rows() ? 0 : valid, 0};
    for (int32_t chunk = 0; chunk < tile.layout.num_chunks(); ++chunk) {
      const Result<int64_t> copied =
          emulator::tma_load(tile.map, cache.memory(), shared, tile.layout.box_offset(row, chunk),
                             tile.coordinates(piece, 1, chunk));
      ASSERT_TRUE(copied.has_value()) << copied.error().message();
    }
  }
  const auto head_of = [&](int32_t row) -> const std::byte* {
    const int64_t page = table[(base + row) / page_size];
    if (base + row >= context || page >= cache.num_pages) return nullptr;
    return cache.head_of(1, 0, page, (base + row) % page_size, 1);
  };
  ASSERT_EQ(tile_difference(shared, 0, tile.layout, 0, cache.head_bytes, rng, head_of), "")
      << page_size << " " << tile_rows << " " << name(mode) << " context " << context;
}

TEST(TmaProof, ragged_tiles_of_pages_are_zero_past_the_context) {
  Rng rng(test_seed());
  for (const int head_size : proof_head_sizes) {
    for (const int page_size : proof_page_sizes) {
      const ProofCache cache(DType::bf16, head_size, page_size, StorageOrder::token_major);
      for (const int tile_rows : proof_tile_rows) {
        for (const tma::Swizzle mode : proof_swizzles)
          prove_paged_end(cache, page_size, tile_rows, mode, rng);
        if (HasFatalFailure()) return;
      }
    }
  }
}

/// A cache of latent rows: one head, no V plane.
struct Latent {
  Latent(DType dtype, int32_t head_size, int32_t page_size) {
    const KVShape shape{.num_layers = 2,
                        .num_heads = 1,
                        .head_size = head_size,
                        .page_size = page_size,
                        .dtype = dtype,
                        .is_mla = true};
    row_bytes = int64_t{head_size} * bit_width(dtype) / 8;
    page_rows = page_size;
    bytes = num_pages * page_bytes(shape).value();
    data = random_storage(bytes);
    plane = tma::plane_of(make_planes(shape, num_pages, {data, bytes}).value()[1].key);
  }
  [[nodiscard]] const std::byte* row(int64_t page, int64_t slot) const {
    return data + ((page * 2 + 1) * page_rows + slot) * row_bytes;
  }

  static constexpr int64_t num_pages = 3;
  int64_t row_bytes = 0, page_rows = 0, bytes = 0;
  std::byte* data = nullptr;
  tma::PlaneGeometry plane;
};

/// A tile of columns [first_byte, last_byte) of the rows of page 2, then of an unassigned page.
void expect_part(const Latent& latent, const TMATensorTile<3>& tile, int64_t first_byte,
                 int64_t last_byte, Rng& rng) {
  ASSERT_TRUE(tile.check().is_ok()) << tile.check().message();
  const int32_t step = tile.box_shape[0];
  SharedMemory shared(tile.layout.bytes());
  for (int32_t row = 0; row < tile.layout.rows; row += step) {
    const int64_t first = row == 0 ? 2 * latent.plane.row_stride() : latent.plane.num_rows();
    for (int32_t c = 0; c < tile.layout.num_chunks(); ++c) {
      const Result<int64_t> copied =
          emulator::tma_load<3>(tile.map, emulator::global_memory({latent.data, latent.bytes}),
                                shared, tile.layout.box_offset(row, c),
                                {{c * tile.layout.chunk, 0, static_cast<int32_t>(first)}});
      ASSERT_TRUE(copied.has_value()) << copied.error().message();
    }
  }
  EXPECT_EQ(tile_difference(shared, 0, tile.layout, first_byte, last_byte, rng,
                            [&](int32_t row) { return row < step ? latent.row(2, row) : nullptr; }),
            "");
}

TEST(TmaProof, parts_of_latent_rows_are_tiles_of_their_own) {
  Rng rng(test_seed());
  for (const int page_size : {8, 16, 32, 64, 128}) {
    for (const int tile_rows : {16, 64, 128}) {
      for (const tma::Swizzle mode : proof_swizzles) {
        SCOPED_TRACE(std::to_string(page_size) + " " + std::to_string(tile_rows) + " " +
                     name(mode));
        // 512 latent columns, which are V too, and 64 of rope
        const Latent latent(DType::bf16, 576, page_size);
        const tma::TileSpec whole{.swizzle = mode, .rows = tile_rows};
        tma::TileSpec value = whole, rope = whole;
        value.depth = 512;
        rope.first_column = 512;
        expect_part(latent, tma::cache_tile(latent.plane, whole), 0, 1152, rng);
        expect_part(latent, tma::cache_tile(latent.plane, value), 0, 1024, rng);
        expect_part(latent, tma::cache_tile(latent.plane, rope), 1024, 1152, rng);
        // 512 bytes of fp8 content and 64 bf16 elements of rope.
        const Latent mixed(DType::f8_e4m3, 640, page_size);
        value.depth = 512;
        expect_part(mixed, tma::cache_tile(mixed.plane, value), 0, 512, rng);
        expect_part(mixed,
                    tma::rope_tile(
                        mixed.plane,
                        {.swizzle = mode, .rows = tile_rows, .columns = 64, .padded_depth = 512}),
                    512, 640, rng);
      }
    }
  }
}

}  // namespace
}  // namespace folio::test
