// SPDX-License-Identifier: Apache-2.0
/// folio/attention/kv_buffer/in_place_loader.h: staging that is the page itself.
///
/// A stage is a list of groups of 16 rows, each at one stride. A group whose rows are all there, in
/// one run of slots, is read where it lies: loading it is prefetching it. Every other group (an
/// edge of the visible keys, an unassigned page, pages of fewer than 16 slots, elements of another
/// type) is copied or converted row by row into the stage's own memory, with zeros where there is
/// nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/attention/kv_buffer/convert_row.h"
#include "folio/attention/kv_buffer/source.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::kv_buffer {

/// Where the rows to come are fetched to while others are computed on.
enum class PrefetchTo : uint8_t { nowhere = 0, l1 = 1, l2 = 2, non_temporal = 3 };

/// A load step is one row. `Convert` has ConvertRow's function; an instruction set brings its own.
/// For one warp.
template <class Shape, class Convert = ConvertRow>
class InPlaceLoader {
 public:
  using smem_type = typename Shape::smem_type;
  static constexpr int group_rows = 16;
  static constexpr int num_groups = Shape::BN / group_rows;
  static constexpr int num_steps = Shape::BN;
  static constexpr int row_bytes = Shape::smem_cols * static_cast<int>(sizeof(smem_type));
  static constexpr int cache_line_bytes = 64;
  static_assert(Shape::num_warps == 1, "InPlaceLoader: warps do not share addresses");
  static_assert(Shape::bk_smem == Shape::smem_cols && Shape::swizzle.bits == 0,
                "InPlaceLoader: a row of a stage is one block, as in memory: bk_smem = smem_depth, "
                "no swizzle");

  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE explicit InPlaceLoader(smem_type* smem) : smem_(smem) {}

  /// Decides which groups are read in place.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void begin(int stage, const KVSource<Shape>& source) {
    for (int g = 0; g < num_groups; ++g) {
      TileRows rows =
          is_readable(source) ? source.template group<group_rows>(g * group_rows) : TileRows{};
      is_in_place_[stage][g] = rows.data != nullptr;
      if (rows.data == nullptr) rows = {address(own_row(stage, g * group_rows)), row_bytes};
      group_[stage][g] = rows;
    }
  }

  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void load(int stage, const KVSource<Shape>& source,
                                                  int key) {
    const int g = key / group_rows;
    if (!is_in_place_[stage][g])
      return convert.template run<Shape>(source, key, 0, Shape::smem_cols, own_row(stage, key));
    prefetch(group_[stage][g].data + key % group_rows * group_[stage][g].stride_bytes);
  }

  /// Rows [16 * g, + 16) of a stage: `depth` elements each, natural alignment.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE TileRows group(int stage, int g) const {
    return group_[stage][g];
  }

  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE smem_type at(int stage, int key, int column) const {
    const TileRows rows = group_[stage][key / group_rows];
    smem_type value;
    __builtin_memcpy(&value,
                     rows.data + key % group_rows * rows.stride_bytes +
                         int64_t{column} * int64_t{sizeof(smem_type)},
                     sizeof(smem_type));
    return value;
  }

  PrefetchTo prefetch_to = PrefetchTo::l2;
  [[no_unique_address]] Convert convert = {};
  /// Rows are of the operand's type; a Convert that knows of another one says so.
  bool holds_operand = true;

 private:
  /// Whether rows that are there can be read as they are.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE bool is_readable(const KVSource<Shape>& source) const {
    return holds_operand && Shape::operand_type::dtype == Shape::smem_dtype &&
           !source.has_scales() && source.columns == Shape::smem_cols;
  }
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE smem_type* own_row(int stage, int key) const {
    return smem_ + int64_t{stage} * Shape::smem_stage_size + int64_t{key} * Shape::smem_cols;
  }
  FOLIO_HOST_DEVICE static FOLIO_ALWAYS_INLINE const std::byte* address(const void* at) {
    return static_cast<const std::byte*>(at);
  }
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void prefetch(const std::byte* row) const {
    for (int i = 0; i < row_bytes; i += cache_line_bytes) {
      switch (prefetch_to) {
        case PrefetchTo::nowhere: return;
        case PrefetchTo::l1: __builtin_prefetch(row + i, 0, 3); break;
        case PrefetchTo::l2: __builtin_prefetch(row + i, 0, 2); break;
        case PrefetchTo::non_temporal: __builtin_prefetch(row + i, 0, 0); break;
      }
    }
  }

  smem_type* smem_;
  TileRows group_[Shape::num_smem_stages][num_groups] = {};
  bool is_in_place_[Shape::num_smem_stages][num_groups] = {};
};

}  // namespace folio::inline v1::kv_buffer

namespace folio::inline v1 {  // flat names, for one release
using kv_buffer::InPlaceLoader;
using kv_buffer::PrefetchTo;
}  // namespace folio::inline v1
