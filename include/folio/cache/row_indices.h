// SPDX-License-Identifier: Apache-2.0
/// folio/cache/row_indices.h: the physical rows of one tile of keys, resolved once and used for K
/// and for V.
///
/// A row is one token's record of all heads of one plane. A tile of BN keys lies in BN / eff_page
/// pages; `populate` looks them up with as few table reads as alignment allows. Rows are 32-bit
/// here, because TMA coordinates are; everywhere else they are int64.
#pragma once

#include <cstdint>

#include "folio/core/dtype.h"
#include "folio/core/host_device.h"
#include "folio/tma/barrier.h"
#include "folio/tma/swizzle.h"
#include "folio/tma/tensor_map.h"

namespace folio::inline v1::tma {

/// What becomes of the pieces of a tile that a copy is not asked for.
enum class RestOfTile : uint8_t {
  skip = 0,  ///< shared memory keeps what it has
  zero = 1,  ///< zeros, by copies of what is out of bounds: all bytes of the tile arrive
};

}  // namespace folio::inline v1::tma

namespace folio::inline v1 {

namespace detail {

/// Rows of a tile that lie in one page; page_size 0: not paged.
FOLIO_HOST_DEVICE constexpr int sub_rows(int tile_rows, int page_size) {
  return page_size <= 0 || page_size >= tile_rows ? tile_rows : page_size;
}
/// Pieces of a tile, one per page.
FOLIO_HOST_DEVICE constexpr int num_sub(int tile_rows, int page_size) {
  return tile_rows / sub_rows(tile_rows, page_size);
}

template <int BN, int PageSize>
concept tile_and_page_divide_one_another =
    BN >= 1 && PageSize >= 0 && (PageSize == 0 || BN % PageSize == 0 || PageSize % BN == 0);
/// The table's padding is 16 entries.
template <int BN, int PageSize> concept tile_spans_at_most_16_pages = num_sub(BN, PageSize) <= 16;
/// A tile that starts inside a page, or straddles two, is no tile of whole pieces.
template <int BN, int PageSize, int BaseAlignment>
concept base_alignment_is_a_multiple_of_the_piece =
    BaseAlignment >= 1 && (PageSize == 0 || BaseAlignment % sub_rows(BN, PageSize) == 0);
/// Each CTA of a pair loads half of the keys.
template <int BN, int PageSize, bool PairCta>
concept pair_of_ctas_halves_the_tile =
    !PairCta || (BN % 2 == 0 && (num_sub(BN, PageSize) == 1 || num_sub(BN, PageSize) % 2 == 0));

template <int BN, int PageSize, bool PairCta>
concept TileGeometry =
    tile_and_page_divide_one_another<BN, PageSize> && tile_spans_at_most_16_pages<BN, PageSize> &&
    pair_of_ctas_halves_the_tile<BN, PageSize, PairCta>;

}  // namespace detail

/// The first row of each piece of a tile of BN keys. `rows` covers all of BN, also in a CTA of a
/// pair (V needs them all). Pieces in unassigned pages have row num_kv_rows: out of bounds, zero
/// fill.
template <int BN, int PageSize, bool PairCta = false, bool IsLeader = true>
struct PagedRowIndices {
  // Not constraints: a return type is formed before the function's own constraints, which say more,
  // are looked at.
  static_assert(detail::tile_and_page_divide_one_another<BN, PageSize>,
                "PagedRowIndices: BN and page_size divide one another");
  static_assert(detail::tile_spans_at_most_16_pages<BN, PageSize>,
                "PagedRowIndices: a tile spans at most 16 pages");
  static_assert(detail::pair_of_ctas_halves_the_tile<BN, PageSize, PairCta>,
                "PagedRowIndices: each CTA of a pair loads half of the pieces");
  static constexpr int eff_page = detail::sub_rows(BN, PageSize);
  static constexpr int num_pages = BN / eff_page;
  static constexpr int cta_group = PairCta ? 2 : 1;
  /// pieces this CTA loads as K
  static constexpr int num_k_pages = PairCta && num_pages > 1 ? num_pages / 2 : num_pages;
  /// rows of one such piece
  static constexpr int k_page_rows = detail::sub_rows(PairCta ? BN / 2 : BN, PageSize);

  uint32_t rows[num_pages] = {};
  int32_t valid_pages = 0;  ///< leading pieces whose page is assigned

