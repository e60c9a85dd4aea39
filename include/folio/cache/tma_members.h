// SPDX-License-Identifier: Apache-2.0
/// folio/cache/tma_members.h: the create_*_tma_tile members of caches and operands, said once.
///
/// A type derives from CacheTmaTiles or OperandTmaTiles and gives `tma_plane()`, the numbers of its
/// plane. The bases are empty: the type stays trivially copyable and of standard layout. What a
/// member returns is a description for encode(); its check() says what run-time values forbid.
#pragma once

#include <concepts>
#include <cstdint>

#include "folio/cache/tma_constraints.h"
#include "folio/core/host_device.h"
#include "folio/tma/gather4.h"
#include "folio/tma/page_tile.h"
#include "folio/tma/ragged_tile.h"
#include "folio/tma/row_tiles.h"

namespace folio::inline v1 {

namespace detail {

/// Tiles are those of a plane; an operand over a cache that describes none has none.
template <class T>
concept type_describes_its_plane = requires(const T& t) {
  { t.tma_plane() } -> std::same_as<tma::PlaneGeometry>;
};

/// What a type knows of its plane when it is compiled; 0: known at run time only, and refused by
/// check() only.
struct TmaSizes {
  DType dtype = DType::invalid;
  int32_t num_heads = 0;
  int32_t head_size = 0;
  int32_t page_size = 0;
  bool is_mla = false;

  FOLIO_HOST_DEVICE constexpr int64_t row_bytes() const {
    return int64_t{num_heads} * head_size * (bit_width(dtype) / 8);
  }
};

/// Tiles that caches and operands ask for alike: ropes and rows.
template <class Self, TmaSizes S>
struct RowTmaTiles {
  /// The BK bf16 elements of rope behind PaddedDepth bytes of each head.
  template <tma::Swizzle Mode, int BN, int BK, int PaddedDepth>
    requires type_describes_its_plane<Self> &&
             head_is_a_multiple_of_16_bytes<S.dtype, S.head_size> &&
             padded_depth_is_a_multiple_of_16_bytes<PaddedDepth> &&
             head_is_padded_depth_bytes_and_the_rope<S.dtype, S.head_size, PaddedDepth, BK> &&
             TmaTileGeometry<DType::bf16, Mode, BN, BK, S.page_size>
  FOLIO_HOST_DEVICE TMATensorTile<3> create_rope_tma_tile() const {
    return tma::rope_tile(
        plane(), {.swizzle = Mode, .rows = BN, .columns = BK, .padded_depth = PaddedDepth});
  }
  /// Four rows per copy, at coordinates of get_tma_row. TileWidth and TileStride count elements of
  /// TmaType, which sees the same bytes.
  template <int TileWidth, int TileStride = TileWidth, tma::Swizzle Mode = tma::Swizzle::none,
            int TileHeight = 4, tma::DataType TmaType = tma::data_type_of(S.dtype),
            tma::L2Promotion L2 = tma::L2Promotion::none>
    requires type_describes_its_plane<Self> &&
             TmaGather4<TmaType, TileWidth, TileStride, Mode, TileHeight> &&
             tile_stride_is_the_row_of_the_cache<TmaType, TileStride, S.row_bytes()>
  FOLIO_HOST_DEVICE TMATensorTile<2> create_gather4_tma_tile() const {
    return tma::gather4_tile(plane(), {TileHeight, TileWidth, TileStride, Mode, TmaType, L2});
  }
  /// The TileWidth bf16 elements of rope behind PaddedDepth bytes of each row; the pitch is the
  /// whole row.
  template <int TileWidth, int PaddedDepth, tma::Swizzle Mode = tma::Swizzle::none,
            int TileHeight = 4, tma::L2Promotion L2 = tma::L2Promotion::none>
    requires type_describes_its_plane<Self> &&
             padded_depth_is_a_multiple_of_16_bytes<PaddedDepth> &&
             TmaGather4<tma::DataType::bf16, TileWidth, TileWidth, Mode, TileHeight> &&
             tile_stride_is_the_row_of_the_cache<tma::DataType::bf16,
                                                 (PaddedDepth + 2 * TileWidth) / 2, S.row_bytes()>
  FOLIO_HOST_DEVICE TMATensorTile<2> create_rope_gather4_tma_tile() const {
    return tma::rope_gather4_tile(plane(), {TileHeight, TileWidth, PaddedDepth, Mode, L2});
  }

