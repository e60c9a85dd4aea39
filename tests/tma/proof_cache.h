// SPDX-License-Identifier: Apache-2.0
/// tests/tma/proof_cache.h: storage, tables and independent answers for proofs that tiles bring the
/// right elements.
///
/// Storage is random bytes, so that every 16 of them are different. Where an element lies is
/// computed here from the two storage orders in words, not from the library's views; the tile
/// builders get their planes from make_planes, as an engine would.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "folio/cache/planes.h"
#include "folio/cache/row_indices.h"
#include "folio/cache/tma_plane.h"
#include "folio/testing/shared_memory.h"
#include "folio/tma/tile.h"
#include "support/random.h"

namespace folio::test {

inline constexpr std::array proof_head_sizes{64, 72, 80, 128, 192, 256, 512, 576};
inline constexpr std::array proof_page_sizes{1, 8, 16, 32, 64, 128, 256};
inline constexpr std::array proof_tile_rows{16, 32, 64, 128, 256};
inline constexpr std::array proof_swizzles{tma::Swizzle::none, tma::Swizzle::b32, tma::Swizzle::b64,
                                           tma::Swizzle::b128};
inline constexpr std::array proof_dtypes{DType::bf16, DType::f16, DType::f32, DType::f8_e4m3,
                                         DType::i8};
inline constexpr std::array proof_orders{StorageOrder::token_major, StorageOrder::head_major};

/// `bytes` random bytes at a 1024-byte boundary, the same in every call: made once.
inline std::byte* random_storage(int64_t bytes) {
  constexpr int64_t size = int64_t{16} << 20;
  struct Storage {
    std::vector<uint64_t> words = std::vector<uint64_t>((size + 1024) / 8);
    Storage() {
      Rng rng(20240607);
      for (uint64_t& word : words) word = rng.next();
    }
  };
  static Storage storage;
  EXPECT_LE(bytes, size);
  const auto begin = (reinterpret_cast<uintptr_t>(storage.words.data()) + 1023) / 1024 * 1024;
  return reinterpret_cast<std::byte*>(begin);
}

/// Two layers of K and V, two heads.
class ProofCache {
 public:
  static constexpr int32_t num_layers = 2;
  static constexpr int32_t num_heads = 2;

  ProofCache(DType dtype, int32_t head_size, int32_t page_size, StorageOrder order)
      : num_pages(page_size >= 128  ? 3
                  : page_size >= 32 ? 5
                                    : 12),
        page_size_(page_size),
        order_(order) {
    KVShape shape;
    shape.num_layers = num_layers;
    shape.num_heads = num_heads;
    shape.head_size = head_size;
    shape.page_size = page_size;
    shape.dtype = dtype;
    shape.order = order;
    head_bytes = head_size * bit_width(dtype) / 8;
    bytes_ = num_pages * page_bytes(shape).value();
    data_ = random_storage(bytes_);
    planes_ = make_planes(shape, num_pages, {data_, bytes_}).value();
  }

  /// K (0) or V (1) of a layer, as the builders take it.
  [[nodiscard]] tma::PlaneGeometry plane(int kv, int layer) const {
    const KVPlanes& planes = planes_[static_cast<size_t>(layer)];
    return tma::plane_of(kv == 0 ? planes.key : planes.value);
  }
  [[nodiscard]] emulator::GlobalMemory memory() const {
    return emulator::global_memory({data_, bytes_}, "blocks");
  }

  /// The head_bytes of one head of one token: blocks [page, kv, layer, slot, head, dim] or [page,
  /// kv, layer, head, slot, dim].
  [[nodiscard]] const std::byte* head_of(int kv, int layer, int64_t page, int64_t slot,
                                         int head) const {
    int64_t row = (page * 2 + kv) * num_layers + layer;
    if (order_ == StorageOrder::token_major) {
      row = (row * page_size_ + slot) * num_heads + head;
    } else {
      row = (row * num_heads + head) * page_size_ + slot;
    }
    return data_ + row * head_bytes;
  }

  int64_t num_pages;
  int64_t head_bytes = 0;

 private:
  int32_t page_size_;
  StorageOrder order_;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  std::vector<KVPlanes> planes_;
};

/// One row of a page table, aligned and padded as populate needs it, with unassigned entries among
/// the pages.
class ProofTable {
 public:
  ProofTable(int64_t num_pages, Rng& rng) {
    const uint32_t sentinels[] = {static_cast<uint32_t>(num_pages),
                                  static_cast<uint32_t>(num_pages) + 7, 0xffffffffu};
    for (uint32_t& entry : entries_) {
      entry = rng.chance(0.15) ? rng.pick(sentinels)
                               : static_cast<uint32_t>(rng.between(0, num_pages - 1));
    }
  }
  [[nodiscard]] const uint32_t* data() const { return entries_; }
  uint32_t& operator[](int64_t i) { return entries_[i]; }
  uint32_t operator[](int64_t i) const { return entries_[i]; }