  /// Row of key `offset` of the tile, 0 <= offset < BN.
  FOLIO_HOST_DEVICE constexpr uint32_t get_row(uint32_t offset) const {
    if constexpr (num_pages == 1) {
      return rows[0] + offset;
    } else {
      constexpr auto page = static_cast<uint32_t>(eff_page);
      return rows[offset / page] + offset % page;
    }
  }
  /// First row of the i-th piece that this CTA loads as K, 0 <= i < num_k_pages: the leader the
  /// first half, its peer the second.
  FOLIO_HOST_DEVICE constexpr uint32_t k_row(int i) const {
    if constexpr (!PairCta || IsLeader) {
      return rows[i];
    } else if constexpr (num_pages == 1) {
      return rows[0] + static_cast<uint32_t>(BN / 2);
    } else {
      return rows[num_k_pages + i];
    }
  }
  /// Leading pieces of this CTA's K whose page is assigned.
  FOLIO_HOST_DEVICE constexpr int valid_k_pages() const {
    constexpr int first = PairCta && !IsLeader && num_pages > 1 ? num_k_pages : 0;
    const int rest = valid_pages - first;
    return rest < 0 ? 0 : rest > num_k_pages ? num_k_pages : rest;
  }

  // ---- copies by the map of create_tma_tile<Mode, tile rows>, one per piece and chunk of columns

  /// Keys of this CTA's K tile, and of each of `SubTiles` parts of its V tile.
  static constexpr int k_tile_rows = PairCta ? BN / 2 : BN;
  template <int SubTiles>
  static constexpr int v_tile_rows = BN / SubTiles;
  /// Bytes that the barrier is told of `pieces` pieces of `Rows` keys.
  template <DType D, tma::Swizzle Mode, int Depth, int Rows>
  FOLIO_HOST_DEVICE static constexpr uint32_t tma_bytes(int pieces) {
    constexpr int chunk = tma::swizzle_granularity(D, Mode);
    constexpr int piece = Rows * ((Depth + chunk - 1) / chunk * chunk) * (bit_width(D) / 8);
    return static_cast<uint32_t>(pieces * piece);
  }
  template <DType D, tma::Swizzle Mode, int Depth>
  FOLIO_HOST_DEVICE static constexpr uint32_t tma_k_bytes(int pieces = num_k_pages) {
    return tma_bytes<D, Mode, Depth, k_page_rows>(pieces);
  }
  template <DType D, tma::Swizzle Mode, int Depth, int SubTiles = 1>
  FOLIO_HOST_DEVICE static constexpr uint32_t tma_v_bytes(
      int pieces = detail::num_sub(v_tile_rows<SubTiles>, PageSize)) {
    return tma_bytes<D, Mode, Depth, detail::sub_rows(v_tile_rows<SubTiles>, PageSize)>(pieces);
  }

  /// K of head `kv_head`: columns [depth_offset, + Depth) of the first `pieces` pieces of this CTA,
  /// chunk after chunk, each over SmemRows rows of shared memory from `to` on. By one thread.
  /// Pieces in unassigned pages come as zeros. The barrier is told of tma_k_bytes(pieces).
  template <DType D, tma::Swizzle Mode, int Depth, int SmemRows = k_tile_rows, class Machine>
  FOLIO_DEVICE_FUNCTION void tma_copy_k(Machine& t, const typename Machine::TileMap& map,
                                        uint32_t to, SharedMemBarrier barrier, int32_t kv_head,
                                        int32_t depth_offset = 0, int pieces = num_k_pages) const {
    const auto row = [&](int i) { return static_cast<int32_t>(k_row(i)); };
    copy_pieces<D, Mode, Depth, SmemRows, k_page_rows, num_k_pages>(
        t, map, to, barrier, {kv_head, depth_offset}, pieces, tma::RestOfTile::skip, row);
  }
  /// V of part `sub_tile` of the keys, which SubTiles parts share evenly: each CTA of a pair loads
  /// all keys. With RestOfTile::zero all pieces' bytes arrive, those from `pieces` on as zeros,
  /// which P * V needs: 0 * NaN is NaN. The barrier is told of tma_v_bytes of what arrives.
  template <DType D, tma::Swizzle Mode, int Depth, int SubTiles = 1, class Machine>
  // NOLINTNEXTLINE(readability-function-size): the seeds' arguments
  FOLIO_DEVICE_FUNCTION void tma_copy_v(
      Machine& t, const typename Machine::TileMap& map, uint32_t to, SharedMemBarrier barrier,
      int32_t kv_head, int32_t depth_offset = 0,
      int pieces = detail::num_sub(v_tile_rows<SubTiles>, PageSize),
      tma::RestOfTile rest = tma::RestOfTile::skip, int sub_tile = 0) const {
    constexpr int tile_rows = v_tile_rows<SubTiles>;
    constexpr int count = detail::num_sub(tile_rows, PageSize);
    static_assert(BN % SubTiles == 0 && (num_pages % SubTiles == 0 || num_pages == 1),
                  "tma_copy_v: sub-tiles are whole pieces, or parts of one page");
    const auto row = [&](int i) {
      if constexpr (num_pages == 1) {
        return static_cast<int32_t>(get_row(static_cast<uint32_t>(sub_tile * tile_rows)));
      } else {
        return static_cast<int32_t>(piece_row(sub_tile * count + i));
      }
    };
    copy_pieces<D, Mode, Depth, tile_rows, detail::sub_rows(tile_rows, PageSize), count>(
        t, map, to, barrier, {kv_head, depth_offset}, pieces, rest, row);
  }