 protected:
  FOLIO_HOST_DEVICE tma::PlaneGeometry plane() const {
    return static_cast<const Self&>(*this).tma_plane();
  }
  /// Depth 0: the whole head.
  template <tma::Swizzle Mode, int BN, int BK, int Depth = 0>
  FOLIO_HOST_DEVICE static constexpr tma::TileSpec spec() {
    return {.swizzle = Mode, .rows = BN, .columns = BK, .depth = Depth};
  }
};

/// A cache's: whole heads.
template <class Self, TmaSizes S>
struct CacheTmaTiles : RowTmaTiles<Self, S> {
  /// Copies of one chunk and at most BN keys, within a page. Coordinates: first column, head, row.
  /// Fold: all chunks in one copy, as chunk after chunk, or with RowMajor as atoms of eight rows
  /// (coordinates in tma/row_tiles.h).
  template <tma::Swizzle Mode, int BN, int BK = padded_depth(S.dtype, Mode, S.head_size),
            int Fold = 1, bool RowMajor = false>
    requires head_is_a_multiple_of_16_bytes<S.dtype, S.head_size> &&
             TmaTileGeometry<S.dtype, Mode, BN, BK, S.page_size> &&
             TmaFold<S.dtype, Mode, BN, S.head_size, BK, S.page_size, Fold, RowMajor>
  FOLIO_HOST_DEVICE auto create_tma_tile() const {
    return detail::row_tile<Fold, RowMajor>(this->plane(), this->template spec<Mode, BN, BK>());
  }
  /// The same keys with a run-time end: rows of a sequence beyond it read as zero and are not
  /// stored to.
  template <tma::Swizzle Mode, int BN, int BK = padded_depth(S.dtype, Mode, S.head_size),
            int Group = 1>
    requires head_is_a_multiple_of_16_bytes<S.dtype, S.head_size> &&
             tile_and_heads_are_whole_groups<S.num_heads, BN, Group> &&
             TmaTileGeometry<S.dtype, Mode, BN / Group, BK, S.page_size>
  FOLIO_HOST_DEVICE RaggedTMA3DTile create_ragged_tma_tile() const {
    return tma::ragged_tile(this->plane(), this->template spec<Mode, BN, BK>(), Group);
  }
  /// Copies with the page id as coordinate: 0, slot, first chunk, head, page. All chunks of a page
  /// at once, or one.
  template <tma::Swizzle Mode, int BN, int BK = padded_depth(S.dtype, Mode, S.head_size),
            tma::ChunksPerCopy PerCopy = tma::ChunksPerCopy::all>
    requires head_is_a_multiple_of_16_bytes<S.dtype, S.head_size> &&
             TmaTileGeometry<S.dtype, Mode, BN, BK, S.page_size> &&
             folded_head_is_whole_swizzle_chunks<S.dtype, Mode, S.head_size, 2>
  FOLIO_HOST_DEVICE TMATensorTile<5> create_page_tma_tile() const {
    return tma::page_tile(this->plane(), this->template spec<Mode, BN, BK>(), PerCopy);
  }
  /// The first LatentDepth columns of latent rows; the others read as zero. The rope behind them:
  /// create_rope_tma_tile with a PaddedDepth of the latent part's bytes.
  template <tma::Swizzle Mode, int BN, int LatentDepth,
            int BK = padded_depth(S.dtype, Mode, LatentDepth)>
    requires cache_keeps_a_latent_row<S.is_mla> &&
             depth_lies_within_the_head<LatentDepth, S.head_size> &&
             head_is_a_multiple_of_16_bytes<S.dtype, S.head_size> &&
             TmaTileGeometry<S.dtype, Mode, BN, BK, S.page_size>
  FOLIO_HOST_DEVICE TMATensorTile<3> create_latent_tma_tile() const {
    return tma::cache_tile(this->plane(), this->template spec<Mode, BN, BK, LatentDepth>());
  }
};

/// An operand's: the first Depth columns of a head. Otherwise as the cache's.
template <class Self, TmaSizes S>
struct OperandTmaTiles : RowTmaTiles<Self, S> {
  template <tma::Swizzle Mode, int BN, int Depth, int BK = padded_depth(S.dtype, Mode, Depth),
            int Fold = 1, bool RowMajor = false>
    requires type_describes_its_plane<Self> && depth_lies_within_the_head<Depth, S.head_size> &&
             head_is_a_multiple_of_16_bytes<S.dtype, S.head_size> &&
             TmaTileGeometry<S.dtype, Mode, BN, BK, S.page_size> &&
             TmaFold<S.dtype, Mode, BN, Depth, BK, S.page_size, Fold, RowMajor>
  FOLIO_HOST_DEVICE auto create_tma_tile() const {
    return detail::row_tile<Fold, RowMajor>(this->plane(),
                                            this->template spec<Mode, BN, BK, Depth>());
  }
  template <tma::Swizzle Mode, int BN, int Depth, int BK = padded_depth(S.dtype, Mode, Depth),
            int Group = 1>
    requires type_describes_its_plane<Self> && depth_lies_within_the_head<Depth, S.head_size> &&
             head_is_a_multiple_of_16_bytes<S.dtype, S.head_size> &&
             tile_and_heads_are_whole_groups<S.num_heads, BN, Group> &&
             TmaTileGeometry<S.dtype, Mode, BN / Group, BK, S.page_size>
  FOLIO_HOST_DEVICE RaggedTMA3DTile create_ragged_tma_tile() const {
    return tma::ragged_tile(this->plane(), this->template spec<Mode, BN, BK, Depth>(), Group);
  }
};

/// An operand with pages: copies with the page id as coordinate, too.
template <class Self, TmaSizes S>
struct PagedOperandTmaTiles : OperandTmaTiles<Self, S> {
  template <tma::Swizzle Mode, int BN, int Depth, int BK = padded_depth(S.dtype, Mode, Depth),
            tma::ChunksPerCopy PerCopy = tma::ChunksPerCopy::all>
    requires type_describes_its_plane<Self> && depth_lies_within_the_head<Depth, S.head_size> &&
             head_is_a_multiple_of_16_bytes<S.dtype, S.head_size> &&
             TmaTileGeometry<S.dtype, Mode, BN, BK, S.page_size> &&
             folded_head_is_whole_swizzle_chunks<S.dtype, Mode, Depth, 2>
  FOLIO_HOST_DEVICE TMATensorTile<5> create_page_tma_tile() const {
    return tma::page_tile(this->plane(), this->template spec<Mode, BN, BK, Depth>(), PerCopy);
  }
};

}  // namespace detail
}  // namespace folio::inline v1
