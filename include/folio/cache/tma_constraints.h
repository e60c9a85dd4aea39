// SPDX-License-Identifier: Apache-2.0
/// folio/cache/tma_constraints.h: what a create_*_tma_tile of a static type asks of its template
/// arguments.
///
/// Each concept is the sentence that the compiler shows when it is not satisfied. What depends on
/// run-time values (addresses, the sizes of tensors and views, 32-bit coordinates) is left to the
/// description's check(); a HeadSize or RowBytes of 0 is such a value.
#pragma once

#include <cstdint>

#include "folio/cache/paged_kv_view.h"
#include "folio/cache/row_indices.h"
#include "folio/core/dtype.h"
#include "folio/tma/gather4.h"
#include "folio/tma/page_tile.h"
#include "folio/tma/swizzle.h"
#include "folio/tma/tensor_map.h"

namespace folio::inline v1::detail {

template <DType D>
concept elements_have_a_tma_type = tma::data_type_of(D) != tma::DataType::invalid;
/// Strides of maps are multiples of 16 bytes.
template <DType D, int HeadSize>
concept head_is_a_multiple_of_16_bytes = HeadSize >= 0 && HeadSize * (bit_width(D) / 8) % 16 == 0;
template <DType D, tma::Swizzle Mode, int BK>
concept tile_columns_are_whole_swizzle_chunks = BK >= 1 && BK % swizzle_granularity(D, Mode) == 0;
template <int BN, int PageSize>
concept box_has_at_most_256_rows = BN >= 1 && sub_rows(BN, PageSize) <= 256;
/// Shared memory receives copies at multiples of 128 bytes.
template <DType D, tma::Swizzle Mode, int BN, int BK, int PageSize>
concept copies_begin_at_multiples_of_128_bytes =
    tile_layout(D, Mode, BN, BK).takes_boxes_of(sub_rows(BN, PageSize));
template <int Depth, int HeadSize>
concept depth_lies_within_the_head = Depth >= 1 && (HeadSize == 0 || Depth <= HeadSize);

/// A tile of BN keys and BK columns, cut into copies of one page and one chunk.
template <DType D, tma::Swizzle Mode, int BN, int BK, int PageSize>
concept TmaTileGeometry =
    elements_have_a_tma_type<D> && tile_columns_are_whole_swizzle_chunks<D, Mode, BK> &&
    tile_and_page_divide_one_another<BN, PageSize> && box_has_at_most_256_rows<BN, PageSize> &&
    copies_begin_at_multiples_of_128_bytes<D, Mode, BN, BK, PageSize>;

template <DType D, tma::Swizzle Mode, int BK, int Fold>
concept fold_is_one_or_every_chunk_of_the_tile =
    Fold == 1 || (Fold >= 2 && Fold == BK / swizzle_granularity(D, Mode));
/// A folded copy counts chunks; one that hangs over the head's end would bring columns of the next
/// head.
template <DType D, tma::Swizzle Mode, int Depth, int Fold>
concept folded_head_is_whole_swizzle_chunks =
    Fold == 1 || Depth % swizzle_granularity(D, Mode) == 0;
template <int BN, int PageSize, int Fold, bool RowMajor>
concept row_major_tile_is_whole_atoms_of_8_rows =
    !RowMajor || (Fold >= 2 && sub_rows(BN, PageSize) % 8 == 0 && PageSize % 8 == 0);
template <DType D, tma::Swizzle Mode, int BN, int Depth, int BK, int PageSize, int Fold,
          bool RowMajor>
concept TmaFold = fold_is_one_or_every_chunk_of_the_tile<D, Mode, BK, Fold> &&
                  folded_head_is_whole_swizzle_chunks<D, Mode, Depth, Fold> &&
                  row_major_tile_is_whole_atoms_of_8_rows<BN, PageSize, Fold, RowMajor>;

template <int NumHeads, int BN, int Group>
concept tile_and_heads_are_whole_groups = Group >= 1 && BN % Group == 0 && NumHeads % Group == 0;

template <DType D, int HeadSize, int PaddedDepth, int BK>
concept head_is_padded_depth_bytes_and_the_rope =
    HeadSize == 0 ||
    (PaddedDepth >= 0 && BK >= 1 && PaddedDepth + 2 * BK == HeadSize * (bit_width(D) / 8));
template <int PaddedDepth> concept padded_depth_is_a_multiple_of_16_bytes = PaddedDepth % 16 == 0;

template <int TileHeight>
concept tile_height_is_a_multiple_of_4 = TileHeight >= 4 && TileHeight % 4 == 0;
template <int TileWidth, int TileStride>
concept tile_width_is_at_most_tile_stride = TileWidth >= 1 && TileWidth <= TileStride;
/// The map walks whole rows of the cache, all heads.
template <tma::DataType T, int TileStride, int64_t RowBytes>
concept tile_stride_is_the_row_of_the_cache =
    RowBytes == 0 || int64_t{TileStride} * element_bytes(T) == RowBytes;
template <tma::DataType T, int TileWidth, tma::Swizzle Mode>
concept gather4_box_is_whole_16_bytes_and_at_most_256_elements =
    tma::gather4_box_width(T, TileWidth, Mode) <= 256 &&
    tma::gather4_box_width(T, TileWidth, Mode) * element_bytes(T) % 16 == 0;
template <tma::DataType T, int TileWidth, tma::Swizzle Mode, int TileHeight>
concept groups_of_4_rows_begin_at_multiples_of_128_bytes =
    (TileHeight == 4 && tma::gather4_num_col_groups(T, TileWidth, Mode) == 1) ||
    4 * tma::gather4_box_width(T, TileWidth, Mode) * element_bytes(T) % 128 == 0;
template <tma::DataType T, int TileWidth, int TileStride, tma::Swizzle Mode, int TileHeight>
concept TmaGather4 =
    element_bytes(T) > 0 &&
    tile_height_is_a_multiple_of_4<TileHeight>&&
        tile_width_is_at_most_tile_stride<TileWidth, TileStride>&&
            gather4_box_is_whole_16_bytes_and_at_most_256_elements<T, TileWidth, Mode>&&
                groups_of_4_rows_begin_at_multiples_of_128_bytes<T, TileWidth, Mode, TileHeight>;

/// The latent part of a row is a cache's own notion where V lies inside K.
template <bool IsMla> concept cache_keeps_a_latent_row = IsMla;
template <DType ScaleDType> concept operand_has_scales = is_scale_dtype(ScaleDType);
template <DType ScaleDType, int BMN>
concept scale_tile_is_whole_16_bytes_and_at_most_256_scales =
    BMN >= 1 && BMN <= 256 && BMN * (bit_width(ScaleDType) / 8) % 16 == 0;

/// create_tma_tile: rank 3, or folded.
template <int Fold, bool RowMajor>
FOLIO_HOST_DEVICE constexpr auto row_tile(const tma::PlaneGeometry& plane,
                                          const tma::TileSpec& spec) {
  if constexpr (Fold == 1) {
    return tma::cache_tile(plane, spec);
  } else if constexpr (!RowMajor) {
    return tma::folded_tile(plane, spec);
  } else {
    return tma::row_major_tile(plane, spec);
  }
}

}  // namespace folio::inline v1::detail