 private:
  struct Columns {
    int32_t head, first;
  };
  /// rows[i] by comparisons: an index that is no constant would put all rows into local memory.
  FOLIO_HOST_DEVICE constexpr uint32_t piece_row(int i) const {
    uint32_t row = rows[0];
    FOLIO_UNROLL
    for (int k = 1; k < num_pages; ++k) row = i == k ? rows[k] : row;
    return row;
  }
  template <DType D, tma::Swizzle Mode, int Depth, int SmemRows, int Rows, int Count, class Machine,
            class RowOf>
  FOLIO_DEVICE_FUNCTION static void copy_pieces(Machine& t, const typename Machine::TileMap& map,
                                                uint32_t to, SharedMemBarrier barrier,
                                                Columns columns, int pieces, tma::RestOfTile rest,
                                                RowOf row_of) {
    constexpr int chunk = tma::swizzle_granularity(D, Mode);
    constexpr int chunks = (Depth + chunk - 1) / chunk;
    constexpr int chunk_bytes = chunk * (bit_width(D) / 8);
    static_assert(SmemRows >= Rows * Count, "the tile's rows fit into shared memory's");
    static_assert(Rows * chunk_bytes % 128 == 0 || (Count == 1 && chunks == 1),
                  "boxes begin at multiples of 128 bytes");
    FOLIO_UNROLL
    for (int i = 0; i < Count; ++i) {
      const bool is_asked = i < pieces;
      if (!is_asked && rest == tma::RestOfTile::skip) continue;
      // All rows of a box that begins so far in front of row 0 are out of bounds.
      const int32_t row = is_asked ? row_of(i) : -Rows;
      FOLIO_UNROLL
      for (int j = 0; j < chunks; ++j) {
        const tma::Coordinates<3> at{{columns.first + j * chunk, columns.head, row}};
        const auto offset = static_cast<uint32_t>((j * SmemRows + i * Rows) * chunk_bytes);
        t.template copy_tile<3>(map, at, to + offset, barrier.address);
      }
    }
  }
};

namespace detail {

/// Table entries per load of `populate`: the largest power of two, at most 8, that divides both the
/// number of pages of the tile and the pages of the promised alignment. 1 for a tile inside one
/// page.
FOLIO_HOST_DEVICE constexpr int populate_chunk(int tile_rows, int page_size, int base_alignment) {
  const int pages = num_sub(tile_rows, page_size);
  if (pages == 1) return 1;
  const int aligned = base_alignment / page_size;
  const int chunk = pages & -pages;
  const int limit = aligned & -aligned;
  const int smaller = chunk < limit ? chunk : limit;
  return smaller < 8 ? smaller : 8;
}

/// A plane of pages seen as a matrix of rows, one token's record each.
template <int PageSize>
struct PagedRows {
  int64_t num_pages = 0;
  int64_t row_stride = 0;  ///< rows from one page to the next