  static constexpr int64_t num_entries = 2 * 256;  ///< two tiles of 256 pages

 private:
  alignas(32) uint32_t entries_[num_entries + 16];
};

/// PagedRows of any page size.
struct PageRows {
  int64_t num_pages = 0;
  int64_t row_stride = 0;
};

/// Rows of the pieces of a tile, through populate: a tile of more than 16 pages is populated part
/// by part.
template <int BN, int PageSize>
void populate_tile(const uint32_t* table, uint32_t base, const PageRows& pages,
                   std::vector<uint32_t>& rows) {
  constexpr int part = std::min(BN, 16 * PageSize);
  rows.clear();
  for (int first = 0; first < BN; first += part) {
    const auto indices = detail::populate_rows<part, PageSize, part, false, true>(
        table, base + static_cast<uint32_t>(first),
        detail::PagedRows<PageSize>{pages.num_pages, pages.row_stride});
    rows.insert(rows.end(), std::begin(indices.rows), std::end(indices.rows));
  }
}

template <int PageSize>
void populate_page(int tile_rows, const uint32_t* table, uint32_t base, const PageRows& pages,
                   std::vector<uint32_t>& rows) {
  switch (tile_rows) {
    case 16: return populate_tile<16, PageSize>(table, base, pages, rows);
    case 32: return populate_tile<32, PageSize>(table, base, pages, rows);
    case 64: return populate_tile<64, PageSize>(table, base, pages, rows);
    case 128: return populate_tile<128, PageSize>(table, base, pages, rows);
    default: return populate_tile<256, PageSize>(table, base, pages, rows);
  }
}

/// The first row of each piece of a tile of `tile_rows` keys from `base`, which is a multiple of
/// tile_rows.
inline void populate_any(int page_size, int tile_rows, const uint32_t* table, uint32_t base,
                         const PageRows& pages, std::vector<uint32_t>& rows) {
  switch (page_size) {
    case 1: return populate_page<1>(tile_rows, table, base, pages, rows);
    case 8: return populate_page<8>(tile_rows, table, base, pages, rows);
    case 16: return populate_page<16>(tile_rows, table, base, pages, rows);
    case 32: return populate_page<32>(tile_rows, table, base, pages, rows);
    case 64: return populate_page<64>(tile_rows, table, base, pages, rows);
    case 128: return populate_page<128>(tile_rows, table, base, pages, rows);
    default: return populate_page<256>(tile_rows, table, base, pages, rows);
  }
}

/// Compares a tile with the rows that it should hold: `head_of(row)` gives the bytes of a row, or
/// null for one that reads as zeros. `first_byte`: where the tile's columns begin in the head;
/// bytes at and past `last_byte` read as zeros. Looks at every 16 bytes, and at one row element by
/// element. Gives "" or where the first difference is.
template <class HeadOf>
std::string tile_difference(const emulator::SharedMemory& shared, int64_t tile_address,
                            const tma::TileLayout& layout, int64_t first_byte, int64_t last_byte,
                            Rng& rng, HeadOf&& head_of) {
  constexpr int64_t unit = 16;
  const int64_t row_bytes = int64_t{layout.columns} * layout.element_bytes;
  for (int32_t row = 0; row < layout.rows; ++row) {
    const std::byte* head = head_of(row);
    for (int64_t at = 0; at < row_bytes; at += unit) {
      std::array<std::byte, unit> expected{};
      const int64_t valid =
          head == nullptr ? 0 : std::clamp<int64_t>(last_byte - first_byte - at, 0, unit);
      if (valid > 0)
        std::memcpy(expected.data(), head + first_byte + at, static_cast<size_t>(valid));
      const int64_t address =
          tile_address + layout.offset(row, static_cast<int32_t>(at / layout.element_bytes));
      if (std::memcmp(shared.at(address), expected.data(), unit) != 0)
        return "row " + std::to_string(row) + ", byte " + std::to_string(at) +
               " of the tile's columns";
    }
  }
  const int32_t row = rng.int_between(0, layout.rows - 1);
  for (int32_t column = 0; column < layout.columns; ++column) {
    const int32_t first = column / static_cast<int32_t>(unit / layout.element_bytes) *
                          static_cast<int32_t>(unit / layout.element_bytes);
    if (layout.offset(row, column) !=
        layout.offset(row, first) + int64_t{column - first} * layout.element_bytes)
      return "element " + std::to_string(column) + " does not follow its neighbour";
  }
  return "";
}

}  // namespace folio::test
