// SPDX-License-Identifier: Apache-2.0
/// folio/attention/kv_buffer/source.h: what a loader reads: the rows of a tile, restricted to the
/// columns of one stage.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/attention/kv_buffer/iterator.h"
#include "folio/attention/kv_buffer/tile.h"
#include "folio/cache/page_walk.h"
#include "folio/core/dtype.h"
#include "folio/core/element.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::detail {

/// Operands whose scales are read element by element: quantised, and no view.
template <class O> concept HasLoadedScales = !HasView<O> && O::scale_dtype != DType::invalid;

/// Of the keys of a tile; nothing for operands that need none.
template <class Operand>
struct LoadedScales {};
template <HasLoadedScales Operand>
struct LoadedScales<Operand> {
  const Operand* operand = nullptr;
  int64_t batch_idx = 0;
  int64_t kv_head_idx = 0;
  int64_t first_key = 0;  ///< of the tile, in the sequence

  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE float at(int key, int32_t dim) const {
    return to_float(
        operand->template load_scale<1>(batch_idx, first_key + key, kv_head_idx, dim)[0]);
  }
};

}  // namespace folio::inline v1::detail

namespace folio::inline v1::kv_buffer {

/// Column c of the stage is dim first_column + c of the rows' used dims. ISA-safe.
template <class Shape>
struct KVSource {
  const KVCacheTile<Shape::BN>* tile = nullptr;
  int32_t first_column = 0;  ///< 0 in full stages, a strip's first in streamed ones
  /// columns [0, columns) are in memory, all others of the stage are to read as zero
  int32_t columns = 0;
  const ScaleView* scale_view = nullptr;  ///< of a view; null: no scales
  [[no_unique_address]] detail::LoadedScales<typename Shape::operand_type> loaded_scales = {};

  static constexpr int element_bytes = bit_width(Shape::operand_type::dtype) / 8;

  /// Column 0 of row `key`; null: the row is to read as zero.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE const std::byte* row(int key) const {
    const std::byte* at = tile->row(key);
    return at != nullptr ? at + first_column * element_bytes : nullptr;
  }
  /// Column 0 of rows [first, first + Count), all there and one stride apart; otherwise data is
  /// null.
  template <int Count>
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE TileRows group(int first) const {
    const TileRows rows = tile->template group<Count>(first);
    return {rows.data != nullptr ? rows.data + first_column * element_bytes : nullptr,
            rows.stride_bytes};
  }
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE bool has_scales() const {
    return detail::HasLoadedScales<typename Shape::operand_type> || scale_view != nullptr;
  }
  /// What the stored element (key, column) is multiplied by; 1 without scales. Row `key` is there.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE float scale(int key, int column) const {
    const int32_t dim = Shape::head_dim_offset + first_column + column;
    if constexpr (detail::HasLoadedScales<typename Shape::operand_type>) {
      return loaded_scales.at(key, dim);
    } else {
      if (scale_view == nullptr) return 1.0f;
      const std::byte* at = tile->scales(key) +
                            detail::granule_of(*scale_view, dim) * scale_view->granule_stride_bytes;
      const float scale = detail::load_scale(at, scale_view->dtype);
      return scale_view->tensor_scale != nullptr ? scale * *scale_view->tensor_scale : scale;
    }
  }
};

}  // namespace folio::inline v1::kv_buffer

namespace folio::inline v1 {  // flat names, for one release
using kv_buffer::KVSource;
}  // namespace folio::inline v1