  /// Rows from the first to the last one; row num_kv_rows() is out of bounds.
  FOLIO_HOST_DEVICE constexpr int64_t num_kv_rows() const {
    return num_pages == 0 ? 0 : (num_pages - 1) * row_stride + PageSize;
  }
  /// Row of key `tok_idx` of the sequence of a table row; num_kv_rows() if its page is unassigned.
  FOLIO_HOST_DEVICE constexpr int64_t row_idx(const uint32_t* table_row, uint32_t tok_idx) const {
    constexpr auto page_rows = static_cast<uint32_t>(PageSize);
    const int64_t page = table_row[tok_idx / page_rows];
    return page < num_pages ? page * row_stride + tok_idx % page_rows : num_kv_rows();
  }
  /// Row of slot `encoded_index` = page * page_size + offset. Negative indices come back unchanged,
  /// those past the pages give -1.
  FOLIO_HOST_DEVICE constexpr int64_t get_tma_row(int64_t encoded_index) const {
    if (encoded_index < 0) return encoded_index;
    if (encoded_index / PageSize >= num_pages) return -1;
    return encoded_index / PageSize * row_stride + encoded_index % PageSize;
  }
};

/// `populate` over one row of a table of pages, as the seed documents it. `table_row` is 32-byte
/// aligned and padded by 16 entries; base_kv_row is a multiple of BaseAlignment.
template <int BN, int PageSize, int BaseAlignment, bool PairCta, bool IsLeader>
FOLIO_HOST_DEVICE inline PagedRowIndices<BN, PageSize, PairCta, IsLeader> populate_rows(
    const uint32_t* table_row, uint32_t base_kv_row, const PagedRows<PageSize>& plane) {
  static_assert(PageSize > 0);
  using Indices = PagedRowIndices<BN, PageSize, PairCta, IsLeader>;
  constexpr int chunk = populate_chunk(BN, PageSize, BaseAlignment);
  const uint32_t first = base_kv_row / static_cast<uint32_t>(PageSize);
  // Zero for every tile of whole pages; a constant then.
  const int64_t in_page = BaseAlignment % PageSize == 0
                              ? 0
                              : static_cast<int64_t>(base_kv_row % static_cast<uint32_t>(PageSize));
  Indices indices;
  for (int i = 0; i < Indices::num_pages; i += chunk) {
    uint32_t entry[chunk];
    __builtin_memcpy(entry, __builtin_assume_aligned(table_row + first + i, sizeof entry),
                     sizeof entry);
    for (int k = 0; k < chunk; ++k) {
      const bool assigned = static_cast<int64_t>(entry[k]) < plane.num_pages;
      const int64_t row = assigned ? static_cast<int64_t>(entry[k]) * plane.row_stride + in_page
                                   : plane.num_kv_rows();
      indices.rows[i + k] = static_cast<uint32_t>(row);
      if (assigned && indices.valid_pages == i + k) ++indices.valid_pages;
    }
  }
  return indices;
}

/// `populate` where a sequence's rows are contiguous: one piece. `row` is num_kv_rows if the
/// sequence has no memory.
template <int BN, bool PairCta, bool IsLeader>
FOLIO_HOST_DEVICE constexpr PagedRowIndices<BN, 0, PairCta, IsLeader> contiguous_rows(
    int64_t row, int64_t num_kv_rows) {
  PagedRowIndices<BN, 0, PairCta, IsLeader> indices;
  indices.rows[0] = static_cast<uint32_t>(row);
  indices.valid_pages = row < num_kv_rows ? 1 : 0;
  return indices;
}

/// Members of a type whose sequences lie in contiguous rows: nothing is paged.
template <class Self>
struct ContiguousRows {
  /// An encoded index without pages is a row already.
  FOLIO_HOST_DEVICE constexpr int64_t get_tma_row(int64_t encoded_index) const {
    return encoded_index;
  }
  template <int BN, int BaseAlignment, bool PairCta = false, bool IsLeader = true>
    requires TileGeometry<BN, 0, PairCta> &&
             base_alignment_is_a_multiple_of_the_piece<BN, 0, BaseAlignment>
  FOLIO_HOST_DEVICE constexpr PagedRowIndices<BN, 0, PairCta, IsLeader> populate(
      uint32_t batch_idx, uint32_t base_kv_row) const {
    const auto& self = static_cast<const Self&>(*this);
    return contiguous_rows<BN, PairCta, IsLeader>(self.row_idx(batch_idx, base_kv_row),
                                                  self.num_kv_rows());
  }
};

}  // namespace detail
}  // namespace folio::inline v1

namespace folio::inline v1 {  // flat names, for one release
using tma::RestOfTile;
}  // namespace folio::inline v1
